import { describe, expect, it } from 'vitest';

import { readWorkspaces, runtimeBadge, subtreeOf } from '@/engine/workspaces';
import { lookOf } from '@/engine/status';

describe('reading workspace rows', () => {
  it('keeps what the canvas shows', () => {
    const [workspace] = readWorkspaces([
      { id: 'w', name: 'lead', role: '', status: 'online', parent_id: null, external: true, runtime: 'external', pending: 3 },
    ]);
    expect(workspace).toMatchObject({ id: 'w', name: 'lead', status: 'online', parentId: null, pending: 3 });
    expect(workspace && runtimeBadge(workspace)).toBe('remote');
  });

  it('tells whether an agent has ever brought a card', () => {
    const rows = [{ id: 'a', agent_card: null }, { id: 'b', agent_card: {} }, { id: 'c' }, { id: 'd', agent_card: 'x' }];
    expect(readWorkspaces(rows).map(({ hasCard }) => hasCard)).toEqual([false, true, false, false]);
  });

  it('leaves out rows without an id and removed ones', () => {
    expect(readWorkspaces([{}, 7, null, { id: 'w', status: 'removed' }])).toEqual([]);
    expect(readWorkspaces({ error: 'no' })).toEqual([]);
  });
});

describe('the subtree of an agent', () => {
  it('holds the agent and everything below it', () => {
    const rows = readWorkspaces([
      { id: 'a' },
      { id: 'b', parent_id: 'a' },
      { id: 'c', parent_id: 'b' },
      { id: 'd' },
    ]);
    expect([...subtreeOf(rows, 'a')]).toEqual(['a', 'b', 'c']);
  });
});

describe('the word for a status', () => {
  it('is in plain language, and the status itself where we know none', () => {
    expect(lookOf('awaiting_agent').label).toBe('waiting for agent');
    expect(lookOf('paused').tone).toBe('off');
    expect(lookOf('levitating')).toEqual({ label: 'levitating', tone: 'off' });
    expect(lookOf('').label).toBe('unknown');
  });
});
