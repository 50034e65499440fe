import type { ReactNode } from 'react';

import { Facts } from '@/components/Facts';
import type { Word } from '@/engine/lastWords';
import { showClock } from '@/engine/time';
import type { Workspace } from '@/engine/workspaces';
import { useConversation } from '@/store/platform';

import './style.css';

/** What the agent was told last, by people and agents alike, and what it said last. */
export function LastWords({ workspace: { id } }: { readonly workspace: Workspace }): ReactNode {
  const { data: conversation } = useConversation(id);
  const last = conversation?.last;
  const nothing = 'nothing yet. Write to it in the chat.';
  return (
    <Facts
      facts={[
        { name: 'Received', value: <LastWord word={last?.received} preposition="from" nothing={nothing} testId="last-received" /> },
        { name: 'Said', value: <LastWord word={last?.said} preposition="to" nothing="nothing yet" testId="last-said" /> },
      ]}
    />
  );
}

interface Props {
  /** Undefined while it is not known; why, the conversation below says. */
  readonly word: Word | null | undefined;
  readonly preposition: string;
  readonly nothing: string;
  readonly testId: string;
}

function LastWord({ word, preposition, nothing, testId }: Props): ReactNode {
  if (word === undefined) return '…';
  if (word === null) return <span data-testid={testId}>{nothing}</span>;
  return (
    <div data-testid={testId}>
      <div className="last-words-text" title={word.text}>
        <bdi>{word.text || '(no text)'}</bdi>
      </div>
      <div className="last-words-whence">
        {preposition} <bdi>{word.who}</bdi>, <time dateTime={word.at}>{showClock(word.at, new Date())}</time>
      </div>
    </div>
  );
}
