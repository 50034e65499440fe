import type { Platform } from '@/store/platform';

/** Calls a message off: its agent is told to stop, and what it has said so far stays. */
export async function stop({ api, records }: Platform, agentId: string, messageId: string): Promise<void> {
  try {
    await api.cancel(messageId);
  } finally {
    // Also when it could not be called off: then it has an outcome already.
    records.refreshChat(agentId);
  }
}
