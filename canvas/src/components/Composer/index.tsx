import { useMutation } from '@tanstack/react-query';
import { useEffect, useId, useRef } from 'react';
import type { KeyboardEvent, ReactNode } from 'react';

import { stop } from '@/commands/stop';
import { sentenceOf } from '@/engine/errors';
import { oneLine } from '@/engine/words';
import type { Workspace } from '@/engine/workspaces';
import { useCanvas, usePlatform } from '@/store/platform';

import './style.css';

const MAX_LENGTH = 100_000;

interface Props {
  readonly workspace: Workspace;
  /** The message that the agent works on, if any. */
  readonly running: string | null;
  /** Whether the next message answers a question of the agent. */
  readonly isAnswer: boolean;
  readonly onSend: (text: string) => void;
}

/** An input method uses Enter to choose a word; that Enter must not send. */
function isSendKey(event: KeyboardEvent): boolean {
  return event.key === 'Enter' && !event.shiftKey && !event.nativeEvent.isComposing;
}

export function Composer({ workspace: { id, name }, running, isAnswer, onSend }: Props): ReactNode {
  const draft = useCanvas((state) => state.drafts[id] ?? '');
  const setDraft = useCanvas((state) => state.setDraft);
  const field = useRef<HTMLTextAreaElement>(null);
  const hintId = useId();
  const text = draft.trim();
  const verb = isAnswer ? 'Answer' : 'Message';

  useEffect(() => {
    field.current?.focus();
  }, []);

  const submit = (): void => {
    if (text === '') return;
    setDraft(id, '');
    onSend(text);
  };

  return (
    <form
      className="composer"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <textarea
        ref={field}
        className="composer-field"
        data-testid="chat-input"
        rows={2}
        maxLength={MAX_LENGTH}
        value={draft}
        placeholder={`${verb} ${oneLine(name, 30)}`}
        aria-label={`${verb} ${name}`}
        aria-describedby={hintId}
        onChange={({ currentTarget }) => {
          setDraft(id, currentTarget.value);
        }}
        onKeyDown={(event) => {
          if (!isSendKey(event)) return;
          event.preventDefault();
          submit();
        }}
      />
      <div className="composer-foot">
        <span id={hintId}>Enter sends, Shift+Enter: new line</span>
        {running !== null && (
          <StopButton
            key={running}
            agentId={id}
            messageId={running}
            onStop={() => {
              // The button goes with the message; the focus should not go with it.
              field.current?.focus();
            }}
          />
        )}
        <button type="submit" className="button button-main" data-testid="send" disabled={text === ''}>
          {isAnswer ? 'Answer' : 'Send'}
        </button>
      </div>
    </form>
  );
}

interface StopProps {
  readonly agentId: string;
  readonly messageId: string;
  readonly onStop: () => void;
}

function StopButton({ agentId, messageId, onStop }: StopProps): ReactNode {
  const platform = usePlatform();
  const stopping = useMutation({ mutationFn: () => stop(platform, agentId, messageId) });
  return (
    <>
      {stopping.isError && (
        <span className="composer-error" role="alert">
          {sentenceOf(stopping.error)}
        </span>
      )}
      <button
        type="button"
        className="button"
        data-testid="stop"
        disabled={stopping.isPending}
        onClick={() => {
          stopping.mutate();
          onStop();
        }}
      >
        {stopping.isPending ? 'Stopping…' : 'Stop'}
      </button>
    </>
  );
}
