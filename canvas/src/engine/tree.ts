import type { Workspace } from '@/engine/workspaces';

export const NODE_WIDTH = 248;
export const NODE_HEIGHT = 116;
const COLUMN = NODE_WIDTH + 40;
const LEVEL = NODE_HEIGHT + 72;

export interface Place {
  readonly id: string;
  readonly x: number;
  readonly y: number;
  readonly depth: number;
}

export interface Link {
  readonly from: string;
  readonly to: string;
}

export interface TreeLayout {
  /** In reading order (a parent before its children), which is also the order of the Tab key. */
  readonly places: readonly Place[];
  readonly links: readonly Link[];
}

type Shape = Pick<Workspace, 'id' | 'parentId'>;

function childrenByParent(rows: readonly Shape[]): Map<string | null, string[]> {
  const known = new Set(rows.map(({ id }) => id));
  const children = new Map<string | null, string[]>();
  for (const { id, parentId } of rows) {
    const parent = parentId !== null && parentId !== id && known.has(parentId) ? parentId : null;
    children.set(parent, [...(children.get(parent) ?? []), id]);
  }
  return children;
}

/**
 * Parents stand centred above their children, leaves side by side, trees of a forest left to right.
 * A row whose parent is not among the rows stands as a root; rows that only form a cycle do too.
 */
export function layoutTree(rows: readonly Shape[]): TreeLayout {
  const children = childrenByParent(rows);
  const places = new Map<string, Place>();
  const links: Link[] = [];
  let nextColumn = 0;

  const visit = (id: string, depth: number): number => {
    places.set(id, { id, x: 0, y: depth * LEVEL, depth });
    const below = (children.get(id) ?? []).filter((child) => !places.has(child));
    const columns = below.map((child) => {
      links.push({ from: id, to: child });
      return visit(child, depth + 1);
    });
    const first = columns.at(0);
    const last = columns.at(-1);
    const column = first === undefined || last === undefined ? nextColumn++ : (first + last) / 2;
    places.set(id, { id, x: column * COLUMN, y: depth * LEVEL, depth });
    return column;
  };

  (children.get(null) ?? []).forEach((root) => visit(root, 0));
  rows.filter(({ id }) => !places.has(id)).forEach(({ id }) => places.has(id) || visit(id, 0));
  return { places: [...places.values()], links };
}
