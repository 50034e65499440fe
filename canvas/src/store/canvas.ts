import { createStore } from 'zustand/vanilla';
import type { StoreApi } from 'zustand/vanilla';

import { NOTHING_YET, grow } from '@/engine/growing';
import type { Growing, StreamEvent } from '@/engine/growing';
import type { Outbox } from '@/engine/outbox';
import type { Connection } from '@/engine/socket';
import type { FoldChoices } from '@/engine/teams';
import type { Memory } from '@/store/memory';

export type Theme = 'system' | 'light' | 'dark';

/** What this page knows by itself. What the platform knows is in `records`. */
export interface CanvasState {
  readonly connection: Connection;
  readonly theme: Theme;
  readonly selectedId: string | null;
  readonly foldChoices: FoldChoices;
  /** The agent that the reader asked to see; a new object each time, also for the same agent. */
  readonly lookedFor: { readonly agentId: string } | null;
  readonly drafts: Readonly<Record<string, string>>;
  readonly outbox: Outbox;
  /** Answers that this page saw grow, by the id of their message. */
  readonly growing: Readonly<Record<string, Growing>>;
}

export interface CanvasActions {
  readonly setConnection: (connection: Connection) => void;
  readonly setTheme: (theme: Theme) => void;
  readonly select: (agentId: string | null) => void;
  readonly chooseFolds: (choices: FoldChoices) => void;
  readonly lookFor: (agentId: string) => void;
  readonly setDraft: (agentId: string, draft: string) => void;
  readonly changeOutbox: (change: (outbox: Outbox) => Outbox) => void;
  readonly growAnswer: (messageId: string, events: readonly StreamEvent[]) => void;
  readonly forgetConversations: () => void;
}

export type CanvasStore = StoreApi<CanvasState & CanvasActions>;

const MOST_GROWING = 50;
const THEME_KEY = 'molecule.theme';

function rememberedTheme(memory: Memory): Theme {
  const theme = memory.read(THEME_KEY);
  return theme === 'light' || theme === 'dark' ? theme : 'system';
}

export function createCanvasStore(memory: Memory): CanvasStore {
  return createStore((set) => ({
    connection: 'connecting',
    theme: rememberedTheme(memory),
    selectedId: null,
    foldChoices: {},
    lookedFor: null,
    drafts: {},
    outbox: {},
    growing: {},
    setConnection: (connection) => {
      set({ connection });
    },
    setTheme: (theme) => {
      memory.write(THEME_KEY, theme);
      set({ theme });
    },
    select: (selectedId) => {
      set({ selectedId });
    },
    chooseFolds: (choices) => {
      set(({ foldChoices }) => ({ foldChoices: { ...foldChoices, ...choices } }));
    },
    lookFor: (agentId) => {
      set({ lookedFor: { agentId } });
    },
    setDraft: (agentId, draft) => {
      set(({ drafts }) => ({ drafts: { ...drafts, [agentId]: draft } }));
    },
    changeOutbox: (change) => {
      set(({ outbox }) => ({ outbox: change(outbox) }));
    },
    growAnswer: (messageId, events) => {
      set(({ growing }) => {
        const { [messageId]: before = NOTHING_YET, ...others } = growing;
        const kept = Object.entries(others).slice(1 - MOST_GROWING);
        return { growing: { ...Object.fromEntries(kept), [messageId]: events.reduce(grow, before) } };
      });
    },
    forgetConversations: () => {
      set({ selectedId: null, outbox: {}, growing: {} });
    },
  }));
}
