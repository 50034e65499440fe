import { zoomToFit } from '@/engine/layout';
import type { Box, Size } from '@/engine/layout';

/** What part of the drawing is shown: a point of it is shown at `point * zoom + (x, y)`. */
export interface View {
  readonly x: number;
  readonly y: number;
  readonly zoom: number;
}

type Rect = Omit<Box, 'id'>;

const MARGIN = 24;
/** On the left stand the buttons that zoom. */
const LEFT = 64;

/** The room that is left for the drawing. */
export function inside({ width, height }: Size): Size {
  return { width: Math.max(1, width - LEFT - MARGIN), height: Math.max(1, height - 2 * MARGIN) };
}

/** All of the rectangle, in the middle; at the top when there is room to spare, because trees grow downwards. */
export function viewOf(rect: Rect, area: Size): View {
  const zoom = zoomToFit(rect, inside(area));
  return {
    zoom,
    x: Math.max(LEFT, (area.width - rect.width * zoom) / 2) - rect.x * zoom,
    y: Math.max(MARGIN, Math.min(2 * MARGIN, (area.height - rect.height * zoom) / 2)) - rect.y * zoom,
  };
}

/** The least shift that brings a stretch into view; of one that is too long the beginning. */
function shift(start: number, length: number, room: number): number {
  if (start < MARGIN || length > room - 2 * MARGIN) return MARGIN - start;
  return Math.min(0, room - MARGIN - (start + length));
}

/** The same view, moved just so far that the rectangle is in it. */
export function viewWith(view: View, rect: Rect, area: Size): View {
  const { x, y, zoom } = view;
  return {
    zoom,
    x: x + shift(rect.x * zoom + x, rect.width * zoom, area.width),
    y: y + shift(rect.y * zoom + y, rect.height * zoom, area.height),
  };
}
