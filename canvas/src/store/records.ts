import type { QueryClient, UseQueryOptions } from '@tanstack/react-query';

import type { PlatformApi, Session } from '@/engine/api';
import type { HistoryEntry } from '@/engine/chat';
import { foldFrame } from '@/engine/frames';
import type { Frame } from '@/engine/frames';
import type { Workspace } from '@/engine/workspaces';

const SESSION = ['session'] as const;
const WORKSPACES = ['workspaces'] as const;
const history = (agentId: string): readonly string[] => ['history', agentId];

export function sessionQuery(api: PlatformApi): UseQueryOptions<Session | null> {
  return { queryKey: SESSION, queryFn: () => api.session(), staleTime: 60_000 };
}

export function workspacesQuery(api: PlatformApi): UseQueryOptions<readonly Workspace[]> {
  return { queryKey: WORKSPACES, queryFn: () => api.workspaces() };
}

export function historyQuery(api: PlatformApi, agentId: string): UseQueryOptions<HistoryEntry[]> {
  return { queryKey: history(agentId), queryFn: () => api.history(agentId) };
}

/** The page's copy of what the platform knows, and how it is kept true. */
export interface Records {
  fold(frame: Frame): void;
  refreshSession(): void;
  refreshWorkspaces(): void;
  refreshChat(agentId: string): void;
  refreshChats(): void;
  knownRows(agentId: string): ReadonlySet<string>;
  /** Forgets everything: the session has ended. */
  clear(): void;
}

export function createRecords(client: QueryClient): Records {
  const refresh = (queryKey: readonly string[]): void => {
    void client.invalidateQueries({ queryKey });
  };
  return {
    fold: (frame) => {
      client.setQueryData<readonly Workspace[]>(WORKSPACES, (rows) => rows && foldFrame(rows, frame));
    },
    refreshSession: () => {
      refresh(SESSION);
    },
    refreshWorkspaces: () => {
      refresh(WORKSPACES);
    },
    refreshChat: (agentId) => {
      refresh(history(agentId));
    },
    refreshChats: () => {
      refresh(['history']);
    },
    knownRows: (agentId) =>
      new Set(client.getQueryData<HistoryEntry[]>(history(agentId))?.map(({ rowId }) => rowId)),
    clear: () => {
      client.removeQueries({ queryKey: WORKSPACES });
      client.removeQueries({ queryKey: ['history'] });
      client.setQueryData(SESSION, null);
    },
  };
}
