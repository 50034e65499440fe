import { describe, expect, it } from 'vitest';

import { COMPACT, FULL, chooseLayout, frameKey, isReadable, layoutTree, zoomToFit } from '@/engine/layout';
import type { Box, Layout } from '@/engine/layout';
import { buildTree, teamIds } from '@/engine/tree';
import type { Shape } from '@/engine/tree';

const NOTHING: ReadonlySet<string> = new Set();
const DESK = { width: 1280, height: 620 };

/** The same numbers for the same seed: a failing tree can be looked at again. */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 48271) % 2147483647;
    return state / 2147483647;
  };
}

/** A tree of any form: chains, stars, forests and what lies between. */
function anyRows(seed: number): Shape[] {
  const next = random(seed);
  const reach = 1 + Math.floor(next() * 12);
  return Array.from({ length: 1 + Math.floor(next() * 60) }, (_, n) => ({
    id: `${n}`,
    parentId: n === 0 || next() < 0.05 ? null : `${Math.max(0, n - 1 - Math.floor(next() * reach))}`,
  }));
}

function anyLayout(seed: number): { readonly rows: Shape[]; readonly layout: Layout } {
  const rows = anyRows(seed);
  const tree = buildTree(rows);
  const next = random(seed + 1);
  const folded = new Set(teamIds(tree).filter(() => next() < 0.3));
  return { rows, layout: layoutTree(tree, folded, next() < 0.5 ? FULL : COMPACT, 0.1 + next() * 4) };
}

const SEEDS = Array.from({ length: 150 }, (_, n) => n + 1);

const overlap = (one: Box, other: Box): boolean =>
  one.x < other.x + other.width &&
  other.x < one.x + one.width &&
  one.y < other.y + other.height &&
  other.y < one.y + one.height;

const holds = (outer: Omit<Box, 'id'>, inner: Box): boolean =>
  inner.x >= outer.x &&
  inner.y >= outer.y &&
  inner.x + inner.width <= outer.x + outer.width &&
  inner.y + inner.height <= outer.y + outer.height;

/** A root, three teams of twelve, and a lead for each of them. */
const FORTY: Shape[] = [
  { id: 'root', parentId: null },
  ...[1, 2, 3].flatMap((team) => [
    { id: `lead-${team}`, parentId: 'root' },
    ...Array.from({ length: 12 }, (_, n) => ({ id: `agent-${team}-${n}`, parentId: `lead-${team}` })),
  ]),
];

