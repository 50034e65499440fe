import { describe, expect, it } from 'vitest';

import { buildTree, treeRows } from '@/engine/tree';
import { treeMove } from '@/engine/treeKeys';

const tree = buildTree([
  { id: 'a', parentId: null },
  { id: 'b', parentId: 'a' },
  { id: 'c', parentId: 'b' },
  { id: 'd', parentId: 'a' },
]);

const press = (key: string, id: string, ...folded: string[]) => {
  const rows = treeRows(tree, new Set(folded));
  return treeMove(key, rows, rows.findIndex((row) => row.id === id));
};

describe('the keys of the tree', () => {
  it('go up, down, to the first and to the last row, and no further', () => {
    expect(press('ArrowDown', 'b')).toEqual({ to: 'c' });
    expect(press('ArrowDown', 'b', 'b')).toEqual({ to: 'd' });
    expect(press('ArrowUp', 'd')).toEqual({ to: 'c' });
    expect(press('Home', 'd')).toEqual({ to: 'a' });
    expect(press('End', 'a')).toEqual({ to: 'd' });
    expect(press('ArrowUp', 'a')).toBeNull();
    expect(press('ArrowDown', 'd')).toBeNull();
  });

  it('fold an open team, then go to its parent', () => {
    expect(press('ArrowLeft', 'b')).toEqual({ fold: true });
    expect(press('ArrowLeft', 'b', 'b')).toEqual({ to: 'a' });
    expect(press('ArrowLeft', 'c')).toEqual({ to: 'b' });
  });

  it('unfold a folded team, then go into it', () => {
    expect(press('ArrowRight', 'b', 'b')).toEqual({ fold: false });
    expect(press('ArrowRight', 'b')).toEqual({ to: 'c' });
    expect(press('ArrowRight', 'd')).toBeNull();
  });

  it('leave other keys alone', () => {
    expect(press('x', 'a')).toBeNull();
    expect(press('toString', 'a')).toBeNull();
  });
});
