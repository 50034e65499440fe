import { useEffect, useId, useRef } from 'react';
import type { KeyboardEvent, ReactNode } from 'react';

import { oneLine } from '@/engine/words';
import type { Workspace } from '@/engine/workspaces';
import { useCanvas } from '@/store/platform';

import './style.css';

const MAX_LENGTH = 100_000;

interface Props {
  readonly workspace: Workspace;
  readonly onSend: (text: string) => void;
}

/** An input method uses Enter to choose a word; that Enter must not send. */
function isSendKey(event: KeyboardEvent): boolean {
  return event.key === 'Enter' && !event.shiftKey && !event.nativeEvent.isComposing;
}

export function Composer({ workspace: { id, name }, onSend }: Props): ReactNode {
  const draft = useCanvas((state) => state.drafts[id] ?? '');
  const setDraft = useCanvas((state) => state.setDraft);
  const field = useRef<HTMLTextAreaElement>(null);
  const hintId = useId();
  const text = draft.trim();

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
        placeholder={`Message ${oneLine(name, 30)}`}
        aria-label={`Message ${name}`}
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
        <span id={hintId}>Enter sends, Shift+Enter makes a new line</span>
        <button type="submit" className="button button-main" data-testid="send" disabled={text === ''}>
          Send
        </button>
      </div>
    </form>
  );
}