describe('the layout of any tree', () => {
  it('never lets two boxes overlap', () => {
    for (const seed of SEEDS) {
      const { boxes } = anyLayout(seed).layout;
      boxes.forEach((one, at) => {
        boxes.slice(at + 1).forEach((other) => {
          expect(overlap(one, other), `${one.id} and ${other.id} of tree ${seed}`).toBe(false);
        });
      });
    }
  });

  it('puts members below their lead and inside the area of its team', () => {
    for (const seed of SEEDS) {
      const { rows, layout } = anyLayout(seed);
      const boxes = new Map(layout.boxes.map((box) => [box.id, box]));
      for (const { id, parentId } of rows) {
        const [box, lead] = [boxes.get(id), boxes.get(parentId ?? '')];
        if (box === undefined || lead === undefined) continue;
        const area = layout.areas.get(lead.id);
        expect(box.y, `${id} of tree ${seed}`).toBeGreaterThanOrEqual(lead.y + lead.height);
        expect(area !== undefined && holds(area, box), `${id} of tree ${seed}`).toBe(true);
      }
    }
  });

  it('keeps teams apart: an area holds only what belongs to it', () => {
    for (const seed of SEEDS) {
      const { rows, layout } = anyLayout(seed);
      const parents = new Map(rows.map(({ id, parentId }) => [id, parentId]));
      const isBelow = (id: string | null, lead: string): boolean =>
        id === lead || (id !== null && isBelow(parents.get(id) ?? null, lead));
      for (const [lead, area] of layout.areas) {
        const inside = layout.boxes.filter((box) => overlap(area, box));
        expect(inside.filter(({ id }) => !isBelow(id, lead)), `in ${lead} of tree ${seed}`).toEqual([]);
      }
    }
  });

  it('shows everybody once, but for those inside folded teams, within its size', () => {
    for (const seed of SEEDS) {
      const { rows, layout } = anyLayout(seed);
      const shown = layout.boxes.map(({ id }) => id);
      expect(new Set(shown).size).toBe(shown.length);
      const whole = { x: 0, y: 0, width: layout.width, height: layout.height };
      layout.boxes.forEach((box) => {
        expect(holds(whole, box)).toBe(true);
      });
      const open = layoutTree(buildTree(rows), NOTHING, FULL, 1);
      expect(open.boxes).toHaveLength(rows.length);
    }
  });

  it('leads a line to every frame and to every lead below', () => {
    for (const seed of SEEDS) {
      const { layout } = anyLayout(seed);
      const ends = new Set([...layout.boxes.map(({ id }) => id), ...layout.frames.map(({ id }) => frameKey(id))]);
      layout.links.forEach(({ from, to }) => {
        expect(ends.has(from) && ends.has(to), `${from} to ${to} of tree ${seed}`).toBe(true);
      });
      layout.frames.forEach(({ id }) => {
        expect(layout.links.filter(({ to }) => to === frameKey(id))).toHaveLength(1);
      });
    }
  });

  it('depends on who stands where, and on nothing else in the rows', () => {
    const rows = anyRows(7).map((row) => ({ ...row, status: 'online' }));
    const changed = rows.map((row) => ({ ...row, status: 'paused' }));
    expect(chooseLayout(buildTree(changed), NOTHING, DESK)).toEqual(chooseLayout(buildTree(rows), NOTHING, DESK));
  });
});

describe('the layout of an organisation', () => {
  it('wraps a team of twelve into a grid', () => {
    const layout = chooseLayout(buildTree(FORTY), NOTHING, DESK);
    const team = layout.boxes.filter(({ id }) => id.startsWith('agent-1-'));
    const [columns, rows] = [new Set(team.map(({ x }) => x)).size, new Set(team.map(({ y }) => y)).size];
    expect(columns).toBeGreaterThan(1);
    expect(rows).toBeGreaterThan(1);
    expect(columns * rows).toBe(12);
  });

  it('shows forty agents on a small desktop so that their names can be read', () => {
    const layout = chooseLayout(buildTree(FORTY), NOTHING, DESK);
    expect(layout.density).toBe(COMPACT);
    expect(isReadable(layout, DESK)).toBe(true);
  });

  it('shows a few agents in full', () => {
    const layout = chooseLayout(buildTree(FORTY.slice(0, 4)), NOTHING, DESK);
    expect(layout.density).toBe(FULL);
    expect(zoomToFit(layout, DESK)).toBe(1);
  });

  it('folds a team into the one box of its lead, in the grid with the others', () => {
    const folded = new Set(['lead-1', 'lead-2', 'lead-3']);
    const layout = chooseLayout(buildTree(FORTY), folded, DESK);
    expect(layout.boxes.map(({ id }) => id)).toEqual(['root', 'lead-1', 'lead-2', 'lead-3']);
    expect(layout.frames.map(({ id }) => id)).toEqual(['root']);
  });

  it('stands agents without any tree in a grid, too', () => {
    const rows = Array.from({ length: 30 }, (_, n) => ({ id: `${n}`, parentId: null }));
    const { boxes, frames, links } = chooseLayout(buildTree(rows), NOTHING, DESK);
    expect(new Set(boxes.map(({ y }) => y)).size).toBeGreaterThan(1);
    expect([frames, links]).toEqual([[], []]);
  });

  it('is empty for an empty organisation', () => {
    expect(layoutTree([], NOTHING, FULL, 1)).toMatchObject({ boxes: [], links: [], width: 0, height: 0 });
  });
});
