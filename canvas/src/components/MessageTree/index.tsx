import { useState } from 'react';
import type { ReactNode } from 'react';

import { sentenceOf } from '@/engine/errors';
import { showTimes } from '@/engine/messageTree';
import type { MessageNode } from '@/engine/messageTree';
import { useMessageTree } from '@/store/platform';

import './style.css';

/** Who asked whom for a message, how long each waited and worked, and what failed; read when somebody looks. */
export function MessageTree({ messageId }: { readonly messageId: string }): ReactNode {
  const [isOpen, setOpen] = useState(false);
  return (
    <details
      className="message-tree"
      data-testid="message-tree"
      onToggle={({ currentTarget }) => {
        setOpen(currentTarget.open);
      }}
    >
      <summary>Who asked whom</summary>
      {isOpen && <Messages messageId={messageId} />}
    </details>
  );
}

function Messages({ messageId }: { readonly messageId: string }): ReactNode {
  const { data: tree, error } = useMessageTree(messageId);
  if (tree === undefined) return <p className="message-tree-note">{error === null ? 'Loading…' : sentenceOf(error)}</p>;
  return (
    <>
      <Sent nodes={tree.roots} shown={messageId} />
      {tree.isTruncated && <p className="message-tree-note">There are more messages than are shown here.</p>}
    </>
  );
}

interface SentProps {
  readonly nodes: readonly MessageNode[];
  /** The message of this place in the chat. */
  readonly shown: string;
}

function Sent({ nodes, shown }: SentProps): ReactNode {
  return (
    <ul className="message-tree-list">
      {nodes.map((node) => (
        <li key={node.id} data-status={node.status}>
          <div className="message-tree-row" aria-current={node.id === shown ? 'true' : undefined}>
            <span className="message-tree-who">
              {node.from} → {node.to}
            </span>{' '}
            <span className="message-tree-status" data-tone={node.tone}>
              {node.status}
            </span>{' '}
            <span className="message-tree-times">{showTimes(node)}</span>
          </div>
          {node.error !== '' && <p className="message-tree-error">{node.error}</p>}
          {node.sent.length > 0 && <Sent nodes={node.sent} shown={shown} />}
        </li>
      ))}
    </ul>
  );
}
