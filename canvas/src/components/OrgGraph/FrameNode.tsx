import { Handle, Position } from '@xyflow/react';
import type { Node } from '@xyflow/react';
import type { ReactNode } from 'react';

export type FrameNodeType = Node<Record<string, unknown>, 'frame'>;

/** The ground on which the members of a team stand. */
export function FrameNode(): ReactNode {
  return (
    <div className="org-graph-frame" aria-hidden="true">
      <Handle type="target" position={Position.Top} isConnectable={false} />
    </div>
  );
}
