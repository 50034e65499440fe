import type { QueryClient, UseQueryOptions } from '@tanstack/react-query';

import type { PlatformApi, Session } from '@/engine/api';
import type { Card } from '@/engine/card';
import { PlatformError } from '@/engine/errors';
import { foldFrame, needsRow } from '@/engine/frames';
import type { Frame } from '@/engine/frames';
import { foldSaid } from '@/engine/lastWords';
import type { Conversation, LastSaid } from '@/engine/lastWords';
import type { MessageTree } from '@/engine/messageTree';
import { putRow } from '@/engine/workspaces';
import type { Workspace } from '@/engine/workspaces';

const SESSION = ['session'] as const;
const WORKSPACES = ['workspaces'] as const;
const LAST_SAID = ['last-said'] as const;
const conversation = (...agentId: string[]): readonly string[] => ['conversation', ...agentId];
const streamedText = (...ids: string[]): readonly string[] => ['streamed-text', ...ids];
const messageTree = (...messageId: string[]): readonly string[] => ['message-tree', ...messageId];
const card = (...agentId: string[]): readonly string[] => ['card', ...agentId];

export function sessionQuery(api: PlatformApi): UseQueryOptions<Session | null> {
  return { queryKey: SESSION, queryFn: () => api.session(), staleTime: 60_000 };
}

export function workspacesQuery(records: Records): UseQueryOptions<readonly Workspace[]> {
  return { queryKey: WORKSPACES, queryFn: () => records.readWorkspaces() };
}

export function lastSaidQuery(api: PlatformApi): UseQueryOptions<LastSaid> {
  return { queryKey: LAST_SAID, queryFn: () => api.lastSaid() };
}

export function conversationQuery(api: PlatformApi, agentId: string): UseQueryOptions<Conversation> {
  return { queryKey: conversation(agentId), queryFn: () => api.conversation(agentId) };
}

/** Of a task that is over, so it never changes. */
export function streamedTextQuery(api: PlatformApi, agentId: string, taskId: string): UseQueryOptions<string> {
  return { queryKey: streamedText(agentId, taskId), queryFn: () => api.streamedText(agentId, taskId), staleTime: Infinity };
}

export function messageTreeQuery(api: PlatformApi, messageId: string): UseQueryOptions<MessageTree> {
  return { queryKey: messageTree(messageId), queryFn: () => api.messageTree(messageId) };
}

export function cardQuery(api: PlatformApi, agentId: string): UseQueryOptions<Card> {
  return { queryKey: card(agentId), queryFn: () => api.card(agentId) };
}

/** The page's copy of what the platform knows, and how it is kept true. */
export interface Records {
  fold(frame: Frame): void;
  /** Whether the page must read the row of the event's agent to know what changed. */
  lacks(frame: Frame): boolean;
  /** All rows, with what events told while they were on the way. */
  readWorkspaces(): Promise<readonly Workspace[]>;
  /** Reads the row of one agent; the others stay as they are. */
  refreshWorkspace(agentId: string): Promise<void>;
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

/** Reads rows while events go on: what an event told meanwhile is newer than the answer. */
function createRowReader(): { hear(frame: Frame): void; read(fetch: () => Promise<Workspace[]>): Promise<readonly Workspace[]> } {
  const readings = new Set<Frame[]>();
  return {
    hear: (frame) => {
      readings.forEach((heard) => heard.push(frame));
    },
    read: async (fetch) => {
      const heard: Frame[] = [];
      readings.add(heard);
      try {
        return heard.reduce(foldFrame, await fetch());
      } finally {
        readings.delete(heard);
      }
    },
  };
}

export function createRecords(client: QueryClient, api: PlatformApi): Records {
  const rows = createRowReader();
  const refresh = (queryKey: readonly string[]): void => {
    void client.invalidateQueries({ queryKey });
  };
  const refreshWorkspace = async (agentId: string): Promise<void> => {
    try {
      const [row] = await rows.read(async () => [await api.workspace(agentId)].filter((found) => found !== null));
      client.setQueryData<readonly Workspace[]>(WORKSPACES, (known) => {
        if (known === undefined) return undefined;
        return row === undefined ? known.filter(({ id }) => id !== agentId) : putRow(known, row);
      });
    } catch (error) {
      // The list as a whole says what is wrong, and tries again.
      if (!(error instanceof PlatformError)) throw error;
      refresh(WORKSPACES);
    }
  };
  return {
    fold: (frame) => {
      rows.hear(frame);
      client.setQueryData<readonly Workspace[]>(WORKSPACES, (known) => known && foldFrame(known, frame));
      client.setQueryData<LastSaid>(LAST_SAID, (said) => said && foldSaid(said, frame));
    },
    lacks: (frame) => {
      const known = client.getQueryData<readonly Workspace[]>(WORKSPACES);
      return known !== undefined && needsRow(known, frame);
    },
    readWorkspaces: () => rows.read(() => api.workspaces()),
    refreshWorkspace,
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
      [WORKSPACES, LAST_SAID, conversation(), streamedText(), messageTree(), card()].forEach((queryKey) => {
        client.removeQueries({ queryKey });
      });
      client.setQueryData(SESSION, null);
    },
  };
}
