import { describe, expect, it } from 'vitest';

import { createApi } from '@/engine/api';
import { RefusedError, UnreachableError, sentenceOf } from '@/engine/errors';

interface Call {
  readonly url: string;
  readonly init: RequestInit;
}

type Answer = (call: Call) => Response;

const json = (body: unknown, status = 200, headers: Record<string, string> = {}) =>
  new Response(JSON.stringify(body), { status, headers });

/** A platform that answers as told and remembers what it was asked. */
function platform(answer: Answer) {
  const calls: Call[] = [];
  const api = createApi((url, init) => {
    const call = { url, init };
    calls.push(call);
    return Promise.resolve(answer(call));
  });
  return { api, calls };
}

const header = (call: Call | undefined, name: string) => new Headers(call?.init.headers).get(name);

describe('the session', () => {
  it('is null without a cookie', async () => {
    const { api } = platform(() => json({ error: 'Sign in.', code: 'unauthenticated' }, 401));
    expect(await api.session()).toBeNull();
  });

  it('gives the CSRF token to every call that changes something, and to no other', async () => {
    const { api, calls } = platform(({ url }) => (url === '/auth/session' ? json({ user: 'ada', csrf_token: 't' }) : json([])));
    expect(await api.session()).toMatchObject({ user: 'ada', csrfToken: 't' });
    await api.pause('w');
    await api.workspaces();
    expect(calls.map((call) => header(call, 'X-CSRF-Token'))).toEqual([null, 't', null]);
    expect(calls[1]?.url).toBe('/workspaces/w/pause');
  });
});

describe('the list of workspaces', () => {
  it('is read to its last page', async () => {
    const { api, calls } = platform(({ url }) =>
      url.includes('cursor=') ? json([{ id: 'b' }]) : json([{ id: 'a' }], 200, { 'X-Next-Cursor': 'next page' }),
    );
    expect((await api.workspaces()).map(({ id }) => id)).toEqual(['a', 'b']);
    expect(calls[1]?.url).toBe('/workspaces?limit=500&cursor=next%20page');
  });
});

describe('a message', () => {
  it('is posted without holding the call', async () => {
    const { api, calls } = platform(() => json({ queued: true, message_id: 'm' }, 202));
    const outcome = await api.send('w', { messageId: 'x', contextId: 'c', text: 'hi' });
    expect(outcome).toEqual({ kind: 'waiting', messageId: 'm' });
    expect(calls[0]?.url).toBe('/workspaces/w/a2a');
    expect(header(calls[0], 'Prefer')).toBe('respond-async');
    expect(header(calls[0], 'Content-Type')).toBe('application/json');
  });
});

describe('a card', () => {
  it('is asked for in the form of A2A 1.0, and never taken from the copies of the browser', async () => {
    const { api, calls } = platform(() => json({ name: 'bot' }));
    expect(await api.card('a b')).toMatchObject({ name: 'bot' });
    expect(calls[0]?.url).toBe('/agents/a%20b/.well-known/agent-card.json');
    expect(header(calls[0], 'A2A-Version')).toBe('1.0');
    expect(calls[0]?.init.cache).toBe('no-cache');
  });
});

describe('what the agents said last', () => {
  it('takes two looks into the log, however many agents there are', async () => {
    const { api, calls } = platform(({ url }) =>
      url.includes('AGENT_MESSAGE')
        ? json([{ event_type: 'AGENT_MESSAGE', workspace_id: 'w', created_at: 't', payload: { message: 'hi' } }])
        : json([]),
    );
    expect(await api.lastSaid()).toMatchObject({ w: { text: 'hi' } });
    expect(calls).toHaveLength(2);
  });
});

describe('a failure', () => {
  it('is told in the words of the platform', async () => {
    const { api } = platform(() => json({ error: 'Resume the parent first.', code: 'parent-paused' }, 409));
    const error: unknown = await api.resume('w').catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(RefusedError);
    expect(error).toMatchObject({ status: 409, code: 'parent-paused', message: 'Resume the parent first.' });
  });

  it('is told in our words when the answer is not from the platform', async () => {
    const { api } = platform(() => new Response('<html>', { status: 502 }));
    await expect(api.workspaces()).rejects.toThrow('status 502');
  });

  it('is told apart when nothing answered', async () => {
    const { api } = platform(() => {
      throw new TypeError('Failed to fetch');
    });
    await expect(api.workspaces()).rejects.toBeInstanceOf(UnreachableError);
  });

  it('shows nothing of errors that are not ours', () => {
    expect(sentenceOf(new TypeError('x is undefined'))).not.toContain('undefined');
  });
});
