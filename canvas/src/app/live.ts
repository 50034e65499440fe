import { checkWaiting } from '@/commands/checkWaiting';
import { readAnswer } from '@/engine/a2a';
import { coalesce, coalesceEach } from '@/engine/coalesce';
import type { After } from '@/engine/coalesce';
import { chatOf, needsAllRows, touchesCard, touchesChat } from '@/engine/frames';
import type { Frame } from '@/engine/frames';
import { text } from '@/engine/json';
import * as outbox from '@/engine/outbox';
import { followStream } from '@/engine/socket';
import type { OpenWire } from '@/engine/socket';
import type { Platform } from '@/store/platform';

const REFETCH_MS = 200;
// The platform shows a new card within a second.
const CARD_REFETCH_MS = 1_000;
const CHECK_WAITING_MS = 10_000;

/** Keeps the page true while somebody looks at it. Returns how to end it. */
export function startLive(platform: Platform, open: OpenWire, after: After): () => void {
  const { canvas, records } = platform;
  const refetchSoon = coalesce(() => {
    records.refreshWorkspaces();
  }, REFETCH_MS, after);
  const refetchRowSoon = coalesceEach((id) => {
    void records.refreshWorkspace(id);
  }, REFETCH_MS, after);
  const refetchChatSoon = coalesceEach((id) => {
    records.refreshChat(id);
  }, REFETCH_MS, after);
  const refetchCardSoon = coalesceEach((id) => {
    records.refreshCard(id);
  }, CARD_REFETCH_MS, after);

  const onFrame = (frame: Frame): void => {
    records.fold(frame);
    if (frame.event === 'A2A_RESPONSE') settle(platform, frame);
    if (frame.event === 'RESYNC_REQUIRED') records.refreshAgents();
    if (needsAllRows(frame)) refetchSoon();
    if (records.lacks(frame)) refetchRowSoon(frame.workspaceId);
    if (touchesChat(frame)) {
      refetchChatSoon(chatOf(frame));
      // How many messages wait for it is shown for the open agent only, and no event carries it.
      if (chatOf(frame) === canvas.getState().selectedId) refetchRowSoon(chatOf(frame));
    }
    if (touchesCard(frame)) refetchCardSoon(frame.workspaceId);
  };

  const stream = followStream({
    open,
    after,
    onFrame,
    onConnection: (connection) => {
      canvas.getState().setConnection(connection);
      if (connection !== 'live') return;
      // What happened between the last read and this moment came through no event.
      records.refreshWorkspaces();
      records.refreshAgents();
    },
    onRefused: () => {
      records.refreshSession();
    },
  });
  const round = setInterval(() => void checkWaiting(platform), CHECK_WAITING_MS);
  return () => {
    clearInterval(round);
    stream.stop();
  };
}

function settle({ canvas }: Platform, { payload }: Frame): void {
  const outcome = readAnswer(payload.response_body);
  canvas.getState().changeOutbox((box) => outbox.settle(box, text(payload.message_id), outcome));
}
