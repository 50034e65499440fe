import { Handle, Position } from '@xyflow/react';
import type { Node, NodeProps } from '@xyflow/react';
import type { ReactNode } from 'react';

import { StatusWord } from '@/components/StatusWord';
import { lookOf } from '@/engine/status';
import { runtimeBadge } from '@/engine/workspaces';
import type { Workspace } from '@/engine/workspaces';

import './style.css';

export type AgentNodeType = Node<{ readonly workspace: Workspace; readonly open: boolean }, 'agent'>;

/** One agent on the graph. Focus and keys belong to the element around it, which the graph makes. */
export function AgentNode({ data: { workspace, open } }: NodeProps<AgentNodeType>): ReactNode {
  const { name, role, status, currentTask, activeTasks } = workspace;
  const badge = runtimeBadge(workspace);
  return (
    <div
      className="agent-node"
      data-testid={`agent-${name}`}
      data-status={status}
      data-tone={lookOf(status).tone}
      data-open={open}
    >
      <Handle type="target" position={Position.Top} isConnectable={false} />
      <div className="agent-node-top">
        <span className="agent-node-name" title={name}>
          {name}
        </span>
        {badge !== '' && <span className="badge">{badge}</span>}
      </div>
      <div className="agent-node-role" title={role}>
        {role}
      </div>
      <div className="agent-node-task" title={currentTask}>
        {currentTask}
      </div>
      <div className="agent-node-foot">
        <StatusWord status={status} />
        {activeTasks > 1 && <span className="agent-node-count">{activeTasks} tasks</span>}
      </div>
      <Handle type="source" position={Position.Bottom} isConnectable={false} />
    </div>
  );
}
