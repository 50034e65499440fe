import { PlatformError } from '@/engine/errors';
import * as outbox from '@/engine/outbox';
import type { Platform } from '@/store/platform';

/** Asks for the outcome of every message that still waits: the net under the event stream. One request at a time. */
export async function checkWaiting({ api, canvas }: Platform): Promise<void> {
  try {
    for (const messageId of outbox.waiting(canvas.getState().outbox)) {
      const outcome = await api.message(messageId);
      if (outcome.kind !== 'waiting') {
        canvas.getState().changeOutbox((box) => outbox.settle(box, messageId, outcome));
      }
    }
  } catch (error) {
    // The next round asks again.
    if (!(error instanceof PlatformError)) throw error;
  }
}
