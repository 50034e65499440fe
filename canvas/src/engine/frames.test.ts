import { describe, expect, it } from 'vitest';

import { chatOf, foldFrame, needsAllRows, needsRow, readFrame, touchesCard, touchesChat } from '@/engine/frames';
import type { Frame } from '@/engine/frames';
import { readWorkspaces } from '@/engine/workspaces';

const rows = readWorkspaces([
  { id: 'lead', name: 'lead', status: 'online', external: true },
  { id: 'hosted', name: 'hosted', status: 'paused', parent_id: 'lead' },
]);

const frame = (event: string, workspaceId: string, payload: Record<string, unknown> = {}): Frame => ({
  id: '1',
  event,
  workspaceId,
  timestamp: '2026-05-02T10:15:30.123Z',
  payload,
});

const statusAfter = (event: string, id: string) =>
  foldFrame(rows, frame(event, id)).find((workspace) => workspace.id === id)?.status;

describe('reading a frame', () => {
  it('reads a persisted and an ephemeral event', () => {
    expect(readFrame('{"id":"7","event":"WORKSPACE_ONLINE","workspace_id":"w","timestamp":"t","payload":{"a":1}}')).toEqual({
      id: '7',
      event: 'WORKSPACE_ONLINE',
      workspaceId: 'w',
      timestamp: 't',
      payload: { a: 1 },
    });
    expect(readFrame('{"event":"TASK_UPDATED"}')).toMatchObject({ id: null, payload: {} });
  });

  it('passes over what is not an event', () => {
    for (const data of ['', '{', '[]', '{"op":"pong"}', 7, undefined]) expect(readFrame(data)).toBeNull();
  });
});

describe('folding an event into the rows', () => {
  it.each([
    ['WORKSPACE_ONLINE', 'online'],
    ['WORKSPACE_OFFLINE', 'offline'],
    ['WORKSPACE_PAUSED', 'paused'],
    ['WORKSPACE_DEGRADED', 'degraded'],
    ['WORKSPACE_AWAITING_AGENT', 'awaiting_agent'],
    ['WORKSPACE_PROVISIONING', 'provisioning'],
    ['WORKSPACE_PROVISION_FAILED', 'failed'],
    ['WORKSPACE_HIBERNATED', 'hibernated'],
    ['WORKSPACE_WAKING', 'provisioning'],
  ])('%s makes the agent %s', (event, status) => {
    expect(statusAfter(event, 'lead')).toBe(status);
  });

  it('resumes a remote agent to waiting and a hosted one to starting', () => {
    expect(statusAfter('WORKSPACE_RESUMED', 'lead')).toBe('awaiting_agent');
    expect(statusAfter('WORKSPACE_RESUMED', 'hosted')).toBe('provisioning');
  });

  it('keeps the reason of an outage and forgets it afterwards', () => {
    const off = foldFrame(rows, frame('WORKSPACE_OFFLINE', 'lead', { reason: 'no heartbeat for 90 s' }));
    expect(off[0]?.statusReason).toBe('no heartbeat for 90 s');
    expect(foldFrame(off, frame('WORKSPACE_ONLINE', 'lead'))[0]?.statusReason).toBeNull();
  });

  it('shows the current task and the last heartbeat', () => {
    const busy = foldFrame(rows, frame('TASK_UPDATED', 'lead', { current_task: 'reading', active_tasks: 2 }));
    expect(busy[0]).toMatchObject({ currentTask: 'reading', activeTasks: 2 });
    const seen = foldFrame(rows, frame('WORKSPACE_HEARTBEAT', 'lead', { active_tasks: 1 }));
    expect(seen[0]?.lastHeartbeatAt).toBe('2026-05-02T10:15:30.123Z');
  });

  it('applies what an update names', () => {
    const moved = foldFrame(rows, frame('WORKSPACE_UPDATED', 'hosted', { name: 'ada', parent_id: null, tier: 3 }));
    expect(moved[1]).toMatchObject({ name: 'ada', parentId: null, status: 'paused' });
  });

  it('changes one row and keeps the others as they are', () => {
    const after = foldFrame(rows, frame('WORKSPACE_PAUSED', 'lead'));
    expect(after[0]).not.toBe(rows[0]);
    expect(after[1]).toBe(rows[1]);
  });

  it('knows of a card that came with the agent or later', () => {
    expect(foldFrame(rows, frame('WORKSPACE_ONLINE', 'lead', { agent_card: {} }))[0]?.hasCard).toBe(true);
    expect(foldFrame(rows, frame('AGENT_CARD_UPDATED', 'lead'))[0]?.hasCard).toBe(true);
    expect(foldFrame(rows, frame('WORKSPACE_PAUSED', 'lead'))[0]?.hasCard).toBe(false);
  });

  it('forgets the task of an agent that starts again, and says why a start failed', () => {
    const busy = foldFrame(rows, frame('TASK_UPDATED', 'lead', { current_task: 'reading', active_tasks: 2 }));
    const again = foldFrame(busy, frame('WORKSPACE_PROVISIONING', 'lead'));
    expect(again[0]).toMatchObject({ currentTask: '', activeTasks: 0 });
    const failed = foldFrame(again, frame('WORKSPACE_PROVISION_FAILED', 'lead', { error: 'no such engine' }));
    expect(failed[0]?.statusReason).toBe('no such engine');
  });

  it('removes an agent together with everything below it', () => {
    expect(foldFrame(rows, frame('WORKSPACE_REMOVED', 'lead'))).toEqual([]);
  });

  it('gives back the same rows when the event says nothing about them', () => {
    expect(foldFrame(rows, frame('WORKSPACE_CLAIMED', 'lead'))).toBe(rows);
    expect(foldFrame(rows, frame('WORKSPACE_ONLINE', 'stranger'))).toBe(rows);
  });
});

