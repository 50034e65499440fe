import type { ChatOutcome, Outgoing } from '@/engine/chat';
import { RefusedError, sentenceOf } from '@/engine/errors';
import { newId } from '@/engine/ids';
import * as outbox from '@/engine/outbox';
import { contextFor } from '@/store/memory';
import type { Platform } from '@/store/platform';

/** Sends text to an agent, as the answer to its question if a task is named; it is in the log at once, and what becomes of it follows there. */
export function send(platform: Platform, agentId: string, text: string, taskId: string | null = null): Promise<void> {
  return deliver(platform, agentId, {
    messageId: newId(),
    contextId: contextFor(platform.memory, agentId),
    text,
    taskId,
    at: new Date().toISOString(),
    knownRows: platform.records.knownRows(agentId),
    platformId: null,
    outcome: { kind: 'sending' },
  });
}

/**
 * Sends the text of a message again. When nobody knows whether it arrived, under its old id, so that it cannot be
 * done twice; when it has failed for good, as a new message, because the old id would only bring back the failure.
 */
export function sendAgain(platform: Platform, agentId: string, messageId: string, text: string): Promise<void> {
  const { canvas } = platform;
  const earlier = canvas.getState().outbox[agentId]?.find((outgoing) => outgoing.messageId === messageId);
  if (earlier?.outcome.kind === 'unknown') {
    return deliver(platform, agentId, { ...earlier, outcome: { kind: 'sending' } });
  }
  if (earlier?.platformId === null) canvas.getState().changeOutbox((box) => outbox.drop(box, agentId, messageId));
  return send(platform, agentId, text);
}

async function deliver(platform: Platform, agentId: string, outgoing: Outgoing): Promise<void> {
  const { changeOutbox } = platform.canvas.getState();
  changeOutbox((box) => outbox.put(box, agentId, outgoing));
  const outcome = await attempt(platform, agentId, outgoing);
  changeOutbox((box) => outbox.record(box, agentId, outgoing.messageId, outcome));
  platform.records.refreshChat(agentId);
}

async function attempt(platform: Platform, agentId: string, outgoing: Outgoing): Promise<ChatOutcome> {
  try {
    return await platform.api.send(agentId, outgoing);
  } catch (error) {
    const kind = error instanceof RefusedError ? 'failed' : 'unknown';
    return { kind, error: sentenceOf(error) };
  }
}
