/** Starts a timer and returns how to call it off. */
export type After = (ms: number, callback: () => void) => () => void;

/** Many requests within the window become one run at its end; a steady storm cannot put it off for ever. */
export function coalesce(run: () => void, ms: number, after: After): () => void {
  let planned = false;
  return () => {
    if (planned) return;
    planned = true;
    after(ms, () => {
      planned = false;
      run();
    });
  };
}

/** The same for each of several things, which are run together. */
export function coalesceEach(run: (name: string) => void, ms: number, after: After): (name: string) => void {
  const waiting = new Set<string>();
  const runAll = coalesce(() => {
    const names = [...waiting];
    waiting.clear();
    names.forEach(run);
  }, ms, after);
  return (name) => {
    waiting.add(name);
    runAll();
  };
}
