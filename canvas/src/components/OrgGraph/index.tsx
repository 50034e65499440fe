import { Background, BackgroundVariant, Controls, ReactFlow, ReactFlowProvider } from '@xyflow/react';
import type { Edge } from '@xyflow/react';
import { useCallback, useMemo, useRef } from 'react';
import type { KeyboardEvent, ReactNode } from 'react';

import { AgentNode } from '@/components/AgentNode';
import type { AgentNodeType } from '@/components/AgentNode';
import { KeepInView } from '@/components/OrgGraph/KeepInView';
import type { LastSaid } from '@/engine/lastWords';
import { lookOf } from '@/engine/status';
import { NODE_HEIGHT, NODE_WIDTH, layoutTree } from '@/engine/tree';
import type { Place } from '@/engine/tree';
import { runtimeBadge } from '@/engine/workspaces';
import type { Workspace } from '@/engine/workspaces';
import { useCanvas, useLastSaid } from '@/store/platform';

import '@xyflow/react/dist/base.css';
import './style.css';

const NODE_TYPES = { agent: AgentNode };
const WORDS = {
  'node.a11yDescription.default': 'Press Enter to open this agent, Escape to close it.',
  'controls.ariaLabel': 'View of the graph',
  'controls.zoomIn.ariaLabel': 'Zoom in',
  'controls.zoomOut.ariaLabel': 'Zoom out',
  'controls.fitView.ariaLabel': 'Show all agents',
};

function spokenName(workspace: Workspace): string {
  const { name, role, status, currentTask } = workspace;
  const pieces = [name, role, runtimeBadge(workspace), lookOf(status).label, currentTask];
  return pieces.filter((piece) => piece !== '').join(', ');
}

function agentNode(workspace: Workspace, place: Place, open: boolean, said: string): AgentNodeType {
  const size = { width: NODE_WIDTH, height: NODE_HEIGHT };
  return {
    id: workspace.id,
    type: 'agent',
    position: { x: place.x, y: place.y },
    data: { workspace, open, said },
    ...size,
    measured: size,
    ariaRole: 'button',
    ariaLabel: spokenName(workspace),
    domAttributes: { 'aria-expanded': open, 'aria-roledescription': 'agent' },
  };
}

function nodesOf(
  workspaces: readonly Workspace[],
  places: readonly Place[],
  openId: string | null,
  said: LastSaid,
): AgentNodeType[] {
  const byId = new Map(workspaces.map((workspace) => [workspace.id, workspace]));
  return places.flatMap((place) => {
    const workspace = byId.get(place.id);
    if (workspace === undefined) return [];
    return [agentNode(workspace, place, workspace.id === openId, said[workspace.id]?.text ?? '')];
  });
}

function edgeOf(from: string, to: string): Edge {
  return { id: `${from}>${to}`, source: from, target: to, type: 'smoothstep', focusable: false };
}

/** The node under a key press, by the id that the graph writes on its element. */
function nodeIdAt(target: EventTarget): string | undefined {
  return target instanceof HTMLElement && target.matches('.react-flow__node') ? target.dataset.id : undefined;
}

export function OrgGraph({ workspaces }: { readonly workspaces: readonly Workspace[] }): ReactNode {
  const selectedId = useCanvas((state) => state.selectedId);
  const select = useCanvas((state) => state.select);
  const said = useLastSaid();
  const movedByHand = useRef(false);
  const layout = useMemo(() => layoutTree(workspaces), [workspaces]);
  const nodes = useMemo(
    () => nodesOf(workspaces, layout.places, selectedId, said),
    [workspaces, layout, selectedId, said],
  );
  const edges = useMemo(() => layout.links.map(({ from, to }) => edgeOf(from, to)), [layout]);

  const openByKey = useCallback(
    (event: KeyboardEvent): void => {
      const id = event.key === 'Enter' || event.key === ' ' ? nodeIdAt(event.target) : undefined;
      if (id === undefined) return;
      event.preventDefault();
      select(id);
    },
    [select],
  );

  return (
    <section className="org-graph" aria-label="Organisation" onKeyDown={openByKey}>
      <ReactFlowProvider>
        <ReactFlow
          nodes={nodes}
          edges={edges}
          nodeTypes={NODE_TYPES}
          ariaLabelConfig={WORDS}
          nodesDraggable={false}
          nodesConnectable={false}
          elementsSelectable={false}
          edgesFocusable={false}
          deleteKeyCode={null}
          selectionKeyCode={null}
          multiSelectionKeyCode={null}
          panActivationKeyCode={null}
          minZoom={0.2}
          maxZoom={1.5}
          onNodeClick={(_, node) => {
            select(node.id);
          }}
          onMove={(event) => {
            if (event !== null) movedByHand.current = true;
          }}
        >
          <Background variant={BackgroundVariant.Dots} gap={22} size={1.4} color="var(--dots)" />
          <Controls
            showInteractive={false}
            position="bottom-left"
            onFitView={() => {
              movedByHand.current = false;
            }}
          />
          <KeepInView layout={layout} movedByHand={movedByHand} />
        </ReactFlow>
      </ReactFlowProvider>
    </section>
  );
}
