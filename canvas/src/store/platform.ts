import { useQuery } from '@tanstack/react-query';
import { createContext, useContext } from 'react';
import { useStore } from 'zustand';

import type { PlatformApi, Session } from '@/engine/api';
import type { Card } from '@/engine/card';
import type { Conversation, LastSaid } from '@/engine/lastWords';
import type { MessageTree } from '@/engine/messageTree';
import type { Workspace } from '@/engine/workspaces';
import type { CanvasActions, CanvasState, CanvasStore } from '@/store/canvas';
import type { Memory } from '@/store/memory';
import {
  cardQuery,
  conversationQuery,
  lastSaidQuery,
  messageTreeQuery,
  sessionQuery,
  streamedTextQuery,
  workspacesQuery,
} from '@/store/records';
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
  const query = { ...workspacesQuery(usePlatform().records), refetchInterval: live ? false : POLL_WHILE_BROKEN_MS } as const;
  const { data, error, refetch } = useQuery(query);
  return { data, error, retry: () => void refetch() };
}

export function useConversation(agentId: string): Reading<Conversation> {
  const { data, error, refetch } = useQuery(conversationQuery(usePlatform().api, agentId));
  return { data, error, retry: () => void refetch() };
}

/** The card of an agent that has one. */
export function useCard({ id, hasCard }: Workspace): Reading<Card> {
  const { data, error, refetch } = useQuery({ ...cardQuery(usePlatform().api, id), enabled: hasCard });
  return { data, error, retry: () => void refetch() };
}

/** What an agent streamed in a task that is over; nothing while it cannot be had. */
export function useStreamedText(agentId: string, taskId: string): Reading<string> {
  const { data, error, refetch } = useQuery(streamedTextQuery(usePlatform().api, agentId, taskId));
  return { data, error, retry: () => void refetch() };
}

const WATCH_TREE_MS = 2_000;

/** Who asked whom for a message; asked for again while some of it is under way. */
export function useMessageTree(messageId: string): Reading<MessageTree> {
  const { data, error, refetch } = useQuery({
    ...messageTreeQuery(usePlatform().api, messageId),
    refetchInterval: ({ state }) => (state.data?.isOver === true ? false : WATCH_TREE_MS),
  });
  return { data, error, retry: () => void refetch() };
}

const NOTHING_SAID: LastSaid = {};

/** A help to the eye on the graph: while it cannot be had, the graph does without. */
export function useLastSaid(): LastSaid {
  return useQuery(lastSaidQuery(usePlatform().api)).data ?? NOTHING_SAID;
}
