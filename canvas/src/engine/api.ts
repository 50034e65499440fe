import { artifactsText, errorText, readMessage, readSendReply, sendEnvelope } from '@/engine/a2a';
import type { Draft, Outcome } from '@/engine/a2a';
import { readCard } from '@/engine/card';
import type { Card } from '@/engine/card';
import { RefusedError, UnreachableError, isUnauthenticated } from '@/engine/errors';
import type { StreamEvent } from '@/engine/growing';
import { list, object, parse, text } from '@/engine/json';
import type { JsonObject } from '@/engine/json';
import { readConversation, readSaid } from '@/engine/lastWords';
import type { Conversation, LastSaid } from '@/engine/lastWords';
import { readMessageTree } from '@/engine/messageTree';
import type { MessageTree } from '@/engine/messageTree';
import { readWorkspaces } from '@/engine/workspaces';
import type { Workspace } from '@/engine/workspaces';

export interface Session {
  readonly user: string;
  readonly role: string;
  readonly orgId: string;
  readonly orgName: string;
  readonly csrfToken: string;
}

/** Every call the canvas makes. Each rejects with a PlatformError and nothing else. */
export interface PlatformApi {
  login(code: string): Promise<void>;
  logout(): Promise<void>;
  /** The session of this browser, or null when there is none. Remembers its CSRF token for the other calls. */
  session(): Promise<Session | null>;
  workspaces(): Promise<Workspace[]>;
  /** One of them, or null when there is none by that id (any more). */
  workspace(id: string): Promise<Workspace | null>;
  pause(id: string): Promise<void>;
  resume(id: string): Promise<void>;
  /** As the platform shows it to others. */
  card(id: string): Promise<Card>;
  conversation(id: string): Promise<Conversation>;
  /** Of the agents that spoke most recently, in one look however many there are. */
  lastSaid(): Promise<LastSaid>;
  send(id: string, draft: Draft): Promise<Outcome>;
  message(messageId: string): Promise<Outcome>;
  cancel(messageId: string): Promise<void>;
  /** Who asked whom for a message: what led to it, and everything that was sent for it. */
  messageTree(messageId: string): Promise<MessageTree>;
  /** The text of what an agent streamed in a task. */
  streamedText(agentId: string, taskId: string): Promise<string>;
  /** What happens to a message, from its beginning, and through every break. Returns how to end it. */
  followMessage(messageId: string, onEvent: (event: StreamEvent) => void): () => void;
}

/** Opens a stream of server-sent events that reconnects by itself. */
export type OpenEvents = (path: string, onEvent: (event: StreamEvent) => void) => () => void;

export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

interface Request {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly body?: JsonObject;
  readonly headers?: Readonly<Record<string, string>>;
}

interface Reply {
  readonly body: unknown;
  readonly headers: Headers;
}

const PAGE = 500;
const MAX_PAGES = 10;
const HISTORY = 50;
const LATELY = 50;

const segment = encodeURIComponent;

