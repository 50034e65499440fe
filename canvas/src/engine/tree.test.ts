import { describe, expect, it } from 'vitest';

import { layoutTree } from '@/engine/tree';

const row = (id: string, parentId: string | null = null) => ({ id, parentId });

function placeOf(layout: ReturnType<typeof layoutTree>, id: string) {
  const place = layout.places.find((one) => one.id === id);
  if (place === undefined) throw new Error(`no place for ${id}`);
  return place;
}

describe('the tree layout', () => {
  it('is empty for an empty organisation', () => {
    expect(layoutTree([])).toEqual({ places: [], links: [] });
  });

  it('puts a parent above and between its children', () => {
    const layout = layoutTree([row('lead'), row('left', 'lead'), row('right', 'lead')]);
    const lead = placeOf(layout, 'lead');
    const left = placeOf(layout, 'left');
    const right = placeOf(layout, 'right');
    expect(lead.x).toBe((left.x + right.x) / 2);
    expect(left.y).toBe(right.y);
    expect(left.y).toBeGreaterThan(lead.y);
    expect(layout.links).toEqual([
      { from: 'lead', to: 'left' },
      { from: 'lead', to: 'right' },
    ]);
  });

  it('lists a parent before its children, in the order of the rows', () => {
    const layout = layoutTree([row('b', 'a'), row('a'), row('c', 'b'), row('d')]);
    expect(layout.places.map(({ id }) => id)).toEqual(['a', 'b', 'c', 'd']);
  });

  it('shows an agent whose parent is not listed as a root', () => {
    expect(placeOf(layoutTree([row('orphan', 'gone')]), 'orphan').depth).toBe(0);
  });

  it('shows every agent once, also when the rows form a cycle', () => {
    const layout = layoutTree([row('a', 'b'), row('b', 'a'), row('self', 'self')]);
    expect(layout.places.map(({ id }) => id).sort()).toEqual(['a', 'b', 'self']);
  });

  it('never lets two agents overlap, whatever the tree', () => {
    for (let seed = 1; seed <= 60; seed += 1) {
      const rows = Array.from({ length: 40 }, (_, n) =>
        row(`${n}`, n === 0 ? null : `${(n * seed * 7919) % Math.max(1, Math.min(n, (seed % 9) + 2))}`),
      );
      const { places } = layoutTree(rows);
      expect(places).toHaveLength(rows.length);
      expect(new Set(places.map(({ x, y }) => `${x},${y}`)).size).toBe(rows.length);
    }
  });
});
