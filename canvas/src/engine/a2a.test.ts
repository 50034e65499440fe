import { describe, expect, it } from 'vitest';

import { errorText, readAnswer, readMessage, readSendReply, resultText, sendEnvelope } from '@/engine/a2a';

const message = (text: string) => ({ kind: 'message', role: 'agent', parts: [{ kind: 'text', text }] });

describe('the envelope of a message', () => {
  it('is message/stream with one text part and the ids of the draft', () => {
    expect(sendEnvelope({ messageId: 'm', contextId: 'c', text: 'hi' })).toEqual({
      jsonrpc: '2.0',
      id: 'm',
      method: 'message/stream',
      params: {
        message: { role: 'user', messageId: 'm', contextId: 'c', parts: [{ kind: 'text', text: 'hi' }] },
      },
    });
  });
});

describe('the envelope of an answer to a question', () => {
  it('names the task that waits for it', () => {
    const { params } = sendEnvelope({ messageId: 'm', contextId: 'c', text: 'Rome', taskId: 't' });
    expect(params).toMatchObject({ message: { taskId: 't' } });
  });
});

describe('the text of a result', () => {
  it.each([
    ['a plain string', 'hi', 'hi'],
    ['a message', message('hi'), 'hi'],
    ['a part in the form of A2A 1.0', { parts: [{ text: 'hi' }] }, 'hi'],
    ['a status message', { kind: 'task', status: { state: 'completed', message: message('hi') } }, 'hi'],
    ['an artifact', { kind: 'task', artifacts: [{ parts: [{ kind: 'text', text: 'hi' }] }] }, 'hi'],
    ['several parts', { parts: [{ text: 'a' }, { kind: 'data', data: {} }, { text: 'b' }] }, 'a\n\nb'],
    ['a message of A2A 1.0', { message: { role: 'ROLE_AGENT', parts: [{ text: 'hi' }] } }, 'hi'],
    ['a task of A2A 1.0', { task: { artifacts: [{ parts: [{ text: 'hi' }] }] } }, 'hi'],
    ['a simple answer', { reply: 'hi' }, 'hi'],
    ['nothing', null, ''],
  ])('is found in %s', (_, result, text) => {
    expect(resultText(result)).toBe(text);
  });

  it('puts the chunks of an artifact together as they came, also the same word twice', () => {
    const parts = ['Had ', 'had ', 'had ', 'it.'].map((text) => ({ text }));
    expect(resultText({ task: { artifacts: [{ parts }] } })).toBe('Had had had it.');
  });

  it('is shown once when the task mirrors its artifact', () => {
    const task = { kind: 'task', parts: [{ text: 'hi' }], artifacts: [{ parts: [{ text: 'hi' }] }] };
    expect(resultText(task)).toBe('hi');
  });
});

describe('reading an answer', () => {
  it('reads an envelope, a bare result and either as text', () => {
    const answered = { kind: 'answered', text: 'hi' };
    expect(readAnswer({ jsonrpc: '2.0', id: 1, result: message('hi') })).toEqual(answered);
    expect(readAnswer(message('hi'))).toEqual(answered);
    expect(readAnswer(JSON.stringify({ result: message('hi') }))).toEqual(answered);
    expect(readAnswer('hi')).toEqual(answered);
  });

  it('tells an error and a task that ended badly', () => {
    expect(readAnswer({ error: { code: -32603, message: 'broken' } })).toEqual({ kind: 'failed', error: 'broken' });
    expect(readAnswer({ result: { kind: 'task', status: { state: 'rejected' } } })).toEqual({
      kind: 'failed',
      error: 'The agent declined this.',
    });
    expect(readAnswer({ result: { task: { status: { state: 'TASK_STATE_FAILED' } } } })).toEqual({
      kind: 'failed',
      error: 'The agent could not finish this.',
    });
  });

  it('tells a question of the agent, with the task that waits for the answer', () => {
    const asked = { kind: 'asked', text: 'Which city?', taskId: 't' };
    const status = (state: string) => ({ state, message: message('Which city?') });
    expect(readAnswer({ result: { kind: 'task', id: 't', status: status('input-required') } })).toEqual(asked);
    expect(readAnswer({ result: { task: { id: 't', status: status('TASK_STATE_INPUT_REQUIRED') } } })).toEqual(asked);
  });

  it('tells what somebody called off apart from what failed', () => {
    const data = [{ '@type': 'ErrorInfo', reason: 'CANCELLED', domain: 'molecule.ai' }];
    expect(readAnswer({ error: { code: -32600, message: 'cancelled by user:admin', data } })).toEqual({ kind: 'stopped' });
    expect(readAnswer({ result: { kind: 'task', status: { state: 'canceled' } } })).toEqual({ kind: 'stopped' });
  });

  it('takes an empty answer for an answer', () => {
    expect(readAnswer(null)).toEqual({ kind: 'answered', text: '' });
  });
});

describe('reading the reply to a send', () => {
  it('waits under the id of a queued message', () => {
    const queued = { result: { kind: 'task', status: { state: 'submitted' } }, queued: true, message_id: 'm' };
    expect(readSendReply(queued)).toEqual({ kind: 'waiting', messageId: 'm' });
  });

  it('takes an answer that came while the call was held', () => {
    expect(readSendReply({ result: message('hi') })).toEqual({ kind: 'answered', text: 'hi' });
  });
});

describe('reading a message', () => {
  it.each([
    [{ id: 'm', status: 'accepted' }, { kind: 'waiting', messageId: 'm' }],
    [{ id: 'm', status: 'leased' }, { kind: 'waiting', messageId: 'm' }],
    [{ id: 'm', status: 'answered', result: message('hi') }, { kind: 'answered', text: 'hi' }],
    [{ status: 'failed', error: { code: 'x', message: 'why' } }, { kind: 'failed', error: 'why' }],
    [{ status: 'expired', error: null }, { kind: 'failed', error: 'No answer came in time.' }],
    [{ status: 'cancelled' }, { kind: 'stopped' }],
  ])('%j is %j', (body, outcome) => {
    expect(readMessage(body)).toEqual(outcome);
  });
});

describe('the sentence of an error', () => {
  it('is found in each of its forms', () => {
    expect(errorText({ error: { message: 'rpc' } })).toBe('rpc');
    expect(errorText({ error: 'rest' })).toBe('rest');
    expect(errorText({ message: 'other' })).toBe('other');
    expect(errorText(undefined)).toBe('');
  });
});
