import type { Edge } from '@xyflow/react';

import type { AgentNodeType, Team } from '@/components/AgentNode';
import type { FrameNodeType } from '@/components/OrgGraph/FrameNode';
import type { LastSaid } from '@/engine/lastWords';
import { frameKey } from '@/engine/layout';
import type { Box, Density, Layout } from '@/engine/layout';
import { sameCounts } from '@/engine/teams';
import type { Workspace } from '@/engine/workspaces';
import type { Organisation } from '@/store/organisation';

export type GraphNode = AgentNodeType | FrameNodeType;

/** Everything that decides what one box shows. */
interface Seen {
  readonly workspace: Workspace;
  readonly box: Box;
  readonly density: Density['name'];
  readonly open: boolean;
  readonly said: string;
  readonly team: Team | null;
}

function sameTeam(one: Team | null, other: Team | null): boolean {
  if (one === null || other === null) return one === other;
  return one.isFolded === other.isFolded && sameCounts(one.counts, other.counts);
}

function sameSeen(one: Seen, other: Seen): boolean {
  return (
    one.workspace === other.workspace &&
    one.box === other.box &&
    one.open === other.open &&
    one.said === other.said &&
    sameTeam(one.team, other.team)
  );
}

function placed({ x, y, width, height }: Box): Pick<AgentNodeType, 'position' | 'width' | 'height' | 'measured'> {
  return { position: { x, y }, width, height, measured: { width, height } };
}

function agentNode({ workspace, box, density, open, said, team }: Seen): AgentNodeType {
  return { id: workspace.id, type: 'agent', ...placed(box), data: { workspace, density, open, said, team } };
}

/** Gives the same node again while nothing on it has changed, so that a change of one agent draws one box. */
export function createNodeCache(): (seen: Seen) => AgentNodeType {
  const kept = new Map<string, { readonly seen: Seen; readonly node: AgentNodeType }>();
  return (seen) => {
    const known = kept.get(seen.workspace.id);
    if (known !== undefined && sameSeen(known.seen, seen)) return known.node;
    const node = agentNode(seen);
    kept.set(seen.workspace.id, { seen, node });
    return node;
  };
}

export function agentNodes(
  { workspaces, folded, counts }: Organisation,
  { boxes, density }: Layout,
  openId: string | null,
  said: LastSaid,
  nodeOf: (seen: Seen) => AgentNodeType,
): AgentNodeType[] {
  const rows = new Map(workspaces.map((workspace) => [workspace.id, workspace]));
  return boxes.flatMap((box) => {
    const workspace = rows.get(box.id);
    if (workspace === undefined) return [];
    const all = counts.get(box.id);
    const team = all === undefined ? null : { counts: all, isFolded: folded.has(box.id) };
    const words = Object.hasOwn(said, box.id) ? (said[box.id]?.text ?? '') : '';
    return [nodeOf({ workspace, box, density: density.name, open: box.id === openId, said: words, team })];
  });
}

/** The frames come first, so that they lie under their members. */
export function frameNodes({ frames }: Layout): FrameNodeType[] {
  return frames.map((box) => ({ id: frameKey(box.id), type: 'frame', ...placed(box), data: {}, focusable: false }));
}

export function edgesOf({ links }: Layout): Edge[] {
  return links.map(({ from, to }) => ({
    id: `${from}>${to}`,
    source: from,
    target: to,
    type: 'smoothstep',
    // Half the way down all lines turn, so that those of one lead run together.
    pathOptions: { offset: 12, borderRadius: 6 },
    focusable: false,
  }));
}
