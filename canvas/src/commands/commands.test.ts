import { QueryClient } from '@tanstack/react-query';
import { describe, expect, it, vi } from 'vitest';

import { checkWaiting } from '@/commands/checkWaiting';
import { followAnswer } from '@/commands/followAnswer';
import { agentCommands } from '@/commands/list';
import { reveal } from '@/commands/reveal';
import { send, sendAgain } from '@/commands/send';
import { signOut } from '@/commands/signOut';
import { stop } from '@/commands/stop';
import { createApi } from '@/engine/api';
import { grownText } from '@/engine/growing';
import type { StreamEvent } from '@/engine/growing';
import { readWorkspaces } from '@/engine/workspaces';
import { createCanvasStore } from '@/store/canvas';
import type { Memory } from '@/store/memory';
import type { Platform } from '@/store/platform';
import { createRecords } from '@/store/records';

type Answer = (url: string) => { readonly status: number; readonly body: unknown } | 'unreachable';

function ownMemory(): Memory {
  const values = new Map<string, string>();
  return { read: (key) => values.get(key) ?? null, write: (key, value) => void values.set(key, value) };
}

/** The real parts on a platform that answers as told. */
function house(answer: Answer) {
  const sent: { url: string; body: string }[] = [];
  const streams: { path: string; tell: (event: StreamEvent) => void; isOpen: boolean }[] = [];
  const openEvents = (path: string, tell: (event: StreamEvent) => void) => {
    const stream = { path, tell, isOpen: true };
    streams.push(stream);
    return () => {
      stream.isOpen = false;
    };
  };
  const api = createApi((url, init) => {
    const reply = answer(url);
    sent.push({ url, body: typeof init.body === 'string' ? init.body : '' });
    if (reply === 'unreachable') return Promise.reject(new TypeError('Failed to fetch'));
    const body = reply.status === 204 ? null : JSON.stringify(reply.body);
    return Promise.resolve(new Response(body, { status: reply.status }));
  }, openEvents);
  const memory = ownMemory();
  const records = createRecords(new QueryClient(), api);
  const platform: Platform = { api, memory, records, canvas: createCanvasStore(memory) };
  const outbox = () => platform.canvas.getState().outbox.lead ?? [];
  return { platform, sent, outbox, streams };
}

interface Envelope {
  readonly params: {
    readonly message: { readonly messageId: string; readonly contextId: string; readonly taskId?: string };
  };
}

const messageIn = (request: { readonly body: string } | undefined) =>
  (JSON.parse(request?.body ?? '') as Envelope).params.message;

const queued = { status: 202, body: { queued: true, message_id: 'm' } };

describe('sending', () => {
  it('shows the message before the platform has answered', async () => {
    const { platform, outbox } = house(() => queued);
    const sending = send(platform, 'lead', 'hi');
    expect(outbox()).toMatchObject([{ text: 'hi', outcome: { kind: 'sending' } }]);
    await sending;
    expect(outbox()).toMatchObject([{ platformId: 'm', outcome: { kind: 'waiting' } }]);
  });

  it('stays in one context with each agent', async () => {
    const { platform, sent } = house(() => queued);
    await send(platform, 'lead', 'one');
    await send(platform, 'lead', 'two');
    await send(platform, 'writer', 'three');
    const [one, two, three] = sent.map((request) => messageIn(request).contextId);
    expect(one).toBe(two);
    expect(one).not.toBe(three);
  });

  it('sends again under the same id when nobody knows whether it arrived', async () => {
    const { platform, sent, outbox } = house(() => (sent.length === 0 ? 'unreachable' : queued));
    await send(platform, 'lead', 'hi');
    expect(outbox()).toMatchObject([{ outcome: { kind: 'unknown' } }]);
    await sendAgain(platform, 'lead', outbox()[0]?.messageId ?? '', 'hi');
    expect(messageIn(sent[1])).toEqual(messageIn(sent[0]));
    expect(outbox()).toMatchObject([{ outcome: { kind: 'waiting' } }]);
  });

  it('sends again as a new message when it was refused', async () => {
    const full = { status: 503, body: { error: { message: 'The mailbox is full.' } } };
    const { platform, sent, outbox } = house(() => (sent.length === 0 ? full : queued));
    await send(platform, 'lead', 'hi');
    expect(outbox()).toMatchObject([{ outcome: { kind: 'failed', error: 'The mailbox is full.' } }]);
    await sendAgain(platform, 'lead', outbox()[0]?.messageId ?? '', 'hi');
    expect(messageIn(sent[1]).messageId).not.toBe(messageIn(sent[0]).messageId);
    expect(outbox()).toHaveLength(1);
  });
});

describe('answering a question of the agent', () => {
  it('names its task, and a message without a question names none', async () => {
    const { platform, sent } = house(() => queued);
    await send(platform, 'lead', 'Rome', 't');
    await send(platform, 'lead', 'thanks');
    expect(sent.map((request) => messageIn(request).taskId)).toEqual(['t', undefined]);
  });
});

