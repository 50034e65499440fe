import type { ReactNode } from 'react';

import { showMoment } from '@/engine/time';
import { runtimeBadge } from '@/engine/workspaces';
import type { Workspace } from '@/engine/workspaces';

import './style.css';

const DELIVERY: Readonly<Record<string, string>> = {
  push: 'push: the platform calls the agent',
  poll: 'poll: the agent fetches its messages',
};

interface Fact {
  readonly name: string;
  readonly value: ReactNode;
}

function heartbeat(timestamp: string | null): ReactNode {
  const shown = showMoment(timestamp);
  if (timestamp === null || shown === null) return 'none yet';
  return <time dateTime={timestamp}>{shown}</time>;
}

function factsOf(workspace: Workspace): Fact[] {
  const facts: Fact[] = [
    { name: 'Task', value: workspace.currentTask },
    { name: 'Reason', value: workspace.statusReason },
    { name: 'Runtime', value: runtimeBadge(workspace) },
    { name: 'Delivery', value: DELIVERY[workspace.deliveryMode] ?? workspace.deliveryMode },
    { name: 'Waiting', value: workspace.pending === 0 ? null : `${workspace.pending} messages` },
    { name: 'Heartbeat', value: heartbeat(workspace.lastHeartbeatAt) },
  ];
  return facts.filter(({ value }) => value !== null && value !== '');
}

export function AgentDetails({ workspace }: { readonly workspace: Workspace }): ReactNode {
  return (
    <dl className="agent-details">
      {factsOf(workspace).map(({ name, value }) => (
        <div key={name} className="agent-details-fact">
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
