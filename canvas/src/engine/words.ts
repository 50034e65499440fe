/** Others' words, cut to what a page can bear. */
export function shortened(said: string, most: number): string {
  // A surrogate pair that the cut went through would be shown as a broken character.
  return said.length <= most ? said : `${said.slice(0, most).replace(/[\uD800-\uDBFF]$/, '')}…`;
}

/** The same on one line. */
export function oneLine(said: string, most: number): string {
  // Cut first: whoever wrote a megabyte of spaces shall not keep us busy.
  return shortened(said.slice(0, most * 4).replace(/\s+/g, ' ').trim(), most);
}

/** `1 skill`, `2 skills`. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}
