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

describe('an answer that grows', () => {
  const piece = (id: number, text: string) => ({
    event: 'artifact',
    id: `${id}`,
    data: JSON.stringify({ artifactUpdate: { artifact: { artifactId: 'a', parts: [{ text }] }, append: true } }),
  });
  const textOf = (store: ReturnType<typeof createCanvasStore>, id: string) => store.getState().growing[id]?.artifacts[0]?.text;

  it('is kept for each message', () => {
    const store = createCanvasStore(memoryOf(new Map()));
    store.getState().growAnswer('m', [piece(1, 'Tea '), piece(2, 'is ')]);
    store.getState().growAnswer('n', [piece(1, 'No')]);
    store.getState().growAnswer('m', [piece(3, 'good.')]);
    expect(textOf(store, 'm')).toBe('Tea is good.');
    expect(textOf(store, 'n')).toBe('No');
  });

  it('is forgotten when many others have come since', () => {
    const store = createCanvasStore(memoryOf(new Map()));
    for (let n = 0; n < 200; n += 1) store.getState().growAnswer(`m${n}`, [piece(1, 'x')]);
    expect(Object.keys(store.getState().growing)).toHaveLength(50);
    expect(textOf(store, 'm199')).toBe('x');
  });
});
