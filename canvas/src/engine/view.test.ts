import { describe, expect, it } from 'vitest';

import { inside, viewOf, viewWith } from '@/engine/view';
import type { View } from '@/engine/view';

const AREA = { width: 1000, height: 600 };

const shown = ({ x, y, zoom }: View, rect: { x: number; y: number; width: number; height: number }) => ({
  left: rect.x * zoom + x,
  top: rect.y * zoom + y,
  right: (rect.x + rect.width) * zoom + x,
  bottom: (rect.y + rect.height) * zoom + y,
});

function expectInside(view: View, rect: { x: number; y: number; width: number; height: number }) {
  const { left, top, right, bottom } = shown(view, rect);
  expect(left).toBeGreaterThanOrEqual(0);
  expect(top).toBeGreaterThanOrEqual(0);
  expect(right).toBeLessThanOrEqual(AREA.width + 1e-6);
  expect(bottom).toBeLessThanOrEqual(AREA.height + 1e-6);
}

describe('showing all', () => {
  it('really shows all, however large it is', () => {
    for (const [width, height] of [[200, 100], [5000, 80], [90, 70_000], [40_000, 40_000]] as const) {
      const rect = { x: -300, y: 40, width, height };
      expectInside(viewOf(rect, AREA), rect);
    }
  });

  it('does not enlarge what is small', () => {
    expect(viewOf({ x: 0, y: 0, width: 10, height: 10 }, AREA).zoom).toBe(1);
  });

  it('has a size also where there is no room', () => {
    expect(inside({ width: 0, height: 0 })).toEqual({ width: 1, height: 1 });
  });
});

describe('moving a box into view', () => {
  const box = { width: 200, height: 100 };

  it('moves nothing when it is in view', () => {
    const view = { x: 10, y: 20, zoom: 0.8 };
    expect(viewWith(view, { x: 300, y: 200, ...box }, AREA)).toEqual(view);
  });

  it('moves as far as needed from every side, and keeps the zoom', () => {
    const view = { x: 0, y: 0, zoom: 0.5 };
    for (const [x, y] of [[-900, 0], [9000, 0], [0, -700], [0, 8000], [5000, 5000]] as const) {
      const rect = { x, y, ...box };
      const moved = viewWith(view, rect, AREA);
      expect(moved.zoom).toBe(0.5);
      expectInside(moved, rect);
    }
  });

  it('shows the beginning of what is too large', () => {
    const rect = { x: 500, y: 500, width: 4000, height: 4000 };
    const { left, top } = shown(viewWith({ x: 0, y: 0, zoom: 1 }, rect, AREA), rect);
    expect([left, top]).toEqual([24, 24]);
  });
});
