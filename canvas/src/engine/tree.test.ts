import { describe, expect, it } from 'vitest';

import { ancestorsOf, buildTree, keepWhileSame, sameShape, teamIds, treeRows } from '@/engine/tree';
import type { Branch } from '@/engine/tree';

const row = (id: string, parentId: string | null = null) => ({ id, parentId });

/** The tree in brackets: a(b c(d)). */
const drawn = (tree: readonly Branch[]): string =>
  tree.map(({ id, children }) => (children.length === 0 ? id : `${id}(${drawn(children)})`)).join(' ');

describe('the tree', () => {
  it('puts everybody below their parent, in the order of the rows', () => {
    expect(drawn(buildTree([row('b', 'a'), row('a'), row('c', 'b'), row('d'), row('e', 'a')]))).toBe('a(b(c) e) d');
    expect(buildTree([])).toEqual([]);
  });

  it('shows an agent whose parent is not listed as a root', () => {
    expect(drawn(buildTree([row('orphan', 'gone')]))).toBe('orphan');
  });

  it('shows every agent once, also when the rows form a cycle', () => {
    expect(drawn(buildTree([row('a', 'b'), row('b', 'a'), row('self', 'self')]))).toBe('self a(b)');
  });

  it('knows its teams, parents first', () => {
    expect(teamIds(buildTree([row('a'), row('b', 'a'), row('c', 'b'), row('d', 'a')]))).toEqual(['a', 'b']);
  });
});

describe('the shape of the tree', () => {
  it('is the same while nobody comes, goes or moves', () => {
    const rows = [{ ...row('a'), status: 'online' }, { ...row('b', 'a'), status: 'online' }];
    expect(sameShape(rows, rows.map((one) => ({ ...one, status: 'paused' })))).toBe(true);
    expect(sameShape(rows, rows.slice(1))).toBe(false);
    expect(sameShape(rows, [row('a'), row('b')])).toBe(false);
    expect(sameShape(rows, [row('b', 'a'), row('a')])).toBe(false);
  });

  it('keeps the first value until another one comes', () => {
    const keep = keepWhileSame(sameShape);
    const first = [row('a')];
    expect(keep(first)).toBe(first);
    expect(keep([row('a')])).toBe(first);
    const other = [row('b')];
    expect(keep(other)).toBe(other);
  });
});

describe('those above an agent', () => {
  it('are listed from the root down', () => {
    expect(ancestorsOf([row('a'), row('b', 'a'), row('c', 'b')], 'c')).toEqual(['a', 'b']);
    expect(ancestorsOf([row('a')], 'a')).toEqual([]);
  });

  it('end where the rows form a cycle or leave the organisation', () => {
    expect(ancestorsOf([row('a', 'b'), row('b', 'a')], 'a')).toEqual(['b']);
    expect(ancestorsOf([row('a', 'gone')], 'a')).toEqual([]);
  });
});

describe('the tree as a list', () => {
  const tree = buildTree([row('a'), row('b', 'a'), row('c', 'b'), row('d', 'a')]);
  const lines = (...folded: string[]) =>
    treeRows(tree, new Set(folded)).map(({ id, level, position, siblings }) => [id, level, position, siblings]);

  it('says at which level and place each agent stands', () => {
    expect(lines()).toEqual([
      ['a', 1, 1, 1],
      ['b', 2, 1, 2],
      ['c', 3, 1, 1],
      ['d', 2, 2, 2],
    ]);
  });

  it('leaves out what is inside folded teams, and nothing else', () => {
    expect(lines('b').map(([id]) => id)).toEqual(['a', 'b', 'd']);
    expect(lines('a').map(([id]) => id)).toEqual(['a']);
    // Who has no team cannot be folded.
    expect(lines('d').map(([id]) => id)).toEqual(['a', 'b', 'c', 'd']);
  });
});
