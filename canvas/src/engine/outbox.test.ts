import { describe, expect, it } from 'vitest';

import type { Outgoing } from '@/engine/chat';
import * as outbox from '@/engine/outbox';

const sent = (messageId: string): Outgoing => ({
  messageId,
  contextId: 'c',
  text: messageId,
  at: '',
  knownRows: new Set(),
  platformId: null,
  outcome: { kind: 'sending' },
});

const queued = outbox.record(outbox.put({}, 'lead', sent('one')), 'lead', 'one', { kind: 'waiting', messageId: 'm' });

describe('the outbox', () => {
  it('waits for a queued message under the id of the platform', () => {
    expect(outbox.waiting(queued)).toEqual(['m']);
    expect(queued.lead?.[0]).toMatchObject({ messageId: 'one', platformId: 'm' });
  });

  it('takes the answer of the message it waits for', () => {
    const answered = outbox.settle(queued, 'm', { kind: 'answered', text: 'hi' });
    expect(answered.lead?.[0]?.outcome).toEqual({ kind: 'answered', text: 'hi' });
    expect(outbox.waiting(answered)).toEqual([]);
  });

  it('takes the first answer only, and none for what it did not send', () => {
    const answered = outbox.settle(queued, 'm', { kind: 'answered', text: 'hi' });
    expect(outbox.settle(answered, 'm', { kind: 'failed', error: 'late' })).toBe(answered);
    expect(outbox.settle(queued, 'other', { kind: 'answered', text: 'hi' })).toBe(queued);
  });

  it('holds a message once when it is sent again under its id', () => {
    expect(outbox.put(queued, 'lead', sent('one')).lead).toHaveLength(1);
    expect(outbox.drop(queued, 'lead', 'one').lead).toEqual([]);
  });

  it('does not grow without end', () => {
    const full = Array.from({ length: 80 }, (_, n) => sent(`${n}`)).reduce<outbox.Outbox>(
      (box, message) => outbox.put(box, 'lead', message),
      {},
    );
    expect(full.lead).toHaveLength(50);
    expect(full.lead?.at(-1)?.messageId).toBe('79');
  });
});
