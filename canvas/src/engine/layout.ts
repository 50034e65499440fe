import { isTeam } from '@/engine/tree';
import type { Branch } from '@/engine/tree';

export interface Size {
  readonly width: number;
  readonly height: number;
}

export interface Box extends Size {
  readonly id: string;
  readonly x: number;
  readonly y: number;
}

export interface Link {
  readonly from: string;
  readonly to: string;
}

/** How much of an agent a box shows, and at which zoom its name can still be read. */
export interface Density {
  readonly name: 'full' | 'compact';
  readonly width: number;
  readonly agentHeight: number;
  /** Of a lead, whose box also shows its team. */
  readonly teamHeight: number;
  readonly gap: number;
  readonly readableZoom: number;
}

export const FULL: Density = {
  name: 'full', width: 248, agentHeight: 116, teamHeight: 162, gap: 20, readableZoom: 0.8,
};
export const COMPACT: Density = {
  name: 'compact', width: 188, agentHeight: 54, teamHeight: 100, gap: 10, readableZoom: 0.72,
};

const FRAME_PADDING = 12;
const TEAM_GAP = 28;
const LEVEL_GAP = 36;

export interface Layout extends Size {
  readonly density: Density;
  /** Agents in reading order (a lead before its team), which is also the order of the Tab key. */
  readonly boxes: readonly Box[];
  /** Around the members that stand in a grid, under the id of their lead. */
  readonly frames: readonly Box[];
  /** From a lead to the frame of its members (by the frame's key) and to the leads below it. */
  readonly links: readonly Link[];
  /** All that an open team takes, by the id of its lead. */
  readonly areas: ReadonlyMap<string, Box>;
}

export const frameKey = (leadId: string): string => `frame:${leadId}`;

/** What is being drawn, and how. */
interface Drawing {
  readonly folded: ReadonlySet<string>;
  readonly density: Density;
  readonly shape: number;
  readonly boxes: Box[];
  readonly frames: Box[];
  readonly links: Link[];
  readonly areas: Map<string, Box>;
}

/** Something that knows its size before it has a place. */
interface Block extends Size {
  readonly draw: (x: number, y: number) => void;
}

/** A block that a line from the lead above leads to. */
interface LinkedBlock extends Block {
  readonly key: string;
}

function heightOf(branch: Branch, { teamHeight, agentHeight }: Density): number {
  return isTeam(branch) ? teamHeight : agentHeight;
}

/** As many columns as the shape wants, but never so many that the last row is nearly empty. */
function columnsFor(cells: number, shape: number): number {
  const wanted = Math.min(cells, Math.max(1, Math.round(Math.sqrt(cells * shape))));
  return Math.ceil(cells / Math.ceil(cells / wanted));
}

/** Members in rows; with a frame around them when they have a lead. */
function gridBlock(drawing: Drawing, members: readonly Branch[], leadId: string | null): LinkedBlock {
  const { density, boxes, frames } = drawing;
  const { width: cell, gap } = density;
  const columns = columnsFor(members.length, drawing.shape);
  const padding = leadId === null ? 0 : FRAME_PADDING;
  // Single agents before folded teams: so at most one row has boxes of both heights.
  const ordered = [...members.filter((one) => !isTeam(one)), ...members.filter(isTeam)];
  const rows = Array.from({ length: Math.ceil(ordered.length / columns) }, (_, row) =>
    ordered.slice(row * columns, (row + 1) * columns),
  );
  const heights = rows.map((row) => Math.max(...row.map((one) => heightOf(one, density))));
  const width = columns * cell + (columns - 1) * gap + 2 * padding;
  const height = heights.reduce((sum, one) => sum + one, (rows.length - 1) * gap) + 2 * padding;
  const draw = (x: number, y: number): void => {
    if (leadId !== null) frames.push({ id: leadId, x, y, width, height });
    let top = y + padding;
    rows.forEach((row, at) => {
      row.forEach((branch, column) => {
        const left = x + padding + column * (cell + gap);
        boxes.push({ id: branch.id, x: left, y: top, width: cell, height: heightOf(branch, density) });
      });
      top += (heights[at] ?? 0) + gap;
    });
  };
  return { key: frameKey(leadId ?? ''), width, height, draw };
}

