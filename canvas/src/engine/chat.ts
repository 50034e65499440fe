import { readAnswer } from '@/engine/a2a';
import type { Draft, Outcome } from '@/engine/a2a';
import { count, isObject, list, object, text, textOrNull } from '@/engine/json';
import type { JsonObject } from '@/engine/json';

/** One thing the platform remembers of a conversation. */
export type HistoryEntry = Exchange | Note;

/** A message of a person and what became of it. */
export interface Exchange {
  readonly kind: 'exchange';
  readonly rowId: string;
  readonly messageIds: readonly string[];
  readonly platformId: string | null;
  readonly taskId: string | null;
  readonly contextId: string;
  readonly text: string;
  readonly at: string;
  readonly finishedAt: number;
  readonly outcome: Outcome;
}

/** Something the agent said by itself. */
export interface Note {
  readonly kind: 'note';
  readonly rowId: string;
  readonly text: string;
  readonly at: string;
}

/** A message sent from this page, until the platform's history holds it. */
export interface Outgoing extends Draft {
  readonly at: string;
  /** Rows that existed when it was sent: a later row with the same words is this one. */
  readonly knownRows: ReadonlySet<string>;
  readonly platformId: string | null;
  readonly outcome: Outcome | { readonly kind: 'sending' } | { readonly kind: 'unknown'; readonly error: string };
}

export type ChatOutcome = Outgoing['outcome'];

/** What the log shows, oldest first. */
export type ChatItem =
  | { readonly kind: 'note'; readonly key: string; readonly text: string; readonly at: string }
  | {
      readonly kind: 'exchange';
      readonly key: string;
      readonly text: string;
      readonly at: string;
      readonly outcome: ChatOutcome;
      /** The platform's id of the message, once it is known. */
      readonly messageId: string | null;
      /** The task in which the agent works on it, once it is known. */
      readonly taskId: string | null;
    };

function rowOutcome(row: JsonObject, messageId: string): Outcome {
  const status = text(row.status);
  if (status === 'pending') return { kind: 'waiting', messageId: messageId || null };
  if (status === 'timeout') return { kind: 'failed', error: text(row.error_detail) || 'No answer came in time.' };
  const answer = readAnswer(row.response_body);
  if (status !== 'error' || answer.kind === 'stopped') return answer;
  const said = answer.kind === 'failed' ? answer.error : '';
  return { kind: 'failed', error: text(row.error_detail) || said || 'The message could not be delivered.' };
}

function readExchange(row: JsonObject): Exchange {
  const data = object(row.data);
  const platformId = text(row.message_id) || text(data.message_id);
  const sent = object(object(object(row.request_body).params).message);
  const at = text(row.ts) || text(row.created_at);
  return {
    kind: 'exchange',
    rowId: text(row.id),
    messageIds: [platformId, text(sent.messageId)].filter((id) => id !== ''),
    platformId: textOrNull(platformId),
    taskId: textOrNull(data.task_id),
    contextId: text(data.context_id),
    text: text(data.text) || text(data.message),
    at,
    finishedAt: Date.parse(at) + count(row.duration_ms),
    outcome: rowOutcome(row, platformId),
  };
}

function readNote(row: JsonObject): Note {
  const data = object(row.data);
  return {
    kind: 'note',
    rowId: text(row.id),
    text: text(data.text) || text(data.message) || text(row.summary),
    at: text(row.ts) || text(row.created_at),
  };
}

const ECHO_MS = 15_000;

/** An agent that answers through notify leaves its words twice: as the answer and as a note. */
function isEcho(note: Note, exchanges: readonly Exchange[]): boolean {
  return exchanges.some(
    ({ outcome, finishedAt }) =>
      outcome.kind === 'answered' &&
      outcome.text === note.text &&
      Math.abs(finishedAt - Date.parse(note.at)) <= ECHO_MS,
  );
}

function rowsOf(body: unknown): JsonObject[] {
  return list(body)
    .filter(isObject)
    .filter((row) => text(row.id) !== '');
}

