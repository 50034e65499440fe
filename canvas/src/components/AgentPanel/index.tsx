import { useId, useRef, useState } from 'react';
import type { KeyboardEvent, ReactNode } from 'react';

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

const TABS = ['Chat', 'About'] as const;
type Tab = (typeof TABS)[number];

export function AgentPanel({ workspace, below, onClose }: Props): ReactNode {
  const id = useId();
  // A place that nobody has taken yet first says how to take it.
  const [tab, setTab] = useState<Tab>(workspace.external && !workspace.hasCard ? 'About' : 'Chat');
  const { name, role, status, statusReason, currentTask } = workspace;
  const now = currentTask || statusReason;
  return (
    <aside className="agent-panel" data-testid="panel" aria-labelledby={id}>
      <div className="agent-panel-head">
        <div className="agent-panel-title-row">
          <h2 id={id} className="agent-panel-title" title={name}>
            {name}
          </h2>
          <RuntimeBadge workspace={workspace} />
          <StatusWord status={status} />
          <button type="button" className="button button-quiet agent-panel-close" aria-label="Close" onClick={onClose}>
            ✕
          </button>
        </div>
        {role !== '' && (
          <p className="agent-panel-role" title={role}>
            {role}
          </p>
        )}
        {now !== null && now !== '' && (
          <p className="agent-panel-now" title={now}>
            {now}
          </p>
        )}
        <div className="agent-panel-bar">
          <TabList id={id} tab={tab} onChange={setTab} />
          <AgentActions workspace={workspace} below={below} />
        </div>
      </div>
      <div id={`${id}-Chat`} className="agent-panel-body" role="tabpanel" aria-labelledby={`${id}-tab-Chat`} hidden={tab !== 'Chat'}>
        <Chat workspace={workspace} />
      </div>
      <div id={`${id}-About`} className="agent-panel-body agent-panel-about" role="tabpanel" aria-labelledby={`${id}-tab-About`} hidden={tab !== 'About'}>
        <AgentDetails workspace={workspace} />
        <LastWords workspace={workspace} />
        <AgentCard workspace={workspace} />
      </div>
    </aside>
  );
}

interface TabListProps {
  readonly id: string;
  readonly tab: Tab;
  readonly onChange: (tab: Tab) => void;
}

/** Tabs as the ARIA practices have them: one stop of the Tab key, the arrows change it. */
function TabList({ id, tab, onChange }: TabListProps): ReactNode {
  const list = useRef<HTMLDivElement>(null);
  const changeByKey = (event: KeyboardEvent): void => {
    if (event.key !== 'ArrowLeft' && event.key !== 'ArrowRight') return;
    const other = tab === 'Chat' ? 'About' : 'Chat';
    onChange(other);
    list.current?.querySelector<HTMLElement>(`[data-testid="tab-${other}"]`)?.focus();
  };
  return (
    <div ref={list} className="agent-panel-tabs" role="tablist" aria-label="Agent" onKeyDown={changeByKey}>
      {TABS.map((name) => (
        <button
          key={name}
          id={`${id}-tab-${name}`}
          type="button"
          role="tab"
          className="agent-panel-tab"
          data-testid={`tab-${name}`}
          aria-selected={tab === name}
          aria-controls={`${id}-${name}`}
          tabIndex={tab === name ? 0 : -1}
          // The focus comes along into the panel: to the field of the chat, or here.
          autoFocus={name === 'About' && tab === 'About'}
          onClick={() => {
            onChange(name);
          }}
        >
          {name}
        </button>
      ))}
    </div>
  );
}
