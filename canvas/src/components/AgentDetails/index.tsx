import type { ReactNode } from 'react';

import { Facts } from '@/components/Facts';
import type { Fact } from '@/components/Facts';
import { showMoment } from '@/engine/time';
import { counted } from '@/engine/words';
import { runtimeBadge } from '@/engine/workspaces';
import type { Workspace } from '@/engine/workspaces';

const DELIVERY: Readonly<Record<string, string>> = {
  push: 'push: the platform calls the agent',
  poll: 'poll: the agent fetches its messages',
};

function heartbeat(timestamp: string | null): ReactNode {
  const shown = showMoment(timestamp);
  if (timestamp === null || shown === null) return 'none yet';
  return <time dateTime={timestamp}>{shown}</time>;
}

function factsOf(workspace: Workspace): Fact[] {
  return [
    { name: 'Task', value: workspace.currentTask },
    { name: 'Reason', value: workspace.statusReason },
    { name: 'Runtime', value: workspace.external ? 'remote: on a machine of its own' : runtimeBadge(workspace) },
    { name: 'Delivery', value: DELIVERY[workspace.deliveryMode] ?? workspace.deliveryMode },
    { name: 'Waiting', value: workspace.pending === 0 ? null : counted(workspace.pending, 'message') },
    { name: 'Heartbeat', value: heartbeat(workspace.lastHeartbeatAt) },
  ];
}

export function AgentDetails({ workspace }: { readonly workspace: Workspace }): ReactNode {
  return <Facts facts={factsOf(workspace)} />;
}
