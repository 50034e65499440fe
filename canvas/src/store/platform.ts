import { useQuery } from '@tanstack/react-query';
import { createContext, useContext } from 'react';
import { useStore } from 'zustand';

import type { PlatformApi, Session } from '@/engine/api';
import type { HistoryEntry } from '@/engine/chat';
import type { Workspace } from '@/engine/workspaces';
import type { CanvasActions, CanvasState, CanvasStore } from '@/store/canvas';
import type { Memory } from '@/store/memory';
import { historyQuery, sessionQuery, workspacesQuery } from '@/store/records';
import type { Records } from '@/store/records';

/** Everything a command or a component may use; put together once, in the app. */
export interface Platform {
  readonly api: PlatformApi;
  readonly canvas: CanvasStore;
  readonly records: Records;
  readonly memory: Memory;
}

export const PlatformContext = createContext<Platform | null>(null);

export function usePlatform(): Platform {
  const platform = useContext(PlatformContext);
  if (platform === null) throw new Error('Wrap the tree in PlatformContext.');
  return platform;
}

export function useCanvas<T>(selector: (state: CanvasState & CanvasActions) => T): T {
  return useStore(usePlatform().canvas, selector);
}

/** What a reader of platform data can be shown: the data, or why there is none. */
export interface Reading<T> {
  readonly data: T | undefined;
  readonly error: Error | null;
  readonly retry: () => void;
}

const POLL_WHILE_BROKEN_MS = 5_000;

export function useSession(): Reading<Session | null> {
  const { data, error, refetch } = useQuery(sessionQuery(usePlatform().api));
  return { data, error, retry: () => void refetch() };
}

/** Live through the event stream; while the stream is broken, by asking again and again. */
export function useWorkspaces(): Reading<readonly Workspace[]> {
  const live = useCanvas(({ connection }) => connection === 'live');
  const query = { ...workspacesQuery(usePlatform().api), refetchInterval: live ? false : POLL_WHILE_BROKEN_MS } as const;
  const { data, error, refetch } = useQuery(query);
  return { data, error, retry: () => void refetch() };
}

export function useHistory(agentId: string): Reading<HistoryEntry[]> {
  const { data, error, refetch } = useQuery(historyQuery(usePlatform().api, agentId));
  return { data, error, retry: () => void refetch() };
}
