import { readAnswer } from '@/engine/a2a';
import type { Draft, Outcome } from '@/engine/a2a';
import { count, isObject, list, object, text } from '@/engine/json';
import type { JsonObject } from '@/engine/json';

/** One thing the platform remembers of a conversation. */
export type HistoryEntry = Exchange | Note;

/** A message of a person and what became of it. */
export interface Exchange {
  readonly kind: 'exchange';
  readonly rowId: string;
  readonly messageIds: readonly string[];
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
    };

function rowOutcome(row: JsonObject, messageId: string): Outcome {
  const status = text(row.status);
  if (status === 'pending') return { kind: 'waiting', messageId: messageId || null };
  if (status === 'timeout') return { kind: 'failed', error: text(row.error_detail) || 'No answer came in time.' };
  if (status !== 'error') return readAnswer(row.response_body);
  const answer = readAnswer(row.response_body);
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

/** History is the truth, except that this page may have heard the answer a moment earlier. */
function newerOutcome(exchange: Exchange, outgoing: Outgoing): ChatOutcome {
  const heard = outgoing.outcome.kind === 'answered' || outgoing.outcome.kind === 'failed';
  return exchange.outcome.kind === 'waiting' && heard ? outgoing.outcome : exchange.outcome;
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
  return { kind: 'exchange', key: outgoing?.messageId ?? entry.rowId, text: entry.text, at: entry.at, outcome };
}

function outgoingItem({ messageId, text: said, at, outcome }: Outgoing): ChatItem {
  return { kind: 'exchange', key: messageId, text: said, at, outcome };
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
