import { describe, expect, it } from 'vitest';

import { countAll, countTeams, countWords, foldEvery, foldedAtFirst, foldedTeams, sameCounts } from '@/engine/teams';
import { buildTree, teamIds } from '@/engine/tree';
import { readWorkspaces } from '@/engine/workspaces';

const rows = readWorkspaces([
  { id: 'root', status: 'online', active_tasks: 1 },
  { id: 'lead', status: 'degraded', parent_id: 'root' },
  { id: 'a', status: 'awaiting_agent', parent_id: 'lead' },
  { id: 'b', status: 'offline', parent_id: 'lead', active_tasks: 3 },
  { id: 'c', status: 'paused', parent_id: 'root' },
]);

const NARROW = { width: 390, height: 700 };
const DESK = { width: 1280, height: 620 };

const org = (teams: number, size: number) =>
  buildTree([
    { id: 'root', parentId: null },
    ...Array.from({ length: teams }, (_, team) => [
      { id: `lead-${team}`, parentId: 'root' },
      ...Array.from({ length: size }, (_, n) => ({ id: `agent-${team}-${n}`, parentId: `lead-${team}` })),
    ]).flat(),
  ]);

describe('the counts of a team', () => {
  it('hold its lead and all below it', () => {
    const counts = countTeams(buildTree(rows), rows);
    expect([...counts.keys()].sort()).toEqual(['lead', 'root']);
    expect(counts.get('lead')).toEqual({ agents: 3, online: 1, busy: 0, waiting: 1, down: 1 });
    expect(counts.get('root')).toEqual({ agents: 5, online: 2, busy: 1, waiting: 1, down: 1 });
    expect(countAll(rows)).toEqual(counts.get('root'));
  });

  it('are put into words, without those that are nobody', () => {
    expect(countWords({ agents: 12, online: 9, busy: 3, waiting: 2, down: 1 })).toEqual([
      '9 online',
      '3 busy',
      '2 waiting',
      '1 down',
    ]);
    expect(countWords({ agents: 2, online: 0, busy: 0, waiting: 0, down: 2 })).toEqual(['0 online', '2 down']);
  });

  it('are the same when every figure is', () => {
    const one = countAll(rows);
    expect(sameCounts(one, { ...one })).toBe(true);
    expect(sameCounts(one, { ...one, busy: 7 })).toBe(false);
    expect(sameCounts(null, one)).toBe(false);
  });
});

describe('folding', () => {
  it('begins open where all names can be read, and folded where not', () => {
    expect(foldedAtFirst(org(3, 12), DESK, false, 40)).toEqual([]);
    expect(foldedAtFirst(org(10, 29), DESK, false, 301)).toHaveLength(10);
    expect(foldedAtFirst(org(3, 12), NARROW, true, 40)).toEqual([]);
    expect(foldedAtFirst(org(10, 29), NARROW, true, 301)).toHaveLength(10);
  });

  it('never begins with the only root folded: that would hide everybody', () => {
    expect(foldedAtFirst(org(10, 29), DESK, false, 301)).not.toContain('root');
  });

  it('follows the choice of the reader, team by team', () => {
    const tree = org(3, 2);
    const atFirst = new Set(['lead-0', 'lead-1']);
    expect([...foldedTeams(tree, atFirst, { 'lead-1': false, 'lead-2': true, gone: true })]).toEqual(['lead-0', 'lead-2']);
  });

  it('folds or opens every team at once', () => {
    const tree = org(3, 2);
    const folded = foldedTeams(tree, new Set(), foldEvery(tree, true));
    expect([...folded]).toEqual(['lead-0', 'lead-1', 'lead-2']);
    expect(foldedTeams(tree, new Set(teamIds(tree)), foldEvery(tree, false)).size).toBe(0);
  });
});
