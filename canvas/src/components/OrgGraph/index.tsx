import { Background, BackgroundVariant, ReactFlow, ReactFlowProvider } from '@xyflow/react';
import { useMemo, useRef, useState } from 'react';
import type { ReactNode } from 'react';

import { AgentNode } from '@/components/AgentNode';
import { FrameNode } from '@/components/OrgGraph/FrameNode';
import { Viewport } from '@/components/OrgGraph/Viewport';
import { agentNodes, createNodeCache, edgesOf, frameNodes } from '@/components/OrgGraph/nodes';
import type { GraphNode } from '@/components/OrgGraph/nodes';
import { chooseLayout } from '@/engine/layout';
import type { Layout, Size } from '@/engine/layout';
import { inside } from '@/engine/view';
import type { Organisation } from '@/store/organisation';
import { useCanvas, useLastSaid } from '@/store/platform';

import '@xyflow/react/dist/base.css';
import './style.css';

const NODE_TYPES = { agent: AgentNode, frame: FrameNode };
const SMALLEST_ZOOM = 0.02;
const WORDS = {
  'controls.ariaLabel': 'View of the graph',
  'controls.zoomIn.ariaLabel': 'Zoom in',
  'controls.zoomOut.ariaLabel': 'Zoom out',
};

/** Leaves an entry in the browser's performance timeline: how often it happens and how long it takes can be seen. */
function timedLayout({ tree, folded }: Pick<Organisation, 'tree' | 'folded'>, area: Size): Layout {
  const start = performance.now();
  const layout = chooseLayout(tree, folded, inside(area));
  performance.measure('canvas-layout', { start });
  return layout;
}

interface Props {
  readonly organisation: Organisation;
  /** The room for the graph while no agent is open: opening one must not move the boxes. */
  readonly area: Size;
}

export function OrgGraph({ organisation, area }: Props): ReactNode {
  const { tree, folded } = organisation;
  const selectedId = useCanvas((state) => state.selectedId);
  const said = useLastSaid();
  const movedByHandRef = useRef(false);
  const [nodeOf] = useState(createNodeCache);
  const layout = useMemo(() => timedLayout({ tree, folded }, area), [tree, folded, area]);
  const frames = useMemo(() => frameNodes(layout), [layout]);
  const agents = useMemo(
    () => agentNodes(organisation, layout, selectedId, said, nodeOf),
    [organisation, layout, selectedId, said, nodeOf],
  );
  const nodes = useMemo<GraphNode[]>(() => [...frames, ...agents], [frames, agents]);
  const edges = useMemo(() => edgesOf(layout), [layout]);

  return (
    <section className="org-graph" aria-label="Organisation">
      <ReactFlowProvider>
        <ReactFlow
          nodes={nodes}
          edges={edges}
          nodeTypes={NODE_TYPES}
          ariaLabelConfig={WORDS}
          nodesDraggable={false}
          nodesConnectable={false}
          nodesFocusable={false}
          elementsSelectable={false}
          edgesFocusable={false}
          deleteKeyCode={null}
          selectionKeyCode={null}
          multiSelectionKeyCode={null}
          panActivationKeyCode={null}
          minZoom={SMALLEST_ZOOM}
          maxZoom={1.5}
          onMove={(event) => {
            if (event !== null) movedByHandRef.current = true;
          }}
        >
          <Background variant={BackgroundVariant.Dots} gap={22} size={1.4} color="var(--dots)" />
          <Viewport layout={layout} movedByHandRef={movedByHandRef} />
        </ReactFlow>
      </ReactFlowProvider>
    </section>
  );
}
