import { readAnswer } from '@/engine/a2a';
import { readHistory } from '@/engine/chat';
import type { HistoryEntry } from '@/engine/chat';
import type { Frame } from '@/engine/frames';
import { count, isObject, list, object, text } from '@/engine/json';
import type { JsonObject } from '@/engine/json';
import { oneLine } from '@/engine/words';

/** The beginning of something said, by or to whom, and when. */
export interface Word {
  readonly who: string;
  readonly text: string;
  readonly at: string;
}

/** The newest thing an agent was told, by anybody, and the newest it said. */
export interface LastWords {
  readonly received: Word | null;
  readonly said: Word | null;
}

/** What was said with an agent: the conversation with people, and its last words with anybody. */
export interface Conversation {
  readonly entries: readonly HistoryEntry[];
  readonly last: LastWords;
}

const MOST = 280;
const PEOPLE = 'people';

const SENDERS: Readonly<Record<string, string>> = {
  canvas_user: 'a program',
  peer_agent: 'an agent',
  schedule: 'a schedule',
  channel: 'a channel',
  system: 'the platform',
};

/** The name of the other side, or what kind it is. */
function otherSide(row: JsonObject): string {
  const data = object(row.data);
  const caller = text(row.caller);
  const person = caller.startsWith('user:') ? caller.slice('user:'.length) : '';
  return oneLine(text(data.peer_name) || person, 60) || (SENDERS[text(data.source)] ?? 'somebody');
}

function word(who: string, said: string, at: string): Word {
  return { who, text: oneLine(said, MOST), at };
}

const moment = (row: JsonObject): string => text(row.ts) || text(row.created_at);

function received(row: JsonObject): Word {
  const data = object(row.data);
  return word(otherSide(row), text(data.text) || text(row.summary), moment(row));
}

function answered(row: JsonObject): Word[] {
  const answer = readAnswer(row.response_body);
  const at = new Date(Date.parse(moment(row)) + count(row.duration_ms));
  if (text(row.status) !== 'ok' || answer.kind !== 'answered' || Number.isNaN(at.getTime())) return [];
  return [word(otherSide(row), answer.text, at.toISOString())];
}

function told(row: JsonObject): Word {
  return word(PEOPLE, text(object(row.data).text) || text(row.summary), moment(row));
}

function newest(words: readonly Word[]): Word | null {
  const later = (one: Word, other: Word): Word => (Date.parse(other.at) > Date.parse(one.at) ? other : one);
  return words.length === 0 ? null : words.reduce(later);
}

/** Out of activity rows: what it received, with the answers, and what it told people by itself. */
export function readLastWords(receivedRows: unknown, notifiedRows: unknown): LastWords {
  const inbound = list(receivedRows).filter(isObject);
  const notified = list(notifiedRows).filter(isObject);
  return {
    received: newest(inbound.map(received)),
    said: newest([...inbound.flatMap(answered), ...notified.map(told)]),
  };
}

export function readConversation(receivedRows: unknown, notifiedRows: unknown): Conversation {
  return { entries: readHistory(receivedRows, notifiedRows), last: readLastWords(receivedRows, notifiedRows) };
}

/** The beginning of the last thing that each agent said, by the agent's id. */
export type LastSaid = Readonly<Record<string, Pick<Word, 'text' | 'at'>>>;

function saidIn(event: string, payload: JsonObject): string {
  if (event === 'AGENT_MESSAGE') return text(payload.message);
  if (event !== 'A2A_RESPONSE') return '';
  const answer = readAnswer(payload.response_body);
  return answer.kind === 'answered' ? answer.text : '';
}

/** The same object when the event says nothing new. */
export function foldSaid(said: LastSaid, { event, workspaceId, timestamp, payload }: Omit<Frame, 'id'>): LastSaid {
  const words = oneLine(saidIn(event, payload), MOST);
  const before = Object.hasOwn(said, workspaceId) ? said[workspaceId] : undefined;
  if (words === '' || (before !== undefined && Date.parse(before.at) > Date.parse(timestamp))) return said;
  return { ...said, [workspaceId]: { text: words, at: timestamp } };
}

/** Out of rows of the event log, in any order. */
export function readSaid(rows: readonly unknown[]): LastSaid {
  const frames = rows.filter(isObject).map((row) => ({
    event: text(row.event_type),
    workspaceId: text(row.workspace_id),
    timestamp: text(row.created_at),
    payload: object(row.payload),
  }));
  return frames.reduce(foldSaid, {});
}
