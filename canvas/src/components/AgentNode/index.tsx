import { Handle, Position, useReactFlow, useStoreApi } from '@xyflow/react';
import type { Node, NodeProps } from '@xyflow/react';
import type { ReactNode } from 'react';

import { RuntimeBadge } from '@/components/RuntimeBadge';
import { StatusWord } from '@/components/StatusWord';
import { TeamCounts } from '@/components/TeamCounts';
import type { Density } from '@/engine/layout';
import { lookOf } from '@/engine/status';
import type { Counts } from '@/engine/teams';
import { countWords } from '@/engine/teams';
import { viewWith } from '@/engine/view';
import { runtimeBadge } from '@/engine/workspaces';
import type { Workspace } from '@/engine/workspaces';
import { useCanvas } from '@/store/platform';

import './style.css';

/** The team of a lead, with the lead itself. */
export interface Team {
  readonly counts: Counts;
  readonly isFolded: boolean;
}

interface Shown extends Record<string, unknown> {
  readonly workspace: Workspace;
  readonly density: Density['name'];
  readonly open: boolean;
  /** The beginning of what it said last, if anything. */
  readonly said: string;
  readonly team: Team | null;
}

export type AgentNodeType = Node<Shown, 'agent'>;

function spokenName(workspace: Workspace): string {
  const { name, role, status, currentTask } = workspace;
  const pieces = [name, role, runtimeBadge(workspace), lookOf(status).label, currentTask];
  return pieces.filter((piece) => piece !== '').join(', ');
}

/** Moves the graph when the Tab key comes to a box outside of it. */
function useShowOnFocus({ positionAbsoluteX: x, positionAbsoluteY: y, width, height }: NodeProps<AgentNodeType>): () => void {
  const { getViewport, setViewport } = useReactFlow();
  const store = useStoreApi();
  return () => {
    const area = store.getState();
    const rect = { x, y, width: width ?? 0, height: height ?? 0 };
    void setViewport(viewWith(getViewport(), rect, area));
  };
}

/** One agent on the graph: a button that opens it and, on a lead, one that folds its team. */
export function AgentNode(props: NodeProps<AgentNodeType>): ReactNode {
  const { workspace, density, open, said, team } = props.data;
  const { id, name, status } = workspace;
  const select = useCanvas((state) => state.select);
  const show = useShowOnFocus(props);
  return (
    <div
      className="agent-node"
      data-testid={`agent-${name}`}
      data-status={status}
      data-tone={lookOf(status).tone}
      data-open={open}
      data-density={density}
      onFocus={(event) => {
        if (event.target.matches(':focus-visible')) show();
      }}
    >
      <Handle type="target" position={Position.Top} isConnectable={false} />
      <button
        type="button"
        className="agent-node-main"
        data-agent-id={id}
        aria-label={spokenName(workspace)}
        aria-expanded={open}
        onClick={() => {
          select(id);
        }}
      >
        {density === 'full' ? <FullFace workspace={workspace} said={said} /> : <CompactFace workspace={workspace} />}
      </button>
      {team !== null && <TeamFoot id={id} name={name} team={team} />}
      <Handle type="source" position={Position.Bottom} isConnectable={false} />
    </div>
  );
}

function FullFace({ workspace, said }: { readonly workspace: Workspace; readonly said: string }): ReactNode {
  const { name, role, status, currentTask, activeTasks } = workspace;
  return (
    <>
      <span className="agent-node-top">
        <span className="agent-node-name" data-testid="name" title={name}>
          {name}
        </span>
        <RuntimeBadge workspace={workspace} />
      </span>
      <span className="agent-node-role" title={role}>
        {role}
      </span>
      {currentTask !== '' && (
        <span className="agent-node-task" title={currentTask}>
          {currentTask}
        </span>
      )}
      {currentTask === '' && said !== '' && (
        <span className="agent-node-said" data-testid="said" title={said}>
          “{said}”
        </span>
      )}
      <span className="agent-node-foot">
        <StatusWord status={status} />
        {activeTasks > 1 && <span className="agent-node-count">{activeTasks} tasks</span>}
      </span>
    </>
  );
}

function CompactFace({ workspace: { name, role, status, currentTask } }: { readonly workspace: Workspace }): ReactNode {
  return (
    <>
      <span className="agent-node-name" data-testid="name" title={role === '' ? name : `${name}: ${role}`}>
        {name}
      </span>
      <span className="agent-node-foot">
        <StatusWord status={status} />
        <span className="agent-node-task" title={currentTask}>
          {currentTask}
        </span>
      </span>
    </>
  );
}

interface FootProps {
  readonly id: string;
  readonly name: string;
  readonly team: Team;
}

function TeamFoot({ id, name, team: { counts, isFolded } }: FootProps): ReactNode {
  const chooseFolds = useCanvas((state) => state.chooseFolds);
  const spoken = `${isFolded ? 'Unfold' : 'Fold'} the team of ${name}: ${counts.agents} agents, ${countWords(counts).join(', ')}`;
  return (
    <button
      type="button"
      className="agent-node-team"
      data-testid={`fold-${name}`}
      aria-expanded={!isFolded}
      aria-label={spoken}
      onClick={() => {
        chooseFolds({ [id]: !isFolded });
      }}
    >
      <span className="agent-node-arrow" aria-hidden="true">
        {isFolded ? '▸' : '▾'}
      </span>
      <span className="agent-node-size">{counts.agents} agents</span>
      <TeamCounts counts={counts} />
    </button>
  );
}
