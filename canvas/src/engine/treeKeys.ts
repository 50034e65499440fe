import type { TreeRow } from '@/engine/tree';

/** What a key does in a tree: go to a row, fold or unfold the team of this one, or nothing. */
export type TreeMove = { readonly to: string } | { readonly fold: boolean } | null;

type Key = (rows: readonly TreeRow[], at: number) => TreeMove;

const goTo = (row: TreeRow | undefined): TreeMove => (row === undefined ? null : { to: row.id });

function parentOf(rows: readonly TreeRow[], at: number): TreeRow | undefined {
  const level = rows[at]?.level ?? 0;
  return rows.slice(0, at).findLast((row) => row.level < level);
}

const KEYS: Readonly<Record<string, Key>> = {
  ArrowDown: (rows, at) => goTo(rows[at + 1]),
  ArrowUp: (rows, at) => goTo(rows[at - 1]),
  Home: (rows) => goTo(rows[0]),
  End: (rows) => goTo(rows.at(-1)),
  ArrowRight: (rows, at) => {
    const row = rows[at];
    if (row?.isTeam !== true) return null;
    return row.isFolded ? { fold: false } : goTo(rows[at + 1]);
  },
  ArrowLeft: (rows, at) => {
    const row = rows[at];
    return row?.isTeam === true && !row.isFolded ? { fold: true } : goTo(parentOf(rows, at));
  },
};

/** The keys of a tree view as the ARIA practices have them. */
export function treeMove(key: string, rows: readonly TreeRow[], at: number): TreeMove {
  return Object.hasOwn(KEYS, key) ? (KEYS[key]?.(rows, at) ?? null) : null;
}
