import { useCallback, useEffect, useMemo } from 'react';
import type { ReactNode } from 'react';

import { AgentPanel } from '@/components/AgentPanel';
import { Notice, TypeThis } from '@/components/Notice';
import { OrgGraph } from '@/components/OrgGraph';
import { OrgList } from '@/components/OrgList';
import { OrgToolbar } from '@/components/OrgToolbar';
import { useWindowSize } from '@/components/Workbench/useWindowSize';
import { sentenceOf } from '@/engine/errors';
import { subtreeOf } from '@/engine/workspaces';
import type { Workspace } from '@/engine/workspaces';
import { useOrganisation } from '@/store/organisation';
import { useCanvas, usePlatform, useWorkspaces } from '@/store/platform';

import './style.css';

/** The organisation and, beside it, the agent that is open. */
export function Workbench(): ReactNode {
  const { data: workspaces, error, retry } = useWorkspaces();
  if (workspaces !== undefined) return <Organisation workspaces={workspaces} />;
  if (error === null) return <Notice title="Loading the organisation…" />;
  return (
    <Notice title="The organisation could not be loaded" urgent>
      <p>{sentenceOf(error)}</p>
      <button type="button" className="button button-main" onClick={retry}>
        Try again
      </button>
    </Notice>
  );
}

function Organisation({ workspaces }: { readonly workspaces: readonly Workspace[] }): ReactNode {
  return workspaces.length === 0 ? <EmptyOrganisation /> : <Members workspaces={workspaces} />;
}

/** Below this width a graph cannot be read; the open agent then takes all of the page, too. */
const NARROW = 800;
/** What the header and the toolbar take. */
const ABOVE = 104;

function Members({ workspaces }: { readonly workspaces: readonly Workspace[] }): ReactNode {
  const { width, height } = useWindowSize();
  const isNarrow = width <= NARROW;
  const area = useMemo(() => ({ width, height: Math.max(1, height - ABOVE) }), [width, height]);
  const organisation = useOrganisation(workspaces, area, isNarrow);
  return (
    <div className="workbench">
      <div className="workbench-organisation">
        <OrgToolbar organisation={organisation} />
        {isNarrow ? <OrgList organisation={organisation} /> : <OrgGraph organisation={organisation} area={area} />}
      </div>
      <OpenAgent workspaces={workspaces} />
    </div>
  );
}

/** The box or the row of the agent, where its panel was opened from. */
function focusAgent(agentId: string): void {
  document.querySelector<HTMLElement>(`[data-agent-id="${CSS.escape(agentId)}"]`)?.focus();
}

function OpenAgent({ workspaces }: { readonly workspaces: readonly Workspace[] }): ReactNode {
  const selectedId = useCanvas((state) => state.selectedId);
  const select = useCanvas((state) => state.select);
  const { records } = usePlatform();
  const open = workspaces.find(({ id }) => id === selectedId);
  const below = useMemo(
    () => (selectedId === null ? 0 : subtreeOf(workspaces, selectedId).size - 1),
    [workspaces, selectedId],
  );
  const close = useCallback(() => {
    select(null);
    if (selectedId !== null) focusAgent(selectedId);
  }, [select, selectedId]);

  // Events do not carry all that the panel shows.
  useEffect(() => {
    if (selectedId !== null) void records.refreshWorkspace(selectedId);
  }, [records, selectedId]);

  useEffect(() => {
    const closeByKey = (event: KeyboardEvent): void => {
      if (event.key === 'Escape' && !event.isComposing) close();
    };
    window.addEventListener('keydown', closeByKey);
    return () => {
      window.removeEventListener('keydown', closeByKey);
    };
  }, [close]);

  return open === undefined ? null : <AgentPanel key={open.id} workspace={open} below={below} onClose={close} />;
}

function EmptyOrganisation(): ReactNode {
  return (
    <Notice title="No agents yet">
      <p>Make the first one where the platform runs. It appears here by itself.</p>
      <TypeThis command="molecule workspace create my-first-agent" />
      <p>Or see a small organisation at work:</p>
      <TypeThis command="molecule up --demo" />
    </Notice>
  );
}
