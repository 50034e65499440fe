import { artifactText, messageText, stateOf } from '@/engine/a2a';
import { list, object, parse, text } from '@/engine/json';
import type { JsonObject } from '@/engine/json';

/** One server-sent event of GET /messages/{id}/events. Steps through the mailbox have no id. */
export interface StreamEvent {
  readonly event: string;
  readonly id: string;
  readonly data: string;
}

/** An answer while it is made, out of the events of its task. */
export interface Growing {
  /** Artifacts in the order in which they began. */
  readonly artifacts: readonly { readonly id: string; readonly text: string }[];
  /** What the agent last said about its work. */
  readonly progress: string;
  /** What it said in the end, beside the artifacts. */
  readonly said: string;
  /** The number of the last event; one that comes again is passed over. */
  readonly seen: number;
  readonly isOver: boolean;
}

export const NOTHING_YET: Growing = { artifacts: [], progress: '', said: '', seen: 0, isOver: false };

/** The events in the stream of a message, by their names. */
export const STREAM_EVENTS = ['task', 'status', 'artifact', 'message', 'answered', 'failed', 'expired', 'cancelled'] as const;

const OUTCOMES: ReadonlySet<string> = new Set(['answered', 'failed', 'expired', 'cancelled']);

function withPiece(growing: Growing, id: string, words: string, isAppended: boolean): Growing {
  const { artifacts } = growing;
  if (!artifacts.some((artifact) => artifact.id === id)) {
    return { ...growing, artifacts: [...artifacts, { id, text: words }] };
  }
  const changed = artifacts.map((artifact) =>
    artifact.id === id ? { id, text: isAppended ? artifact.text + words : words } : artifact,
  );
  return { ...growing, artifacts: changed };
}

function withStatus(growing: Growing, update: JsonObject): Growing {
  const words = messageText(object(update.status).message);
  const isAtWork = ['submitted', 'working', ''].includes(stateOf(update));
  if (isAtWork) return words === '' ? growing : { ...growing, progress: words };
  // Why a task was cancelled or failed is told by its outcome.
  return stateOf(update) === 'completed' ? { ...growing, said: words } : growing;
}

function withTask(growing: Growing, task: JsonObject): Growing {
  const whole = list(task.artifacts)
    .map(object)
    .reduce((grown, one) => withPiece(grown, text(one.artifactId), artifactText(one), false), growing);
  return withStatus(whole, task);
}

const FOLDS: Readonly<Record<string, (growing: Growing, data: JsonObject) => Growing>> = {
  task: (growing, data) => withTask(growing, object(data.task)),
  status: (growing, data) => withStatus(growing, object(data.statusUpdate)),
  message: (growing, data) => ({ ...growing, said: messageText(data.message) }),
  artifact: (growing, data) => {
    const update = object(data.artifactUpdate);
    const artifact = object(update.artifact);
    return withPiece(growing, text(artifact.artifactId), artifactText(artifact), update.append === true);
  },
};

/** The answer after one more event. What comes after its outcome, or again, changes nothing. */
export function grow(growing: Growing, { event, id, data }: StreamEvent): Growing {
  if (growing.isOver) return growing;
  if (OUTCOMES.has(event)) return { ...growing, isOver: true };
  const seen = Number(id);
  const fold = Object.hasOwn(FOLDS, event) ? FOLDS[event] : undefined;
  if (fold === undefined || !(seen > growing.seen)) return growing;
  return { ...fold(growing, object(parse(data))), seen };
}

/** What there is of the answer so far. */
export function grownText({ artifacts, said }: Growing): string {
  return joined(artifacts.map((artifact) => artifact.text).filter((words) => words !== '').join('\n\n'), said);
}

/** Two tellings of one answer; what the longer one holds already is not repeated. */
export function joined(one: string, other: string): string {
  if (one.includes(other.trim())) return one;
  return other.includes(one.trim()) ? other : `${one}\n\n${other}`;
}
