import { Handle, Position } from '@xyflow/react';
import type { Node, NodeProps } from '@xyflow/react';
import type { ReactNode } from 'react';

import { RuntimeBadge } from '@/components/RuntimeBadge';
import { StatusWord } from '@/components/StatusWord';
import { lookOf } from '@/engine/status';
import type { Workspace } from '@/engine/workspaces';

import './style.css';

interface Shown extends Record<string, unknown> {
  readonly workspace: Workspace;
  readonly open: boolean;
  /** The beginning of what it said last, if anything. */
  readonly said: string;
}

export type AgentNodeType = Node<Shown, 'agent'>;

/** One agent on the graph. Focus and keys belong to the element around it, which the graph makes. */
export function AgentNode({ data: { workspace, open, said } }: NodeProps<AgentNodeType>): ReactNode {
  const { name, role, status, currentTask, activeTasks } = workspace;
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
        <RuntimeBadge workspace={workspace} />
      </div>
      <div className="agent-node-role" title={role}>
        {role}
      </div>
      {currentTask !== '' && (
        <div className="agent-node-task" title={currentTask}>
          {currentTask}
        </div>
      )}
      {currentTask === '' && said !== '' && (
        <div className="agent-node-said" data-testid="said" title={said}>
          “{said}”
        </div>
      )}
      <div className="agent-node-foot">
        <StatusWord status={status} />
        {activeTasks > 1 && <span className="agent-node-count">{activeTasks} tasks</span>}
      </div>
      <Handle type="source" position={Position.Bottom} isConnectable={false} />
    </div>
  );
}
