import { describe, expect, it } from 'vitest';

import { NOTHING_YET, grow, grownText, joined } from '@/engine/growing';
import type { StreamEvent } from '@/engine/growing';

const event = (name: string, id: number | '', data: unknown): StreamEvent => ({
  event: name,
  id: `${id}`,
  data: JSON.stringify(data),
});

const piece = (id: number, text: string, append = true, artifactId = 'a') =>
  event('artifact', id, { artifactUpdate: { artifact: { artifactId, parts: [{ text }] }, append } });

const status = (id: number, state: string, said = '') =>
  event('status', id, { statusUpdate: { status: { state: `TASK_STATE_${state}`, message: { parts: [{ text: said }] } } } });

const after = (...events: StreamEvent[]) => events.reduce(grow, NOTHING_YET);

describe('an answer that grows', () => {
  it('is longer with every piece', () => {
    const events = [piece(1, 'Tea ', false), piece(2, 'is '), piece(3, 'is '), piece(4, 'good.')];
    const texts = events.map((_, at) => grownText(after(...events.slice(0, at + 1))));
    expect(texts).toEqual(['Tea ', 'Tea is ', 'Tea is is ', 'Tea is is good.']);
  });

  it('counts every event once, wherever the stream was cut', () => {
    const events = [piece(1, 'a', false), piece(2, 'b'), piece(3, 'c'), piece(4, 'd')];
    for (let cut = 0; cut <= events.length; cut += 1) {
      for (let from = 0; from <= cut; from += 1) {
        expect(grownText(after(...events.slice(0, cut), ...events.slice(from)))).toBe('abcd');
      }
    }
  });

  it('begins an artifact anew when the agent does, as after a second attempt', () => {
    expect(grownText(after(piece(1, 'half', false), piece(2, 'whole', false)))).toBe('whole');
  });

  it('keeps artifacts apart and in their order', () => {
    expect(grownText(after(piece(1, 'one', false), piece(2, 'two', false, 'b'), piece(3, '!')))).toBe('one!\n\ntwo');
  });

  it('tells progress apart from the answer', () => {
    const growing = after(status(1, 'SUBMITTED'), status(2, 'WORKING', 'reading'), status(3, 'WORKING'));
    expect(growing.progress).toBe('reading');
    expect(grownText(growing)).toBe('');
  });

  it('adds what is said in the end, unless it was said in pieces already', () => {
    const pieces = [piece(1, 'Tea is ', false), piece(2, 'good.')];
    expect(grownText(after(...pieces, status(3, 'COMPLETED', 'Tea is good.')))).toBe('Tea is good.');
    expect(grownText(after(...pieces, status(3, 'COMPLETED', 'That is all.')))).toBe('Tea is good.\n\nThat is all.');
    expect(grownText(after(event('message', 1, { message: { parts: [{ text: 'hi' }] } })))).toBe('hi');
  });

  it('takes up a task that is told as a whole', () => {
    const task = { status: { state: 'TASK_STATE_WORKING' }, artifacts: [{ artifactId: 'a', parts: [{ text: 'x' }, { text: 'y' }] }] };
    expect(grownText(after(event('task', 1, { task }), piece(2, 'z')))).toBe('xyz');
  });

  it('is over with the outcome of the message, and keeps what was streamed', () => {
    for (const outcome of ['answered', 'failed', 'expired', 'cancelled']) {
      const growing = after(piece(1, 'half', false), event(outcome, '', {}), piece(2, ' more'));
      expect(growing.isOver).toBe(true);
      expect(grownText(growing)).toBe('half');
    }
  });

  it('survives events of any shape', () => {
    const odd = ['', '7', '[]', 'no json', '{"artifactUpdate":7}', '{"task":{"artifacts":[7,null,{}]}}'];
    const events = odd.flatMap((data, at) => ['task', 'status', 'artifact', 'message', 'toString'].map((name) => ({ event: name, id: `${at + 1}`, data })));
    expect(grownText(after(...events))).toBe('');
  });
});

describe('two tellings of one answer', () => {
  it('are joined without repeating', () => {
    expect(joined('abc', 'b')).toBe('abc');
    expect(joined('b', 'abc')).toBe('abc');
    expect(joined('', 'abc')).toBe('abc');
    expect(joined('abc', '')).toBe('abc');
    expect(joined('abc', 'xyz')).toBe('abc\n\nxyz');
  });
});