describe('following an answer', () => {
  const piece = (id: number, text: string): StreamEvent => ({
    event: 'artifact',
    id: `${id}`,
    data: JSON.stringify({ artifactUpdate: { artifact: { artifactId: 'a', parts: [{ text }] }, append: true } }),
  });

  it('shows what comes together at once, and ends with the message', () => {
    vi.useFakeTimers();
    const { platform, streams } = house(() => queued);
    const shown: string[] = [];
    platform.canvas.subscribe(({ growing }) => shown.push(growing.m === undefined ? '' : grownText(growing.m)));
    followAnswer(platform, 'm');
    const [stream] = streams;
    expect(stream?.path).toBe('/messages/m/events');
    for (let n = 1; n <= 1000; n += 1) stream?.tell(piece(n, 'x'));
    vi.advanceTimersByTime(100);
    expect(shown).toEqual(['x'.repeat(1000)]);
    expect(stream?.isOpen).toBe(true);
    stream?.tell({ event: 'answered', id: '1000', data: '{}' });
    vi.advanceTimersByTime(100);
    expect(stream?.isOpen).toBe(false);
    vi.useRealTimers();
  });

  it('keeps what had come when the reader looks elsewhere', () => {
    const { platform, streams } = house(() => queued);
    const close = followAnswer(platform, 'm');
    streams[0]?.tell(piece(1, 'half'));
    close();
    expect(streams[0]?.isOpen).toBe(false);
    expect(platform.canvas.getState().growing.m?.artifacts[0]?.text).toBe('half');
  });
});

describe('stopping', () => {
  it('calls the message off, and says when that is refused', async () => {
    const { platform, sent } = house(() => ({ status: 200, body: {} }));
    await stop(platform, 'lead', 'm');
    expect(sent.map(({ url }) => url)).toEqual(['/messages/m/cancel']);
    const late = house(() => ({ status: 409, body: { error: 'It is answered.', code: 'not-cancelable' } }));
    await expect(stop(late.platform, 'lead', 'm')).rejects.toThrow('It is answered.');
  });
});

describe('revealing an agent', () => {
  it('opens it and every team above it', () => {
    const { platform } = house(() => queued);
    const rows = readWorkspaces([{ id: 'a' }, { id: 'b', parent_id: 'a' }, { id: 'c', parent_id: 'b' }]);
    reveal(platform, rows, 'c');
    expect(platform.canvas.getState()).toMatchObject({
      selectedId: 'c',
      lookedFor: { agentId: 'c' },
      foldChoices: { a: false, b: false },
    });
  });
});

describe('checking what still waits', () => {
  it('finds an answer that no event has brought', async () => {
    const { platform, outbox } = house((url) =>
      url === '/messages/m' ? { status: 200, body: { status: 'answered', result: 'hello' } } : queued,
    );
    await send(platform, 'lead', 'hi');
    await checkWaiting(platform);
    expect(outbox()).toMatchObject([{ outcome: { kind: 'answered', text: 'hello' } }]);
  });

  it('goes on waiting while the platform is away', async () => {
    const { platform, outbox } = house((url) => (url === '/messages/m' ? 'unreachable' : queued));
    await send(platform, 'lead', 'hi');
    await checkWaiting(platform);
    expect(outbox()).toMatchObject([{ outcome: { kind: 'waiting' } }]);
  });
});

describe('the commands on an agent', () => {
  const [online, paused] = readWorkspaces([
    { id: 'a', status: 'online' },
    { id: 'b', status: 'paused' },
  ]);
  const offered = (workspace = online) =>
    agentCommands.filter((command) => workspace && command.isAvailable(workspace)).map(({ name }) => name);

  it('offer pause or resume, never both', () => {
    expect(offered(online)).toEqual(['pause']);
    expect(offered(paused)).toEqual(['resume']);
  });

  it('say what they take along', () => {
    const [pause, resume] = agentCommands;
    expect(pause?.takesAlong(0)).toBeNull();
    expect(pause?.takesAlong(1)).toBe('Also pauses the agent below it.');
    expect(pause?.takesAlong(4)).toBe('Also pauses the 4 agents below it.');
    expect(resume?.takesAlong(4)).toBeNull();
  });

  it('post to the agent they are for', async () => {
    const { platform, sent } = house(() => ({ status: 200, body: {} }));
    for (const command of agentCommands) await command.perform(platform, 'a b');
    const posted = sent.map(({ url }) => url).filter((url) => url !== '/workspaces/a%20b');
    expect(posted).toEqual(['/workspaces/a%20b/pause', '/workspaces/a%20b/resume']);
  });
});

describe('signing out', () => {
  it('forgets the conversation, also when the session was already gone', async () => {
    for (const status of [204, 401]) {
      const { platform, outbox } = house((url) => (url === '/auth/logout' ? { status, body: {} } : queued));
      await send(platform, 'lead', 'hi');
      platform.canvas.getState().select('lead');
      await signOut(platform);
      expect(outbox()).toEqual([]);
      expect(platform.canvas.getState().selectedId).toBeNull();
    }
  });
});
