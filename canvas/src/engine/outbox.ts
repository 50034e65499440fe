import type { Outcome } from '@/engine/a2a';
import type { ChatOutcome, Outgoing } from '@/engine/chat';

/** What this page has sent, by agent. */
export type Outbox = Readonly<Record<string, readonly Outgoing[]>>;

const KEPT_PER_AGENT = 50;

/** Adds a message, or puts it anew when it is sent again under the same id. */
export function put(outbox: Outbox, agentId: string, outgoing: Outgoing): Outbox {
  const others = (outbox[agentId] ?? []).filter(({ messageId }) => messageId !== outgoing.messageId);
  return { ...outbox, [agentId]: [...others, outgoing].slice(-KEPT_PER_AGENT) };
}

/** Takes a message out, to be sent again under another id. */
export function drop(outbox: Outbox, agentId: string, messageId: string): Outbox {
  const kept = (outbox[agentId] ?? []).filter((outgoing) => outgoing.messageId !== messageId);
  return { ...outbox, [agentId]: kept };
}

/** Records what the platform said about a message. */
export function record(outbox: Outbox, agentId: string, messageId: string, outcome: ChatOutcome): Outbox {
  const changed = (outbox[agentId] ?? []).map((outgoing) =>
    outgoing.messageId === messageId ? withOutcome(outgoing, outcome) : outgoing,
  );
  return { ...outbox, [agentId]: changed };
}

function withOutcome(outgoing: Outgoing, outcome: ChatOutcome): Outgoing {
  const platformId = outcome.kind === 'waiting' ? outcome.messageId : null;
  return { ...outgoing, outcome, platformId: platformId ?? outgoing.platformId };
}

/** Records an answer that came under the platform's id; the same outbox when nobody here waits for it. */
export function settle(outbox: Outbox, platformId: string, outcome: Outcome): Outbox {
  const owner = Object.keys(outbox).find((agentId) =>
    outbox[agentId]?.some((outgoing) => outgoing.platformId === platformId && outgoing.outcome.kind === 'waiting'),
  );
  if (owner === undefined) return outbox;
  const changed = (outbox[owner] ?? []).map((outgoing) =>
    outgoing.platformId === platformId ? { ...outgoing, outcome } : outgoing,
  );
  return { ...outbox, [owner]: changed };
}

/** Platform ids of the messages that still wait for an answer. */
export function waiting(outbox: Outbox): string[] {
  return Object.values(outbox)
    .flat()
    .filter(({ outcome }) => outcome.kind === 'waiting')
    .flatMap(({ platformId }) => (platformId === null ? [] : [platformId]));
}
