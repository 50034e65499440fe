import { describe, expect, it } from 'vitest';

import { mergeChat, openQuestion, readHistory, runningIn } from '@/engine/chat';
import type { HistoryEntry, Outgoing } from '@/engine/chat';

const at = (second: number) => `2026-05-02T10:00:${String(second).padStart(2, '0')}.000Z`;

const reply = (text: string) => ({ jsonrpc: '2.0', id: 1, result: { kind: 'message', parts: [{ kind: 'text', text }] } });

interface Received {
  readonly id: string;
  readonly text: string;
  readonly second: number;
  readonly status?: string;
  readonly source?: string;
  readonly [field: string]: unknown;
}

const received = ({ id, text, second, status = 'pending', source = 'canvas_user', ...more }: Received) => ({
  id,
  status,
  ts: at(second),
  message_id: `m-${id}`,
  data: { source, text, context_id: 'c' },
  ...more,
});

const outgoing = (text: string, more: Partial<Outgoing> = {}): Outgoing => ({
  messageId: `client-${text}`,
  contextId: 'c',
  text,
  at: at(0),
  knownRows: new Set(),
  platformId: null,
  outcome: { kind: 'sending' },
  ...more,
});

const texts = (history: readonly HistoryEntry[], outbox: readonly Outgoing[]) =>
  mergeChat(history, outbox).map((item) => [item.text, item.kind === 'exchange' ? item.outcome.kind : 'note']);

describe('reading the history', () => {
  it('is oldest first and leaves out what other agents wrote', () => {
    const rows = [
      received({ id: '3', text: 'third', second: 3 }),
      received({ id: '2', text: 'from a peer', second: 2, source: 'peer_agent' }),
      received({ id: '1', text: 'first', second: 1, status: 'ok', response_body: reply('yes') }),
    ];
    expect(readHistory(rows, [])).toMatchObject([
      { text: 'first', outcome: { kind: 'answered', text: 'yes' } },
      { text: 'third', outcome: { kind: 'waiting', messageId: 'm-3' } },
    ]);
  });

  it('says why a message failed', () => {
    const rows = [
      received({ id: '3', text: 'c', second: 3, status: 'timeout' }),
      received({ id: '2', text: 'b', second: 2, status: 'error', response_body: { error: { message: 'broken' } } }),
      received({ id: '1', text: 'a', second: 1, status: 'error', error_detail: 'no route' }),
    ];
    expect(readHistory(rows, []).map((entry) => entry.kind === 'exchange' && entry.outcome)).toEqual([
      { kind: 'failed', error: 'no route' },
      { kind: 'failed', error: 'broken' },
      { kind: 'failed', error: 'No answer came in time.' },
    ]);
  });

  it('puts what the agent said by itself in its place', () => {
    const rows = [
      received({ id: '2', text: 'later', second: 9 }),
      received({ id: '1', text: 'early', second: 1, status: 'ok', response_body: reply('yes') }),
    ];
    const notes = [{ id: 'n', ts: at(5), summary: 'by the way', data: {} }];
    expect(readHistory(rows, notes).map(({ text }) => text)).toEqual(['early', 'by the way', 'later']);
  });

  it('shows an answer once when the agent gave it through notify', () => {
    const rows = [
      received({ id: '1', text: 'hi', second: 1, status: 'ok', duration_ms: 2000, response_body: reply('hello') }),
    ];
    const notes = [
      { id: 'n2', ts: at(50), data: { text: 'hello' } },
      { id: 'n1', ts: at(3), data: { text: 'hello' } },
    ];
    expect(readHistory(rows, notes).map(({ rowId }) => rowId)).toEqual(['1', 'n2']);
  });

  it('survives rows of any shape', () => {
    expect(readHistory([null, 7, {}, { id: 'x' }, { id: 'y', data: [] }], 'nonsense')).toEqual([]);
  });
});

