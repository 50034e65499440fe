import { describe, expect, it } from 'vitest';

import { foldSaid, readConversation, readLastWords, readSaid } from '@/engine/lastWords';

const at = (second: number) => `2026-05-02T10:00:${String(second).padStart(2, '0')}.000Z`;

const answer = (text: string) => ({ result: { kind: 'message', parts: [{ kind: 'text', text }] } });

const row = (id: string, second: number, more: Record<string, unknown> = {}) => ({
  id,
  ts: at(second),
  status: 'pending',
  caller: 'user:ada',
  data: { source: 'canvas_user', text: id },
  ...more,
});

const fromWriter = { caller: 'workspace:w', data: { source: 'peer_agent', peer_name: 'writer', text: 'from a peer' } };

describe('the last words of an agent', () => {
  it('are the newest in each direction, whoever the other side is', () => {
    const rows = [
      row('open', 9, fromWriter),
      row('done', 1, { status: 'ok', duration_ms: 2000, response_body: answer('yes') }),
    ];
    expect(readLastWords(rows, [{ id: 'n', ts: at(2), summary: 'by the way' }])).toEqual({
      received: { who: 'writer', text: 'from a peer', at: at(9) },
      said: { who: 'ada', text: 'yes', at: at(3) },
    });
  });

  it('are what it told people by itself, when that came later', () => {
    const rows = [row('done', 1, { status: 'ok', response_body: answer('yes') })];
    expect(readLastWords(rows, [{ id: 'n', ts: at(5), summary: 'by the way' }]).said).toEqual({
      who: 'people',
      text: 'by the way',
      at: at(5),
    });
  });

  it.each([
    ['canvas_user', 'org-token:t', 'a program'],
    ['schedule', 'system:scheduler', 'a schedule'],
    ['system', 'system:x', 'the platform'],
    ['peer_agent', 'workspace:gone', 'an agent'],
    [7, 7, 'somebody'],
  ])('of %s come from %s, called %s', (source, caller, who) => {
    expect(readLastWords([row('x', 1, { caller, data: { source, text: 'hi' } })], []).received?.who).toBe(who);
  });

  it('are none before anything was said, and a failure is nothing said', () => {
    expect(readLastWords([], [])).toEqual({ received: null, said: null });
    const failed = row('x', 1, { status: 'error', response_body: { error: { message: 'broken' } } });
    expect(readLastWords([failed], []).said).toBeNull();
  });

  it('survive rows of any shape, and are cut', () => {
    expect(readLastWords('nonsense', { rows: 7 })).toEqual({ received: null, said: null });
    expect(readLastWords([null, 7, {}], [{}]).received).toEqual({ who: 'somebody', text: '', at: '' });
    const long = row('x', 1, { data: { text: 'a\nb'.repeat(50_000) } });
    expect(readLastWords([long], []).received?.text.length).toBeLessThan(300);
  });

  it('stand beside the conversation with people', () => {
    const conversation = readConversation([row('peer', 2, fromWriter), row('mine', 1)], []);
    expect(conversation.entries.map(({ rowId }) => rowId)).toEqual(['mine']);
    expect(conversation.last.received?.who).toBe('writer');
  });
});

describe('what each agent said last', () => {
  const event = (event_type: string, workspace_id: string, second: number, payload: unknown) => ({
    event_type,
    workspace_id,
    created_at: at(second),
    payload,
  });

  it('is read from the log, in whatever order', () => {
    const rows = [
      event('A2A_RESPONSE', 'a', 5, { response_body: answer('newer') }),
      event('A2A_RESPONSE', 'a', 1, { response_body: answer('older') }),
      event('A2A_RESPONSE', 'b', 2, { response_body: { error: { message: 'broken' } } }),
      event('AGENT_MESSAGE', 'c', 3, { message: 'hello\nall' }),
      null,
    ];
    expect(readSaid(rows)).toEqual({ a: { text: 'newer', at: at(5) }, c: { text: 'hello all', at: at(3) } });
  });

  it('follows what happens', () => {
    const frame = { event: 'AGENT_MESSAGE', workspaceId: 'a', timestamp: at(7), payload: { message: 'now' } };
    const said = foldSaid({}, frame);
    expect(said).toEqual({ a: { text: 'now', at: at(7) } });
    expect(foldSaid(said, { ...frame, timestamp: at(6) })).toBe(said);
    expect(foldSaid(said, { ...frame, event: 'WORKSPACE_ONLINE' })).toBe(said);
  });
});