export function createApi(fetch: Fetch, openEvents: OpenEvents = () => () => undefined): PlatformApi {
  let csrfToken = '';

  const call = async (request: Request): Promise<Reply> => {
    const response = await answered(fetch, request, csrfToken);
    const body = parse(response.source);
    if (!response.ok) throw refusal(response.status, body);
    return { body, headers: response.headers };
  };
  const get = (path: string, headers: Record<string, string> = {}): Promise<Reply> =>
    call({ method: 'GET', path, headers });
  const post = (path: string, body: JsonObject, headers: Record<string, string> = {}): Promise<Reply> =>
    call({ method: 'POST', path, body, headers });

  const workspaces = async (): Promise<Workspace[]> => {
    const rows: unknown[] = [];
    let cursor: string | null = '';
    for (let page = 0; page < MAX_PAGES && cursor !== null; page += 1) {
      const reply: Reply = await get(`/workspaces?limit=${PAGE}${cursor === '' ? '' : `&cursor=${segment(cursor)}`}`);
      rows.push(...list(reply.body));
      cursor = reply.headers.get('X-Next-Cursor');
    }
    return readWorkspaces(rows);
  };

  const workspace = async (id: string): Promise<Workspace | null> => {
    try {
      return readWorkspaces([(await get(`/workspaces/${segment(id)}`)).body])[0] ?? null;
    } catch (error) {
      if (error instanceof RefusedError && (error.status === 404 || error.status === 410)) return null;
      throw error;
    }
  };

  const session = async (): Promise<Session | null> => {
    try {
      const found = readSession((await get('/auth/session')).body);
      csrfToken = found.csrfToken;
      return found;
    } catch (error) {
      if (isUnauthenticated(error)) return null;
      throw error;
    }
  };

  const done = async (reply: Promise<Reply>): Promise<void> => {
    await reply;
  };

  const activity = async (id: string, type: string): Promise<unknown> =>
    (await get(`/workspaces/${segment(id)}/activity?type=${type}&limit=${HISTORY}`)).body;

  const events = async (type: string): Promise<readonly unknown[]> =>
    list((await get(`/events?type=${type}&limit=${LATELY}`)).body);

  return {
    login: (code) => done(post('/auth/login', { code })),
    logout: () => done(post('/auth/logout', {})),
    session,
    workspaces,
    workspace,
    pause: (id) => done(post(`/workspaces/${segment(id)}/pause`, {})),
    resume: (id) => done(post(`/workspaces/${segment(id)}/resume`, {})),
    card: async (id) =>
      readCard((await get(`/agents/${segment(id)}/.well-known/agent-card.json`, { 'A2A-Version': '1.0' })).body),
    conversation: async (id) =>
      readConversation(await activity(id, 'a2a_receive'), await activity(id, 'agent_message')),
    lastSaid: async () => readSaid([...(await events('A2A_RESPONSE')), ...(await events('AGENT_MESSAGE'))]),
    // Not held: a browser opens six connections to one host, and messages to a sleeping agent would take them all.
    send: async (id, draft) =>
      readSendReply(
        (await post(`/workspaces/${segment(id)}/a2a`, sendEnvelope(draft), { Prefer: 'respond-async' })).body,
      ),
    cancel: (messageId) => done(post(`/messages/${segment(messageId)}/cancel`, {})),
    messageTree: async (messageId) => readMessageTree((await get(`/messages/${segment(messageId)}/tree`)).body),
    streamedText: async (agentId, taskId) =>
      artifactsText((await get(`/agents/${segment(agentId)}/tasks/${segment(taskId)}`, { 'A2A-Version': '1.0' })).body),
    followMessage: (messageId, onEvent) => openEvents(`/messages/${segment(messageId)}/events`, onEvent),
    message: async (messageId) => readMessage((await get(`/messages/${segment(messageId)}`)).body),
  };
}

interface Answered {
  readonly ok: boolean;
  readonly status: number;
  readonly headers: Headers;
  readonly source: string;
}

async function answered(fetch: Fetch, request: Request, csrfToken: string): Promise<Answered> {
  try {
    const response = await fetch(request.path, requestInit(request, csrfToken));
    return { ok: response.ok, status: response.status, headers: response.headers, source: await response.text() };
  } catch {
    throw new UnreachableError();
  }
}

/** Nothing is taken from the browser's copies: a card may be kept for a minute, and the page shows it as it is now. */
function requestInit({ method, body, headers }: Request, csrfToken: string): RequestInit {
  const sent: Record<string, string> = { Accept: 'application/json', ...headers };
  if (method !== 'GET' && csrfToken !== '') sent['X-CSRF-Token'] = csrfToken;
  const init = { method, headers: sent, credentials: 'same-origin', cache: 'no-cache' } as const;
  if (body === undefined) return init;
  sent['Content-Type'] = 'application/json';
  return { ...init, body: JSON.stringify(body) };
}

function refusal(status: number, body: unknown): RefusedError {
  return new RefusedError(status, text(object(body).code), errorText(body));
}

function readSession(body: unknown): Session {
  const session = object(body);
  return {
    user: text(session.user),
    role: text(session.role),
    orgId: text(session.org_id),
    orgName: text(session.org_name) || text(session.org_id),
    csrfToken: text(session.csrf_token),
  };
}
