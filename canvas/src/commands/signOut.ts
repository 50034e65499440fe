import { PlatformError, isUnauthenticated } from '@/engine/errors';
import type { Platform } from '@/store/platform';

/** Ends the session. A session that is already gone is what was asked for. */
export async function signOut({ api, canvas, records }: Platform): Promise<void> {
  try {
    await api.logout();
  } catch (error) {
    if (!(error instanceof PlatformError) || !isUnauthenticated(error)) throw error;
  }
  canvas.getState().forgetConversations();
  records.clear();
}
