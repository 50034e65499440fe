import type { Workspace } from '@/engine/workspaces';

/** The part of a workspace that decides its place in the tree. */
export type Shape = Pick<Workspace, 'id' | 'parentId'>;

/** An agent and everything below it. One with children is the lead of a team. */
export interface Branch {
  readonly id: string;
  readonly children: readonly Branch[];
}

export const isTeam = ({ children }: Branch): boolean => children.length > 0;

function childrenByParent(rows: readonly Shape[]): Map<string | null, string[]> {
  const known = new Set(rows.map(({ id }) => id));
  const children = new Map<string | null, string[]>();
  for (const { id, parentId } of rows) {
    const parent = parentId !== null && parentId !== id && known.has(parentId) ? parentId : null;
    const siblings = children.get(parent);
    if (siblings === undefined) children.set(parent, [id]);
    else siblings.push(id);
  }
  return children;
}

/**
 * The roots of the organisation, in the order of the rows.
 * A row whose parent is not among the rows stands as a root; of rows that only form a cycle the first one does.
 */
export function buildTree(rows: readonly Shape[]): readonly Branch[] {
  const children = childrenByParent(rows);
  const seen = new Set<string>();
  const grow = (id: string): Branch => {
    seen.add(id);
    const below = (children.get(id) ?? []).filter((child) => !seen.has(child));
    return { id, children: below.map(grow) };
  };
  const roots = (children.get(null) ?? []).map(grow);
  const cycles = rows.flatMap(({ id }) => (seen.has(id) ? [] : [grow(id)]));
  return [...roots, ...cycles];
}

/** Whether two lists of rows make the same tree: what else changed in them moves nothing. */
export function sameShape(one: readonly Shape[], other: readonly Shape[]): boolean {
  if (one === other) return true;
  if (one.length !== other.length) return false;
  return one.every(({ id, parentId }, at) => id === other[at]?.id && parentId === other[at].parentId);
}

/** Gives back the earlier value as long as the next one is the same, so that nothing is computed anew from it. */
export function keepWhileSame<T>(isSame: (one: T, other: T) => boolean): (next: T) => T {
  let kept: { readonly value: T } | null = null;
  return (next) => {
    if (kept === null || !isSame(kept.value, next)) kept = { value: next };
    return kept.value;
  };
}

/** Ids of all leads, parents first. */
export function teamIds(tree: readonly Branch[]): string[] {
  return tree.flatMap((branch) => (isTeam(branch) ? [branch.id, ...teamIds(branch.children)] : []));
}

/** Those who stand above an agent, the root first. A cycle in the rows ends the walk. */
export function ancestorsOf(rows: readonly Shape[], id: string): string[] {
  const parents = new Map(rows.map((row) => [row.id, row.parentId]));
  const above: string[] = [];
  let next = parents.get(id) ?? null;
  while (next !== null && parents.has(next) && next !== id && !above.includes(next)) {
    above.unshift(next);
    next = parents.get(next) ?? null;
  }
  return above;
}

/** One line of the tree as a list. Levels and positions count from 1, as in ARIA. */
export interface TreeRow {
  readonly id: string;
  readonly level: number;
  readonly position: number;
  readonly siblings: number;
  readonly isTeam: boolean;
  readonly isFolded: boolean;
}

/** The tree from top to bottom, without what is inside folded teams. */
export function treeRows(tree: readonly Branch[], folded: ReadonlySet<string>, level = 1): TreeRow[] {
  return tree.flatMap((branch, at) => {
    const isFolded = isTeam(branch) && folded.has(branch.id);
    const place = { level, position: at + 1, siblings: tree.length };
    const row = { id: branch.id, ...place, isTeam: isTeam(branch), isFolded };
    return [row, ...(isFolded ? [] : treeRows(branch.children, folded, level + 1))];
  });
}
