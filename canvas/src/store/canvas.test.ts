import { describe, expect, it } from 'vitest';

import { createCanvasStore } from '@/store/canvas';
import type { Memory } from '@/store/memory';

const memoryOf = (values: Map<string, string>): Memory => ({
  read: (key) => values.get(key) ?? null,
  write: (key, value) => void values.set(key, value),
});

describe('the theme', () => {
  it('follows the system until the reader chooses, and is remembered', () => {
    const values = new Map<string, string>();
    const first = createCanvasStore(memoryOf(values));
    expect(first.getState().theme).toBe('system');
    first.getState().setTheme('dark');
    expect(createCanvasStore(memoryOf(values)).getState().theme).toBe('dark');
  });

  it('follows the system when what is remembered makes no sense', () => {
    expect(createCanvasStore(memoryOf(new Map([['molecule.theme', 'plaid']]))).getState().theme).toBe('system');
  });
});

describe('a draft', () => {
  it('is kept for each agent', () => {
    const store = createCanvasStore(memoryOf(new Map()));
    store.getState().setDraft('lead', 'half a thought');
    store.getState().setDraft('writer', 'another');
    expect(store.getState().drafts).toEqual({ lead: 'half a thought', writer: 'another' });
  });
});
