import { count, isObject, list, object, text } from '@/engine/json';
import type { JsonObject } from '@/engine/json';
import type { Tone } from '@/engine/status';

/** One message of a tree, with those that were sent for it. */
export interface MessageNode {
  readonly id: string;
  readonly from: string;
  readonly to: string;
  readonly status: string;
  readonly tone: Tone;
  readonly waitedMs: number;
  /** Null while nobody has taken it. */
  readonly workedMs: number | null;
  readonly attempts: number;
  readonly error: string;
  readonly sent: readonly MessageNode[];
}

/** Who asked whom. */
export interface MessageTree {
  readonly roots: readonly MessageNode[];
  readonly isTruncated: boolean;
  /** Whether every message of it has an outcome. */
  readonly isOver: boolean;
}

interface Growing extends MessageNode {
  readonly sent: Growing[];
}

const LOOKS: Readonly<Record<string, { readonly word: string; readonly tone: Tone }>> = {
  accepted: { word: 'waiting', tone: 'busy' },
  leased: { word: 'working', tone: 'busy' },
  answered: { word: 'answered', tone: 'good' },
  failed: { word: 'failed', tone: 'bad' },
  expired: { word: 'expired', tone: 'bad' },
  cancelled: { word: 'cancelled', tone: 'off' },
};

function readNode(row: JsonObject): Growing {
  const status = text(row.status);
  const look = LOOKS[status] ?? { word: status, tone: 'off' };
  return {
    id: text(row.id),
    from: text(row.caller_name) || text(row.caller),
    to: text(row.target_name) || text(row.target_id),
    status: look.word,
    tone: look.tone,
    waitedMs: count(row.waited_ms),
    workedMs: typeof row.worked_ms === 'number' ? row.worked_ms : null,
    attempts: count(row.attempts),
    error: text(object(row.error).message),
    sent: [],
  };
}

/** Reads GET /messages/{id}/tree: parents come before those below them; one whose parent is not shown stands at the top. */
export function readMessageTree(body: unknown): MessageTree {
  const { messages, truncated } = object(body);
  const rows = list(messages).filter(isObject);
  const nodes = new Map<string, Growing>();
  const roots: Growing[] = [];
  for (const row of rows) {
    const node = readNode(row);
    (nodes.get(text(row.parent_message_id))?.sent ?? roots).push(node);
    nodes.set(node.id, node);
  }
  const isOver = [...nodes.values()].every(({ tone }) => tone !== 'busy');
  return { roots, isTruncated: truncated === true, isOver };
}

/** A duration as it is told at a glance. */
export function showDuration(milliseconds: number): string {
  if (milliseconds < 1_000) return `${Math.round(milliseconds)} ms`;
  const seconds = milliseconds / 1_000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
}

/** How long a message waited and was worked on. */
export function showTimes({ waitedMs, workedMs, attempts }: MessageNode): string {
  const worked = workedMs === null ? [] : [`worked ${showDuration(workedMs)}`];
  const tried = attempts > 1 ? [`${attempts} attempts`] : [];
  return [`waited ${showDuration(waitedMs)}`, ...worked, ...tried].join(', ');
}
