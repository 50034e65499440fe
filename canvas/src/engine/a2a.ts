import { isObject, list, object, parse, text } from '@/engine/json';
import type { JsonObject } from '@/engine/json';

/** A message from the person at the canvas to one agent, before it is an envelope. */
export interface Draft {
  readonly messageId: string;
  readonly contextId: string;
  readonly text: string;
}

export function sendEnvelope(draft: Draft): JsonObject {
  const message = {
    role: 'user',
    messageId: draft.messageId,
    contextId: draft.contextId,
    parts: [{ kind: 'text', text: draft.text }],
  };
  return { jsonrpc: '2.0', id: draft.messageId, method: 'message/send', params: { message } };
}

/** What became of a message, as far as it is known. */
export type Outcome =
  | { readonly kind: 'answered'; readonly text: string }
  | { readonly kind: 'waiting'; readonly messageId: string | null }
  | { readonly kind: 'failed'; readonly error: string };

function partTexts(parts: unknown): string[] {
  return list(parts)
    .map((part) => text(object(part).text))
    .filter((piece) => piece !== '');
}

function plainText(result: JsonObject): string[] {
  return [result.text, result.message, result.reply].map(text).filter((piece) => piece !== '');
}

/** The Message or Task itself; A2A 1.0 wraps either in a member of its name. */
function unwrapped(result: unknown): JsonObject {
  const wrapper = object(result);
  return [wrapper.task, wrapper.message].find(isObject) ?? wrapper;
}

/** All text of a Message, a Task or a plain answer; a piece that is said twice (task and artifact) is shown once. */
export function resultText(result: unknown): string {
  if (typeof result === 'string') return result;
  const task = unwrapped(result);
  const said = [
    ...partTexts(task.parts),
    ...partTexts(object(object(task.status).message).parts),
    ...list(task.artifacts).flatMap((artifact) => partTexts(object(artifact).parts)),
  ];
  const pieces = said.length > 0 ? said : plainText(task);
  return [...new Set(pieces)].join('\n\n');
}

/** The sentence of an error in any of its forms: JSON-RPC error object, REST body, plain text. */
export function errorText(body: unknown): string {
  if (typeof body === 'string') return body;
  const error = object(body).error;
  if (typeof error === 'string') return error;
  return text(object(error).message) || text(object(body).message);
}

const ENDED_BADLY: Readonly<Record<string, string>> = {
  failed: 'The agent could not finish this.',
  rejected: 'The agent declined this.',
  canceled: 'This was cancelled.',
};

function resultOutcome(result: unknown): Outcome {
  const state = text(object(unwrapped(result).status).state).replace(/^TASK_STATE_/, '').toLowerCase();
  const said = resultText(result);
  const badly = ENDED_BADLY[state];
  return badly === undefined ? { kind: 'answered', text: said } : { kind: 'failed', error: said || badly };
}

/** Reads a finished answer: a JSON-RPC envelope, a bare result, or either of them as a JSON string. */
export function readAnswer(body: unknown): Outcome {
  if (typeof body === 'string') {
    const parsed = parse(body);
    return isObject(parsed) ? readAnswer(parsed) : { kind: 'answered', text: body };
  }
  const envelope = object(body);
  if (envelope.error !== undefined && envelope.error !== null) {
    return { kind: 'failed', error: errorText(envelope) || 'The agent answered with an error.' };
  }
  return resultOutcome('result' in envelope ? envelope.result : envelope);
}

/** Reads what POST /workspaces/{id}/a2a answered with a 2xx. */
export function readSendReply(body: unknown): Outcome {
  const reply = object(body);
  if (reply.queued === true) {
    return { kind: 'waiting', messageId: text(reply.message_id) || text(reply.queue_id) || null };
  }
  return readAnswer(reply);
}

const UNFINISHED: ReadonlySet<string> = new Set(['accepted', 'leased']);

const ENDED_WITHOUT_ANSWER: Readonly<Record<string, string>> = {
  failed: 'The message could not be delivered.',
  expired: 'No answer came in time.',
  cancelled: 'The message was cancelled.',
};

/** Reads GET /messages/{id}. */
export function readMessage(body: unknown): Outcome {
  const message = object(body);
  const status = text(message.status);
  if (UNFINISHED.has(status)) return { kind: 'waiting', messageId: text(message.id) || null };
  const ended = ENDED_WITHOUT_ANSWER[status];
  if (ended !== undefined) return { kind: 'failed', error: text(object(message.error).message) || ended };
  return resultOutcome(message.result);
}