function sideBySide(blocks: readonly Block[]): Block {
  const draw = (x: number, y: number): void => {
    let left = x;
    for (const block of blocks) {
      block.draw(left, y);
      left += block.width + TEAM_GAP;
    }
  };
  return {
    width: blocks.reduce((sum, block) => sum + block.width, Math.max(0, blocks.length - 1) * TEAM_GAP),
    height: Math.max(0, ...blocks.map((block) => block.height)),
    draw,
  };
}

function blocksOf(drawing: Drawing, members: readonly Branch[], leadId: string | null): LinkedBlock[] {
  const isOpen = (branch: Branch): boolean => isTeam(branch) && !drawing.folded.has(branch.id);
  const cells = members.filter((member) => !isOpen(member));
  const teams = members.filter(isOpen).map((member) => teamBlock(drawing, member));
  return cells.length === 0 ? teams : [gridBlock(drawing, cells, leadId), ...teams];
}

function teamBlock(drawing: Drawing, { id, children }: Branch): LinkedBlock {
  const { width: cell, teamHeight } = drawing.density;
  const blocks = blocksOf(drawing, children, id);
  const below = sideBySide(blocks);
  const width = Math.max(cell, below.width);
  const height = teamHeight + LEVEL_GAP + below.height;
  const draw = (x: number, y: number): void => {
    drawing.areas.set(id, { id, x, y, width, height });
    drawing.boxes.push({ id, x: x + (width - cell) / 2, y, width: cell, height: teamHeight });
    drawing.links.push(...blocks.map(({ key }) => ({ from: id, to: key })));
    below.draw(x + (width - below.width) / 2, y + teamHeight + LEVEL_GAP);
  };
  return { key: id, width, height, draw };
}

/**
 * The organisation as boxes. Members without a team of their own, and folded teams, wrap into a grid below their lead;
 * open teams stand beside it. `shape` is the wanted ratio of columns to rows in a grid.
 */
export function layoutTree(
  tree: readonly Branch[],
  folded: ReadonlySet<string>,
  density: Density,
  shape: number,
): Layout {
  const drawing: Drawing = { folded, density, shape, boxes: [], frames: [], links: [], areas: new Map() };
  const all = sideBySide(blocksOf(drawing, tree, null));
  all.draw(0, 0);
  const { boxes, frames, links, areas } = drawing;
  return { density, width: all.width, height: all.height, boxes, frames, links, areas };
}

/** Of equally good ones the first is taken: wide grids look best. */
const SHAPES = [3, 2, 1.5, 1, 0.75, 0.5, 0.35, 0.2, 0.12, 0.06, 5, 8, 13];
const CLEARLY_BETTER = 1.03;

/** The zoom at which all of it fits, at most its natural size. */
export function zoomToFit(content: Size, area: Size): number {
  return Math.min(1, area.width / Math.max(1, content.width), area.height / Math.max(1, content.height));
}

function bestShape(tree: readonly Branch[], folded: ReadonlySet<string>, area: Size, density: Density): Layout {
  return SHAPES.map((shape) => layoutTree(tree, folded, density, shape)).reduce((best, next) =>
    zoomToFit(next, area) > zoomToFit(best, area) * CLEARLY_BETTER ? next : best,
  );
}

/** Full boxes where they can be read, compact ones where not, in grids whose shape suits the area. */
export function chooseLayout(tree: readonly Branch[], folded: ReadonlySet<string>, area: Size): Layout {
  const full = bestShape(tree, folded, area, FULL);
  if (isReadable(full, area)) return full;
  return bestShape(tree, folded, area, COMPACT);
}

/** Whether the names can be read while all of it is shown. */
export function isReadable(layout: Layout, area: Size): boolean {
  return zoomToFit(layout, area) >= layout.density.readableZoom;
}
