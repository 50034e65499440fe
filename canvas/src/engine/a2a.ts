import { isObject, list, object, parse, text } from '@/engine/json';
import type { JsonObject } from '@/engine/json';

/** A message from the person at the canvas to one agent, before it is an envelope. */
export interface Draft {
  readonly messageId: string;
  readonly contextId: string;
  readonly text: string;
  /** The task whose question this answers. */
  readonly taskId?: string | null;
}

/** Asks for a stream: an agent with a URL that can would otherwise answer in one piece, and nothing would grow. */
export function sendEnvelope(draft: Draft): JsonObject {
  const message = {
    role: 'user',
    messageId: draft.messageId,
    contextId: draft.contextId,
    ...(typeof draft.taskId === 'string' && { taskId: draft.taskId }),
    parts: [{ kind: 'text', text: draft.text }],
  };
  return { jsonrpc: '2.0', id: draft.messageId, method: 'message/stream', params: { message } };
}

/** What became of a message, as far as it is known. */
export type Outcome =
  | { readonly kind: 'answered'; readonly text: string }
  /** The agent needs more input: the next message with this task answers it. */
  | { readonly kind: 'asked'; readonly text: string; readonly taskId: string }
  /** Somebody called it off. */
  | { readonly kind: 'stopped' }
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

/** The text of one artifact: its parts are the chunks in which it came. */
export function artifactText(artifact: unknown): string {
  return partTexts(object(artifact).parts).join('');
}

/** The text of all artifacts of a task. */
export function artifactsText(task: unknown): string {
  const texts = list(object(task).artifacts).map(artifactText);
  return texts.filter((piece) => piece !== '').join('\n\n');
}

/** The text of a message: its parts stand one below the other. */
export function messageText(message: unknown): string {
  return partTexts(object(message).parts).join('\n\n');
}

/** All text of a Message, a Task or a plain answer; a piece that is said twice (task and artifact) is shown once. */
export function resultText(result: unknown): string {
  if (typeof result === 'string') return result;
  const task = unwrapped(result);
  const whole = [messageText(task), messageText(object(task.status).message), ...list(task.artifacts).map(artifactText)];
  const said = whole.filter((piece) => piece !== '');
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
};

const QUESTIONS: ReadonlySet<string> = new Set(['input-required', 'auth-required']);

/** The state of a Task or of its update, in the words of A2A 0.3. */
export function stateOf(task: unknown): string {
  return text(object(object(task).status).state).replace(/^TASK_STATE_/, '').toLowerCase().replace('_', '-');
}

function resultOutcome(result: unknown): Outcome {
  const task = unwrapped(result);
  const state = stateOf(task);
  const said = resultText(result);
  if (state === 'canceled') return { kind: 'stopped' };
  if (QUESTIONS.has(state)) return { kind: 'asked', text: said, taskId: text(task.id) };
  const badly = ENDED_BADLY[state];
  return badly === undefined ? { kind: 'answered', text: said } : { kind: 'failed', error: said || badly };
}

/** Whether an error, of JSON-RPC or of a message, says that somebody called it off. */
function isCancelled(error: unknown): boolean {
  const { code, data } = object(error);
  return code === 'cancelled' || list(data).some((detail) => object(detail).reason === 'CANCELLED');
}

/** Reads a finished answer: a JSON-RPC envelope, a bare result, or either of them as a JSON string. */
export function readAnswer(body: unknown): Outcome {
  if (typeof body === 'string') {
    const parsed = parse(body);
    return isObject(parsed) ? readAnswer(parsed) : { kind: 'answered', text: body };
  }
  const envelope = object(body);
  if (isCancelled(envelope.error)) return { kind: 'stopped' };
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
};

/** Reads GET /messages/{id}. */
export function readMessage(body: unknown): Outcome {
  const message = object(body);
  const status = text(message.status);
  if (status === 'cancelled') return { kind: 'stopped' };
  if (UNFINISHED.has(status)) return { kind: 'waiting', messageId: text(message.id) || null };
  const ended = ENDED_WITHOUT_ANSWER[status];
  if (ended !== undefined) return { kind: 'failed', error: text(object(message.error).message) || ended };
  return resultOutcome(message.result);
}
