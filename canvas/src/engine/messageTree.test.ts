import { describe, expect, it } from 'vitest';

import { readMessageTree, showDuration, showTimes } from '@/engine/messageTree';

const row = (id: string, parent: string | null, more: object = {}) => ({
  id,
  parent_message_id: parent,
  caller: 'user:admin',
  caller_name: 'admin',
  target_id: 't',
  target_name: 'lead',
  status: 'answered',
  waited_ms: 28,
  worked_ms: 143,
  attempts: 1,
  error: null,
  ...more,
});

describe('the tree of a message', () => {
  it('has those below a message that were sent for it, in their order', () => {
    const { roots } = readMessageTree({ messages: [row('a', null), row('b', 'a'), row('c', 'b'), row('d', 'a')], truncated: false });
    expect(roots.map(({ id }) => id)).toEqual(['a']);
    expect(roots[0]?.sent.map(({ id }) => id)).toEqual(['b', 'd']);
    expect(roots[0]?.sent[0]?.sent.map(({ id }) => id)).toEqual(['c']);
  });

  it('has one whose parent is not shown at the top', () => {
    expect(readMessageTree({ messages: [row('b', 'hidden')] }).roots.map(({ id }) => id)).toEqual(['b']);
  });

  it('is over when every message has an outcome', () => {
    expect(readMessageTree({ messages: [row('a', null), row('b', 'a', { status: 'leased' })] }).isOver).toBe(false);
    expect(readMessageTree({ messages: [row('a', null), row('b', 'a', { status: 'failed' })] }).isOver).toBe(true);
  });

  it('tells who, how it ended and why', () => {
    const error = { code: 'x', message: 'the books are closed' };
    const [node] = readMessageTree({ messages: [row('a', null, { caller_name: null, status: 'failed', error })] }).roots;
    expect(node).toMatchObject({ from: 'user:admin', to: 'lead', status: 'failed', tone: 'bad', error: 'the books are closed' });
  });

  it.each([null, 'x', {}, { messages: 7 }, { messages: [null, 'x'] }])('is empty for %j', (body) => {
    expect(readMessageTree(body).roots).toEqual([]);
  });
});

describe('the times of a message', () => {
  it.each([
    [0, '0 ms'],
    [999, '999 ms'],
    [1_500, '1.5 s'],
    [125_000, '2 min 5 s'],
  ])('%d milliseconds are %s', (milliseconds, shown) => {
    expect(showDuration(milliseconds)).toBe(shown);
  });

  it('are those of waiting, of work if there was any, and the attempts if there were several', () => {
    const shown = (more: object): string[] => readMessageTree({ messages: [row('a', null, more)] }).roots.map(showTimes);
    expect(shown({})).toEqual(['waited 28 ms, worked 143 ms']);
    expect(shown({ worked_ms: null, attempts: 2 })).toEqual(['waited 28 ms, 2 attempts']);
  });
});
