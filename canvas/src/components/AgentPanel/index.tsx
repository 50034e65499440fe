import { useId } from 'react';
import type { ReactNode } from 'react';

import { AgentActions } from '@/components/AgentActions';
import { AgentCard } from '@/components/AgentCard';
import { AgentDetails } from '@/components/AgentDetails';
import { Chat } from '@/components/Chat';
import { LastWords } from '@/components/LastWords';
import { RuntimeBadge } from '@/components/RuntimeBadge';
import { StatusWord } from '@/components/StatusWord';
import type { Workspace } from '@/engine/workspaces';

import './style.css';

interface Props {
  readonly workspace: Workspace;
  readonly below: number;
  readonly onClose: () => void;
}

export function AgentPanel({ workspace, below, onClose }: Props): ReactNode {
  const titleId = useId();
  return (
    <aside className="agent-panel" data-testid="panel" aria-labelledby={titleId}>
      <div className="agent-panel-head">
        <div className="agent-panel-title-row">
          <h2 id={titleId} className="agent-panel-title" title={workspace.name}>
            {workspace.name}
          </h2>
          <RuntimeBadge workspace={workspace} />
          <StatusWord status={workspace.status} />
          <button type="button" className="button button-quiet agent-panel-close" aria-label="Close" onClick={onClose}>
            ✕
          </button>
        </div>
        {workspace.role !== '' && (
          <p className="agent-panel-role" title={workspace.role}>
            {workspace.role}
          </p>
        )}
        <AgentDetails workspace={workspace} />
        <LastWords workspace={workspace} />
        <AgentCard key={workspace.id} workspace={workspace} />
        <AgentActions workspace={workspace} below={below} />
      </div>
      <Chat key={workspace.id} workspace={workspace} />
    </aside>
  );
}
