import { useMemo, useRef, useState } from 'react';
import type { KeyboardEvent, ReactNode } from 'react';

import { StatusWord } from '@/components/StatusWord';
import { TeamCounts } from '@/components/TeamCounts';
import type { Counts } from '@/engine/teams';
import { treeRows } from '@/engine/tree';
import type { TreeRow } from '@/engine/tree';
import { treeMove } from '@/engine/treeKeys';
import type { Workspace } from '@/engine/workspaces';
import type { Organisation } from '@/store/organisation';
import { useCanvas } from '@/store/platform';

import './style.css';

function focusRow(list: HTMLElement | null, id: string): void {
  list?.querySelector<HTMLElement>(`[data-agent-id="${CSS.escape(id)}"]`)?.focus();
}

/** The organisation as a list, for screens that are too narrow for a graph. */
export function OrgList({ organisation }: { readonly organisation: Organisation }): ReactNode {
  const { workspaces, tree, folded, counts } = organisation;
  const select = useCanvas((state) => state.select);
  const selectedId = useCanvas((state) => state.selectedId);
  const chooseFolds = useCanvas((state) => state.chooseFolds);
  const [reached, setReached] = useState<string | null>(null);
  const list = useRef<HTMLDivElement>(null);
  const rows = useMemo(() => treeRows(tree, folded), [tree, folded]);
  const byId = useMemo(() => new Map(workspaces.map((workspace) => [workspace.id, workspace])), [workspaces]);
  // One stop of the Tab key; the arrows move inside.
  const tabStop = rows.some(({ id }) => id === reached) ? reached : rows[0]?.id;

  const onKeyDown = (event: KeyboardEvent, at: number, id: string): void => {
    const move = treeMove(event.key, rows, at);
    if (event.key === 'Enter' || event.key === ' ') select(id);
    else if (move === null) return;
    else if ('fold' in move) chooseFolds({ [id]: move.fold });
    else focusRow(list.current, move.to);
    event.preventDefault();
  };

  return (
    <div ref={list} className="org-list" role="tree" aria-label="Organisation">
      {rows.map((row, at) => {
        const workspace = byId.get(row.id);
        if (workspace === undefined) return null;
        return (
          <ListRow
            key={row.id}
            row={row}
            workspace={workspace}
            counts={counts.get(row.id) ?? null}
            isOpen={row.id === selectedId}
            isTabStop={row.id === tabStop}
            onReach={setReached}
            onKeyDown={(event) => {
              onKeyDown(event, at, row.id);
            }}
          />
        );
      })}
    </div>
  );
}

interface RowProps {
  readonly row: TreeRow;
  readonly workspace: Workspace;
  readonly counts: Counts | null;
  readonly isOpen: boolean;
  readonly isTabStop: boolean;
  readonly onReach: (id: string) => void;
  readonly onKeyDown: (event: KeyboardEvent) => void;
}

function ListRow({ row, workspace, counts, isOpen, isTabStop, onReach, onKeyDown }: RowProps): ReactNode {
  const select = useCanvas((state) => state.select);
  const chooseFolds = useCanvas((state) => state.chooseFolds);
  const { id, name, role, status, currentTask } = workspace;
  return (
    <div
      className="org-list-row"
      role="treeitem"
      tabIndex={isTabStop ? 0 : -1}
      aria-level={row.level}
      aria-posinset={row.position}
      aria-setsize={row.siblings}
      aria-expanded={row.isTeam ? !row.isFolded : undefined}
      aria-selected={isOpen}
      data-agent-id={id}
      data-testid={`agent-${name}`}
      data-status={status}
      title={role}
      style={{ paddingLeft: `${0.5 + (row.level - 1) * 1.125}rem` }}
      onFocus={() => {
        onReach(id);
      }}
      onKeyDown={onKeyDown}
      onClick={() => {
        select(id);
      }}
    >
      {row.isTeam ? (
        // The keys for this are those of the row; a second stop of the Tab key would only be in the way.
        <span
          className="org-list-fold"
          data-testid={`fold-${name}`}
          aria-hidden="true"
          onClick={(event) => {
            event.stopPropagation();
            chooseFolds({ [id]: !row.isFolded });
          }}
        >
          {row.isFolded ? '▸' : '▾'}
        </span>
      ) : (
        <span className="org-list-leaf" aria-hidden="true" />
      )}
      <span className="org-list-words">
        <bdi className="org-list-name" data-testid="name">
          {name}
        </bdi>
        {currentTask !== '' && <bdi className="org-list-more">{currentTask}</bdi>}
        {row.isFolded && counts !== null && (
          <span className="org-list-team">
            {counts.agents} agents <TeamCounts counts={counts} />
          </span>
        )}
      </span>
      <StatusWord status={status} />
    </div>
  );
}
