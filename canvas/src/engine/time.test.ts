import { describe, expect, it } from 'vitest';

import { coalesce, coalesceEach } from '@/engine/coalesce';
import { newId } from '@/engine/ids';
import { showClock, showMoment } from '@/engine/time';

const reader = { locale: 'en-GB', timeZone: 'Asia/Tokyo' };

describe('times', () => {
  it('are shown in the zone of the reader', () => {
    expect(showMoment('2026-05-02T20:15:30.123Z', reader)).toBe('3 May 2026, 05:15:30');
    expect(showMoment(null, reader)).toBeNull();
    expect(showMoment('soon', reader)).toBeNull();
  });

  it('leave out the date of today', () => {
    const now = new Date('2026-05-02T23:00:00Z');
    expect(showClock('2026-05-02T20:15:30Z', now, reader)).toBe('05:15');
    expect(showClock('2026-05-02T10:15:30Z', now, reader)).toBe('2 May 2026, 19:15');
    expect(showClock('', now, reader)).toBe('');
  });
});

describe('coalescing', () => {
  it('makes one run of many requests, and runs again for later ones', () => {
    const timers: (() => void)[] = [];
    let runs = 0;
    const request = coalesce(() => void (runs += 1), 200, (_, callback) => {
      timers.push(callback);
      return () => undefined;
    });
    request();
    request();
    expect(timers).toHaveLength(1);
    timers.shift()?.();
    request();
    timers.shift()?.();
    expect(runs).toBe(2);
  });

  it('runs for each thing once', () => {
    const timers: (() => void)[] = [];
    const runs: string[] = [];
    const request = coalesceEach((name) => void runs.push(name), 200, (_, callback) => {
      timers.push(callback);
      return () => undefined;
    });
    ['a', 'b', 'a'].forEach(request);
    timers.shift()?.();
    request('a');
    timers.shift()?.();
    expect(runs).toEqual(['a', 'b', 'a']);
  });
});

describe('ids', () => {
  it('are random UUIDs of version 4', () => {
    expect(newId()).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(newId()).not.toBe(newId());
  });
});
