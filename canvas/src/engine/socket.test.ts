import { describe, expect, it } from 'vitest';

import type { Frame } from '@/engine/frames';
import { delayBefore, followStream } from '@/engine/socket';
import type { Connection, WireListener } from '@/engine/socket';

/** A server that records who calls, and a clock that moves when it is told to. */
function world() {
  const calls: { path: string; listener: WireListener; closed: boolean }[] = [];
  const timers: { ms: number; callback: () => void }[] = [];
  const frames: Frame[] = [];
  const connections: Connection[] = [];
  let refusals = 0;
  const stream = followStream({
    open: (path, listener) => {
      const call = { path, listener, closed: false };
      calls.push(call);
      return { close: () => void (call.closed = true) };
    },
    onFrame: (frame) => void frames.push(frame),
    onConnection: (connection) => void connections.push(connection),
    onRefused: () => void (refusals += 1),
    after: (ms, callback) => {
      const timer = { ms, callback };
      timers.push(timer);
      return () => void timers.splice(timers.indexOf(timer), 1);
    },
  });
  const last = () => {
    const call = calls.at(-1);
    if (call === undefined) throw new Error('nobody called');
    return call;
  };
  const tick = () => {
    const timer = timers.shift();
    timer?.callback();
    return timer?.ms;
  };
  return { stream, calls, timers, frames, connections, last, tick, refusals: () => refusals };
}

const event = (id: string | undefined, name = 'WORKSPACE_ONLINE') => JSON.stringify({ id, event: name });

describe('following the stream', () => {
  it('begins with live events and says when it is live', () => {
    const { last, connections, frames } = world();
    expect(last().path).toBe('/ws');
    last().listener.opened();
    last().listener.received(event('5'));
    expect(connections).toEqual(['connecting', 'live']);
    expect(frames.map(({ id }) => id)).toEqual(['5']);
  });

  it('takes up again behind the last event it saw', () => {
    const { last, tick, connections } = world();
    last().listener.opened();
    last().listener.received(event('5'));
    last().listener.received(event(undefined, 'TASK_UPDATED'));
    last().listener.closed(1012);
    expect(connections.at(-1)).toBe('reconnecting');
    tick();
    expect(last().path).toBe('/ws?since=5');
  });

  it('passes over the repeated event at the seam', () => {
    const { last, tick, frames } = world();
    last().listener.opened();
    last().listener.received(event('5'));
    last().listener.closed(1006);
    tick();
    last().listener.received(event('5'));
    last().listener.received(event('6'));
    expect(frames.map(({ id }) => id)).toEqual(['5', '6']);
  });

  it('waits longer after each failure, up to eight seconds, and starts over after success', () => {
    const { last, tick } = world();
    const waits = Array.from({ length: 6 }, () => {
      last().listener.closed(1006);
      return tick();
    });
    expect(waits).toEqual([500, 1000, 2000, 4000, 8000, 8000]);
    last().listener.opened();
    last().listener.closed(1006);
    expect(tick()).toBe(delayBefore(0));
  });

  it('asks for the session when it is refused or never let in', () => {
    const { last, tick, refusals } = world();
    last().listener.closed(1006);
    expect(refusals()).toBe(1);
    tick();
    last().listener.opened();
    last().listener.closed(1012);
    expect(refusals()).toBe(1);
    tick();
    last().listener.opened();
    last().listener.closed(4009);
    expect(refusals()).toBe(2);
  });

  it('does not ask again for a position that is gone', () => {
    const { last, tick } = world();
    last().listener.opened();
    last().listener.received(event('5'));
    last().listener.received(JSON.stringify({ event: 'RESYNC_REQUIRED', payload: { oldest_id: '900' } }));
    last().listener.closed(1006);
    tick();
    expect(last().path).toBe('/ws');
  });

  it('ends when it is stopped, also while it waits', () => {
    const { stream, last, calls, timers } = world();
    last().listener.closed(1006);
    stream.stop();
    expect(timers).toEqual([]);
    last().listener.closed(1006);
    expect(calls).toHaveLength(1);
    expect(last().closed).toBe(true);
  });
});