describe('merging history with what this page has sent', () => {
  it('shows a message at once and only once', () => {
    const history = readHistory([received({ id: '1', text: 'hi', second: 1 })], []);
    expect(texts([], [outgoing('hi')])).toEqual([['hi', 'sending']]);
    expect(texts(history, [outgoing('hi')])).toEqual([['hi', 'waiting']]);
    const queued = outgoing('hi', { platformId: 'm-1', outcome: { kind: 'waiting', messageId: 'm-1' } });
    expect(texts(history, [queued])).toEqual([['hi', 'waiting']]);
  });

  it('recognises its message by the id it sent', () => {
    const row = received({ id: '1', text: 'hi', second: 1, request_body: { params: { message: { messageId: 'client-hi' } } } });
    expect(texts(readHistory([row], []), [outgoing('hi', { knownRows: new Set(['1']) })])).toEqual([['hi', 'waiting']]);
  });

  it('shows an answer heard before the history tells it', () => {
    const history = readHistory([received({ id: '1', text: 'hi', second: 1 })], []);
    const heard = outgoing('hi', { platformId: 'm-1', outcome: { kind: 'answered', text: 'hello' } });
    expect(mergeChat(history, [heard])).toMatchObject([{ outcome: { kind: 'answered', text: 'hello' } }]);
  });

  it('believes the history over its own doubt', () => {
    const history = readHistory([received({ id: '1', text: 'hi', second: 1 })], []);
    const lost = outgoing('hi', { outcome: { kind: 'unknown', error: 'unreachable' } });
    expect(texts(history, [lost])).toEqual([['hi', 'waiting']]);
  });

  it('keeps the same words said twice apart', () => {
    const old = received({ id: '1', text: 'hi', second: 1, status: 'ok', response_body: reply('yes') });
    const again = outgoing('hi', { knownRows: new Set(['1']) });
    expect(texts(readHistory([old], []), [again])).toEqual([
      ['hi', 'answered'],
      ['hi', 'sending'],
    ]);
    const both = readHistory([received({ id: '2', text: 'hi', second: 2 }), old], []);
    expect(texts(both, [again])).toEqual([
      ['hi', 'answered'],
      ['hi', 'waiting'],
    ]);
  });

  it('keeps a refused message where it was said', () => {
    const history = readHistory(
      [received({ id: '2', text: 'after', second: 9 }), received({ id: '1', text: 'before', second: 1 })],
      [],
    );
    const refused = outgoing('refused', { knownRows: new Set(['1']), outcome: { kind: 'failed', error: 'full' } });
    expect(texts(history, [refused]).map(([text]) => text)).toEqual(['before', 'refused', 'after']);
  });

  it('keeps quick messages in the order in which they were sent', () => {
    const history = readHistory([received({ id: '1', text: 'one', second: 1 })], []);
    const outbox = [outgoing('one', { platformId: 'm-1' }), outgoing('two')];
    expect(texts(history, outbox).map(([text]) => text)).toEqual(['one', 'two']);
  });
});

describe('what a conversation waits for', () => {
  const asked = {
    jsonrpc: '2.0',
    result: { kind: 'task', id: 't', status: { state: 'input-required', message: { parts: [{ text: 'Which city?' }] } } },
  };
  const question = received({ id: '1', text: 'weather?', second: 1, status: 'ok', response_body: asked });

  it('is the answer to a question of the agent, as long as nothing else was written', () => {
    const history = readHistory([question], []);
    expect(history).toMatchObject([{ outcome: { kind: 'asked', text: 'Which city?', taskId: 't' } }]);
    expect(openQuestion(mergeChat(history, []))).toBe('t');
    expect(openQuestion(mergeChat(history, [outgoing('Rome', { knownRows: new Set(['1']) })]))).toBeNull();
    expect(openQuestion([])).toBeNull();
  });

  it('is the oldest message without an outcome', () => {
    const history = readHistory([received({ id: '2', text: 'b', second: 2 }), question], []);
    const knownRows = new Set(['1', '2']);
    const later = outgoing('c', { knownRows, platformId: 'm-3', outcome: { kind: 'waiting', messageId: 'm-3' } });
    expect(runningIn(mergeChat(history, [later]))).toBe('m-2');
    expect(runningIn(mergeChat(readHistory([question], []), []))).toBeNull();
  });

  it('is nothing more once somebody stopped it', () => {
    const error = { message: 'cancelled by user:admin', data: [{ reason: 'CANCELLED' }] };
    const row = received({ id: '1', text: 'a', second: 1, status: 'error', error_detail: 'x', response_body: { error } });
    expect(readHistory([row], [])).toMatchObject([{ outcome: { kind: 'stopped' } }]);
  });
});
