import type { ReactNode } from 'react';

import { runtimeBadge } from '@/engine/workspaces';
import type { Workspace } from '@/engine/workspaces';

import './style.css';

/** Where the agent runs, in a word. */
export function RuntimeBadge({ workspace }: { readonly workspace: Workspace }): ReactNode {
  const word = runtimeBadge(workspace);
  if (word === '') return null;
  return (
    <span className="badge" data-testid="badge" data-remote={workspace.external} title={word}>
      {word}
    </span>
  );
}
