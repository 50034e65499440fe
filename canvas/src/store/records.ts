import type { QueryClient, UseQueryOptions } from '@tanstack/react-query';

import type { PlatformApi, Session } from '@/engine/api';
import type { Card } from '@/engine/card';
import { foldFrame } from '@/engine/frames';
import type { Frame } from '@/engine/frames';
import { foldSaid } from '@/engine/lastWords';
import type { Conversation, LastSaid } from '@/engine/lastWords';
import type { Workspace } from '@/engine/workspaces';

const SESSION = ['session'] as const;
const WORKSPACES = ['workspaces'] as const;
const LAST_SAID = ['last-said'] as const;
const conversation = (...agentId: string[]): readonly string[] => ['conversation', ...agentId];
const card = (...agentId: string[]): readonly string[] => ['card', ...agentId];

export function sessionQuery(api: PlatformApi): UseQueryOptions<Session | null> {
  return { queryKey: SESSION, queryFn: () => api.session(), staleTime: 60_000 };
}

export function workspacesQuery(api: PlatformApi): UseQueryOptions<readonly Workspace[]> {
  return { queryKey: WORKSPACES, queryFn: () => api.workspaces() };
}

export function lastSaidQuery(api: PlatformApi): UseQueryOptions<LastSaid> {
  return { queryKey: LAST_SAID, queryFn: () => api.lastSaid() };
}

export function conversationQuery(api: PlatformApi, agentId: string): UseQueryOptions<Conversation> {
  return { queryKey: conversation(agentId), queryFn: () => api.conversation(agentId) };
}

export function cardQuery(api: PlatformApi, agentId: string): UseQueryOptions<Card> {
  return { queryKey: card(agentId), queryFn: () => api.card(agentId) };
}

/** The page's copy of what the platform knows, and how it is kept true. */
export interface Records {
  fold(frame: Frame): void;
  refreshSession(): void;
  refreshWorkspaces(): void;
  refreshChat(agentId: string): void;
  refreshCard(agentId: string): void;
  /** What was said and the cards, of all agents: something may have been missed. */
  refreshAgents(): void;
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
      client.setQueryData<LastSaid>(LAST_SAID, (said) => said && foldSaid(said, frame));
    },
    refreshSession: () => {
      refresh(SESSION);
    },
    refreshWorkspaces: () => {
      refresh(WORKSPACES);
    },
    refreshChat: (agentId) => {
      refresh(conversation(agentId));
    },
    refreshCard: (agentId) => {
      refresh(card(agentId));
    },
    refreshAgents: () => {
      [LAST_SAID, conversation(), card()].forEach(refresh);
    },
    knownRows: (agentId) =>
      new Set(client.getQueryData<Conversation>(conversation(agentId))?.entries.map(({ rowId }) => rowId)),
    clear: () => {
      [WORKSPACES, LAST_SAID, conversation(), card()].forEach((queryKey) => {
        client.removeQueries({ queryKey });
      });
      client.setQueryData(SESSION, null);
    },
  };
}
