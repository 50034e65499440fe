import { useCallback, useEffect, useMemo } from 'react';
import type { ReactNode } from 'react';

import { AgentPanel } from '@/components/AgentPanel';
import { Notice, TypeThis } from '@/components/Notice';
import { OrgGraph } from '@/components/OrgGraph';
import { sentenceOf } from '@/engine/errors';
import { subtreeOf } from '@/engine/workspaces';
import type { Workspace } from '@/engine/workspaces';
import { useCanvas, useWorkspaces } from '@/store/platform';

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
  if (workspaces.length === 0) return <EmptyOrganisation />;
  return (
    <div className="workbench">
      <OrgGraph workspaces={workspaces} />
      <OpenAgent workspaces={workspaces} />
    </div>
  );
}

function focusNode(agentId: string): void {
  document.querySelector<HTMLElement>(`.react-flow__node[data-id="${CSS.escape(agentId)}"]`)?.focus();
}

function OpenAgent({ workspaces }: { readonly workspaces: readonly Workspace[] }): ReactNode {
  const selectedId = useCanvas((state) => state.selectedId);
  const select = useCanvas((state) => state.select);
  const open = workspaces.find(({ id }) => id === selectedId);
  const below = useMemo(
    () => (selectedId === null ? 0 : subtreeOf(workspaces, selectedId).size - 1),
    [workspaces, selectedId],
  );
  const close = useCallback(() => {
    select(null);
    if (selectedId !== null) focusNode(selectedId);
  }, [select, selectedId]);

  useEffect(() => {
    const closeByKey = (event: KeyboardEvent): void => {
      if (event.key === 'Escape' && !event.isComposing) close();
    };
    window.addEventListener('keydown', closeByKey);
    return () => {
      window.removeEventListener('keydown', closeByKey);
    };
  }, [close]);

  return open === undefined ? null : <AgentPanel workspace={open} below={below} onClose={close} />;
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
