import type { ReactNode } from 'react';

import { Markdown } from '@/components/Markdown';
import { MessageTree } from '@/components/MessageTree';
import type { ChatItem, ChatOutcome } from '@/engine/chat';
import { NOTHING_YET, grownText, joined } from '@/engine/growing';
import { lookOf } from '@/engine/status';
import { showClock } from '@/engine/time';
import type { Workspace } from '@/engine/workspaces';
import { useCanvas, useStreamedText } from '@/store/platform';

import './style.css';

type Exchange = Extract<ChatItem, { kind: 'exchange' }>;

interface Props {
  readonly item: ChatItem;
  readonly workspace: Workspace;
  readonly onRetry: () => void;
}

export function ChatEntry({ item, workspace, onRetry }: Props): ReactNode {
  if (item.kind === 'note') return <AgentWords who={workspace.name} text={item.text} at={item.at} />;
  return (
    <>
      <div className="chat-entry" data-from="user">
        <Who name="You" at={item.at} />
        <div className="chat-entry-bubble chat-entry-plain">{item.text}</div>
      </div>
      <Answer item={item} workspace={workspace} onRetry={onRetry} />
      {item.messageId !== null && <MessageTree messageId={item.messageId} />}
    </>
  );
}

function Who({ name, at }: { readonly name: string; readonly at?: string | undefined }): ReactNode {
  return (
    <div className="chat-entry-who">
      {name}
      {at !== undefined && <time dateTime={at}>{showClock(at, new Date())}</time>}
    </div>
  );
}

interface WordsProps {
  readonly who: string;
  readonly text: string;
  readonly at?: string;
  readonly kind?: 'growing' | 'question';
}

function AgentWords({ who, text, at, kind }: WordsProps): ReactNode {
  return (
    <div className="chat-entry" data-from="agent" data-kind={kind} data-testid={kind}>
      <Who name={kind === 'question' ? `${who} asks` : who} at={at} />
      <div className="chat-entry-bubble">
        <Markdown text={text} />
      </div>
    </div>
  );
}

/** An agent that is away still gets the message; the reader should know that, and not watch a spinner. */
function Waiting({ workspace: { name, status }, progress }: { readonly workspace: Workspace; readonly progress: string }): ReactNode {
  const { label, tone } = lookOf(status);
  if (tone === 'off' || tone === 'bad') {
    return <p className="chat-entry-state">{`${name} is ${label}. The message is kept and delivered when it is back.`}</p>;
  }
  return (
    <p className="chat-entry-state chat-entry-waiting" data-testid="progress">
      {progress || `Waiting for ${name}…`}
    </p>
  );
}

interface AnswerProps {
  readonly item: Exchange;
  readonly workspace: Workspace;
  readonly onRetry: () => void;
}

/** What the agent has said so far, and below it how the message stands. */
function Answer({ item, workspace, onRetry }: AnswerProps): ReactNode {
  const { outcome, messageId } = item;
  const growing = useCanvas((state) => state.growing[messageId ?? '']) ?? NOTHING_YET;
  const grown = grownText(growing);
  const { name } = workspace;
  switch (outcome.kind) {
    case 'sending':
      return <p className="chat-entry-state">Sending…</p>;
    case 'waiting':
      return (
        <>
          {grown !== '' && <AgentWords who={name} text={grown} kind="growing" />}
          <Waiting workspace={workspace} progress={growing.progress} />
        </>
      );
    case 'answered':
      return <Streamed item={item} workspace={workspace} text={joined(grown, outcome.text)} />;
    case 'asked':
      return <AgentWords who={name} text={joined(grown, outcome.text) || 'More input is needed.'} kind="question" />;
    default:
      return (
        <>
          <Streamed item={item} workspace={workspace} text={grown} />
          <Ended outcome={outcome} onRetry={onRetry} />
        </>
      );
  }
}

interface StreamedProps {
  readonly item: Exchange;
  readonly workspace: Workspace;
  readonly text: string;
}

/** The words of a message that is over. An answer that was streamed has none of its own: its task holds them. */
function Streamed({ item: { taskId, outcome }, workspace: { id, name }, text }: StreamedProps): ReactNode {
  const isAnswer = outcome.kind === 'answered';
  if (text !== '') return <AgentWords who={name} text={text} />;
  if (taskId !== null) return <TaskWords agentId={id} who={name} taskId={taskId} isAnswer={isAnswer} />;
  return isAnswer && <NoWords who={name} />;
}

interface TaskWordsProps {
  readonly agentId: string;
  readonly who: string;
  readonly taskId: string;
  readonly isAnswer: boolean;
}

function TaskWords({ agentId, who, taskId, isAnswer }: TaskWordsProps): ReactNode {
  const { data: text, error } = useStreamedText(agentId, taskId);
  if (text !== undefined && text !== '') return <AgentWords who={who} text={text} />;
  if (!isAnswer) return null;
  const isLoading = text === undefined && error === null;
  return isLoading ? <p className="chat-entry-state">Loading the answer…</p> : <NoWords who={who} />;
}

function NoWords({ who }: { readonly who: string }): ReactNode {
  return <AgentWords who={who} text="Done. (No text in the answer.)" />;
}

interface EndedProps {
  readonly outcome: Extract<ChatOutcome, { kind: 'stopped' | 'failed' | 'unknown' }>;
  readonly onRetry: () => void;
}

function Ended({ outcome, onRetry }: EndedProps): ReactNode {
  const isStopped = outcome.kind === 'stopped';
  return (
    <div className="chat-entry-failure" data-kind={outcome.kind} data-testid={outcome.kind}>
      <p>{isStopped ? 'Stopped.' : outcome.error}</p>
      <button type="button" className="button" data-testid="retry" onClick={onRetry}>
        {isStopped ? 'Send again' : 'Retry'}
      </button>
    </div>
  );
}