/** The conversation with the person, oldest first, out of activity rows as the platform lists them (newest first). */
export function readHistory(received: unknown, notified: unknown): HistoryEntry[] {
  const exchanges = rowsOf(received)
    .filter((row) => text(object(row.data).source) === 'canvas_user')
    .map(readExchange);
  const notes = rowsOf(notified)
    .map(readNote)
    .filter((note) => note.text !== '' && !isEcho(note, exchanges));
  const entries: HistoryEntry[] = [...exchanges.reverse(), ...notes.reverse()];
  return entries.sort((one, other) => Date.parse(one.at) - Date.parse(other.at));
}

function isSame(exchange: Exchange, outgoing: Outgoing): boolean {
  const { messageId, platformId, contextId } = outgoing;
  if (exchange.messageIds.includes(messageId)) return true;
  if (platformId !== null) return exchange.messageIds.includes(platformId);
  const twin = exchange.contextId === contextId && exchange.text === outgoing.text;
  return twin && !outgoing.knownRows.has(exchange.rowId);
}

const ENDED: ReadonlySet<ChatOutcome['kind']> = new Set(['answered', 'asked', 'stopped', 'failed']);

/** History is the truth, except that this page may have heard the answer a moment earlier. */
function newerOutcome(exchange: Exchange, outgoing: Outgoing): ChatOutcome {
  const isEnded = ENDED.has(outgoing.outcome.kind);
  return exchange.outcome.kind === 'waiting' && isEnded ? outgoing.outcome : exchange.outcome;
}

function pairUp(history: readonly HistoryEntry[], outbox: readonly Outgoing[]): Map<HistoryEntry, Outgoing> {
  const pairs = new Map<HistoryEntry, Outgoing>();
  for (const outgoing of outbox) {
    const match = history.find(
      (entry) => entry.kind === 'exchange' && !pairs.has(entry) && isSame(entry, outgoing),
    );
    if (match !== undefined) pairs.set(match, outgoing);
  }
  return pairs;
}

function historyItem(entry: HistoryEntry, outgoing: Outgoing | undefined): ChatItem {
  if (entry.kind === 'note') return { kind: 'note', key: entry.rowId, text: entry.text, at: entry.at };
  const outcome = outgoing === undefined ? entry.outcome : newerOutcome(entry, outgoing);
  const { text: said, at, platformId, taskId } = entry;
  const key = outgoing?.messageId ?? entry.rowId;
  return { kind: 'exchange', key, text: said, at, outcome, messageId: platformId ?? outgoing?.platformId ?? null, taskId };
}

function outgoingItem({ messageId, platformId, text: said, at, outcome }: Outgoing): ChatItem {
  return { kind: 'exchange', key: messageId, text: said, at, outcome, messageId: platformId, taskId: null };
}

/** The message that the agent works on, or will next: it takes those of a conversation in their order. */
export function runningIn(items: readonly ChatItem[]): string | null {
  const running = items.find((item) => item.kind === 'exchange' && item.outcome.kind === 'waiting');
  return running?.kind === 'exchange' ? running.messageId : null;
}

/** The task whose question is the last word, and so is answered by the next message. */
export function openQuestion(items: readonly ChatItem[]): string | null {
  const last = items.findLast((item) => item.kind === 'exchange');
  return last?.kind === 'exchange' && last.outcome.kind === 'asked' ? last.outcome.taskId : null;
}

/**
 * History, with what it does not hold (yet) in its place: behind the rows that were there when it was sent and behind
 * what this page had sent before. Clocks are not compared, because the browser's may differ from the platform's.
 */
export function mergeChat(history: readonly HistoryEntry[], outbox: readonly Outgoing[]): ChatItem[] {
  const pairs = pairUp(history, outbox);
  const partner = new Map([...pairs].map(([entry, outgoing]) => [outgoing, entry]));
  const before = new Map<number, ChatItem[]>();
  let place = 0;
  for (const outgoing of outbox) {
    const entry = partner.get(outgoing);
    const known = history.findLastIndex((one) => one === entry || outgoing.knownRows.has(one.rowId));
    place = Math.max(place, known + 1);
    if (entry === undefined) before.set(place, [...(before.get(place) ?? []), outgoingItem(outgoing)]);
  }
  const rows = history.flatMap((entry, at) => [...(before.get(at) ?? []), historyItem(entry, pairs.get(entry))]);
  return [...rows, ...(before.get(history.length) ?? [])];
}
