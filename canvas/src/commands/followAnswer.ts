import type { StreamEvent } from '@/engine/growing';
import type { Platform } from '@/store/platform';

/** Pieces that come faster than this are shown together: reading them one by one would keep the page busy. */
const SHOW_MS = 40;

/** Shows what an agent says to a message while it says it. Returns how to end it. */
export function followAnswer({ api, canvas }: Platform, messageId: string): () => void {
  let waiting: StreamEvent[] = [];
  let timer: ReturnType<typeof setTimeout> | null = null;
  const show = (): void => {
    timer = null;
    canvas.getState().growAnswer(messageId, waiting);
    waiting = [];
    // The stream ends with the message; asking again would only repeat it.
    if (canvas.getState().growing[messageId]?.isOver === true) close();
  };
  const close = api.followMessage(messageId, (event) => {
    waiting.push(event);
    timer ??= setTimeout(show, SHOW_MS);
  });
  return () => {
    if (timer !== null) clearTimeout(timer);
    if (waiting.length > 0) show();
    close();
  };
}
