import type { ReactNode } from 'react';

import type { ChatItem, ChatOutcome } from '@/engine/chat';
import { lookOf } from '@/engine/status';
import { showClock } from '@/engine/time';
import type { Workspace } from '@/engine/workspaces';

import './style.css';

interface Props {
  readonly item: ChatItem;
  readonly workspace: Workspace;
  readonly onRetry: () => void;
}

export function ChatEntry({ item, workspace, onRetry }: Props): ReactNode {
  if (item.kind === 'note') return <Bubble from="agent" who={workspace.name} text={item.text} at={item.at} />;
  return (
    <>
      <Bubble from="user" who="You" text={item.text} at={item.at} />
      <Answer outcome={item.outcome} workspace={workspace} onRetry={onRetry} />
    </>
  );
}

interface BubbleProps {
  readonly from: 'user' | 'agent';
  readonly who: string;
  readonly text: string;
  readonly at?: string;
}

function Bubble({ from, who, text, at }: BubbleProps): ReactNode {
  return (
    <div className="chat-entry" data-from={from}>
      <div className="chat-entry-who">
        {who}
        {at !== undefined && <time dateTime={at}>{showClock(at, new Date())}</time>}
      </div>
      <div className="chat-entry-bubble">{text}</div>
    </div>
  );
}

/** An agent that is away still gets the message; the reader should know that, and not watch a spinner. */
function Waiting({ name, status }: Workspace): ReactNode {
  const { label, tone } = lookOf(status);
  if (tone === 'off' || tone === 'bad') {
    return <p className="chat-entry-state">{`${name} is ${label}. The message is kept and delivered when it is back.`}</p>;
  }
  return <p className="chat-entry-state chat-entry-waiting">{`Waiting for ${name}…`}</p>;
}

interface AnswerProps {
  readonly outcome: ChatOutcome;
  readonly workspace: Workspace;
  readonly onRetry: () => void;
}

function Answer({ outcome, workspace, onRetry }: AnswerProps): ReactNode {
  switch (outcome.kind) {
    case 'sending':
      return <p className="chat-entry-state">Sending…</p>;
    case 'waiting':
      return <Waiting {...workspace} />;
    case 'answered':
      return <Bubble from="agent" who={workspace.name} text={outcome.text || 'Done. (No text in the answer.)'} />;
    case 'failed':
    case 'unknown':
      return (
        <div className="chat-entry-failure">
          <p>{outcome.error}</p>
          <button type="button" className="button" data-testid="retry" onClick={onRetry}>
            Retry
          </button>
        </div>
      );
  }
}