describe('what an event asks for', () => {
  it('reads all rows only when events were missed', () => {
    expect(needsAllRows(frame('RESYNC_REQUIRED', ''))).toBe(true);
    for (const event of ['WORKSPACE_PAUSED', 'WORKSPACE_UPDATED', 'WORKSPACE_HEARTBEAT']) {
      expect(needsAllRows(frame(event, 'lead'))).toBe(false);
    }
  });

  it.each(['PAUSED', 'RESUMED', 'OFFLINE', 'ONLINE', 'HIBERNATED', 'WAKING', 'UPDATED', 'HEARTBEAT', 'REMOVED'])(
    'reads nothing after WORKSPACE_%s of a known agent',
    (event) => {
      expect(needsRow(rows, frame(`WORKSPACE_${event}`, 'lead'))).toBe(false);
    },
  );

  it('reads one row when the agent is new or the event says less than changed', () => {
    expect(needsRow(rows, frame('WORKSPACE_PROVISIONING', 'stranger'))).toBe(true);
    expect(needsRow(rows, frame('WORKSPACE_ONLINE', 'lead', { url: '' }))).toBe(true);
    expect(needsRow(rows, frame('WORKSPACE_DEGRADED', 'lead'))).toBe(true);
    expect(needsRow(rows, frame('WORKSPACE_RENAMED_SOMEHOW', 'lead'))).toBe(true);
    expect(needsRow(rows, frame('WORKSPACE_HEARTBEAT', 'stranger'))).toBe(false);
    expect(needsRow(rows, frame('MESSAGE_ACCEPTED', 'lead'))).toBe(false);
  });

  it('looks at the card again whenever it may be another', () => {
    expect(touchesCard(frame('AGENT_CARD_UPDATED', 'lead'))).toBe(true);
    expect(touchesCard(frame('WORKSPACE_HEARTBEAT', 'lead'))).toBe(true);
    expect(touchesCard(frame('A2A_RESPONSE', 'lead'))).toBe(false);
  });

  it('knows whose conversation has changed', () => {
    expect(touchesChat(frame('A2A_RESPONSE', 'lead'))).toBe(true);
    expect(touchesChat(frame('MESSAGE_FAILED', 'lead'))).toBe(true);
    expect(touchesChat(frame('WORKSPACE_PAUSED', 'lead'))).toBe(false);
    expect(chatOf(frame('MESSAGE_FAILED', 'caller', { target_id: 'lead' }))).toBe('lead');
    expect(chatOf(frame('AGENT_MESSAGE', 'lead'))).toBe('lead');
  });
});
