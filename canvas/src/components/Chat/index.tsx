import { useEffect, useLayoutEffect, useMemo, useRef } from 'react';
import type { ReactNode } from 'react';

import { followAnswer } from '@/commands/followAnswer';
import { send, sendAgain } from '@/commands/send';
import { ChatEntry } from '@/components/ChatEntry';
import { Composer } from '@/components/Composer';
import { mergeChat, openQuestion, runningIn } from '@/engine/chat';
import type { Outgoing } from '@/engine/chat';
import { sentenceOf } from '@/engine/errors';
import { oneLine } from '@/engine/words';
import type { Workspace } from '@/engine/workspaces';
import { useCanvas, useConversation, usePlatform } from '@/store/platform';

import './style.css';

const NOTHING_SENT: readonly Outgoing[] = [];
const NEAR_END_PX = 48;

export function Chat({ workspace }: { readonly workspace: Workspace }): ReactNode {
  const platform = usePlatform();
  const { data: conversation, error, retry } = useConversation(workspace.id);
  const outbox = useCanvas((state) => state.outbox[workspace.id] ?? NOTHING_SENT);
  const items = useMemo(() => mergeChat(conversation?.entries ?? [], outbox), [conversation, outbox]);
  const running = runningIn(items);
  const question = openQuestion(items);
  const grown = useCanvas((state) => (running === null ? undefined : state.growing[running]));
  const log = useRef<HTMLDivElement>(null);
  const followEnd = useRef(true);

  useLayoutEffect(() => {
    if (followEnd.current) log.current?.scrollTo({ top: log.current.scrollHeight });
  }, [items, grown]);

  useEffect(() => (running === null ? undefined : followAnswer(platform, running)), [platform, running]);

  return (
    <section className="chat" aria-label={`Conversation with ${workspace.name}`}>
      <div
        ref={log}
        className="chat-log"
        data-testid="chat-log"
        role="log"
        aria-live="polite"
        tabIndex={0}
        onScroll={({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) => {
          followEnd.current = scrollHeight - scrollTop - clientHeight < NEAR_END_PX;
        }}
      >
        {error !== null && <HistoryError sentence={sentenceOf(error)} onRetry={retry} />}
        {conversation !== undefined && items.length === 0 && (
          <p className="chat-empty">Nothing said yet. Write to {oneLine(workspace.name, 60)} below.</p>
        )}
        {items.map((item) => (
          <ChatEntry
            key={item.key}
            item={item}
            workspace={workspace}
            onRetry={() => void sendAgain(platform, workspace.id, item.key, item.text)}
          />
        ))}
      </div>
      <Composer
        workspace={workspace}
        running={running}
        isAnswer={question !== null}
        onSend={(text) => {
          followEnd.current = true;
          void send(platform, workspace.id, text, question);
        }}
      />
    </section>
  );
}

function HistoryError({ sentence, onRetry }: { readonly sentence: string; readonly onRetry: () => void }): ReactNode {
  return (
    <div className="chat-trouble" role="alert">
      <p>{sentence}</p>
      <button type="button" className="button" onClick={onRetry}>
        Load the conversation again
      </button>
    </div>
  );
}
