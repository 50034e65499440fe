import { describe, expect, it } from 'vitest';

import { agentNodes, createNodeCache } from '@/components/OrgGraph/nodes';
import { chooseLayout } from '@/engine/layout';
import { countTeams } from '@/engine/teams';
import { buildTree } from '@/engine/tree';
import { readWorkspaces } from '@/engine/workspaces';
import type { Workspace } from '@/engine/workspaces';

const rows = readWorkspaces([
  { id: 'root', status: 'online' },
  { id: 'lead', status: 'online', parent_id: 'root' },
  { id: 'a', status: 'online', parent_id: 'lead' },
  { id: 'b', status: 'online', parent_id: 'lead' },
  { id: 'c', status: 'online', parent_id: 'root' },
]);
const tree = buildTree(rows);
const layout = chooseLayout(tree, new Set(), { width: 1280, height: 620 });
const nodeOf = createNodeCache();

const drawn = (workspaces: readonly Workspace[], openId: string | null = null) => {
  const organisation = { workspaces, tree, folded: new Set<string>(), counts: countTeams(tree, workspaces) };
  return new Map(agentNodes(organisation, layout, openId, {}, nodeOf).map((node) => [node.id, node]));
};

const changed = (before: ReturnType<typeof drawn>, after: ReturnType<typeof drawn>) =>
  [...after].filter(([id, node]) => before.get(id) !== node).map(([id]) => id);

describe('the boxes of the graph', () => {
  it('stay the same while nothing on them changes', () => {
    expect(changed(drawn(rows), drawn([...rows]))).toEqual([]);
  });

  it('change for one agent, and for the teams whose counts it is in', () => {
    const paused = rows.map((row) => (row.id === 'a' ? { ...row, status: 'paused' } : row));
    expect(changed(drawn(rows), drawn(paused)).sort()).toEqual(['a', 'lead', 'root']);
  });

  it('change for the agent that is opened, and for the one that was', () => {
    expect(changed(drawn(rows, 'b'), drawn(rows, 'c')).sort()).toEqual(['b', 'c']);
  });
});
