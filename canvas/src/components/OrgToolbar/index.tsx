import { useMemo } from 'react';
import type { ReactNode } from 'react';

import { AgentSearch } from '@/components/AgentSearch';
import { TeamCounts } from '@/components/TeamCounts';
import { countAll, foldEvery } from '@/engine/teams';
import { counted } from '@/engine/words';
import type { Organisation } from '@/store/organisation';
import { useCanvas } from '@/store/platform';

import './style.css';

/** Above the organisation: find an agent, fold the teams, and how all of it is. */
export function OrgToolbar({ organisation }: { readonly organisation: Organisation }): ReactNode {
  const { workspaces, tree, folded, counts } = organisation;
  const chooseFolds = useCanvas((state) => state.chooseFolds);
  const all = useMemo(() => countAll(workspaces), [workspaces]);
  const isAnyFolded = folded.size > 0;
  return (
    <div className="org-toolbar" role="toolbar" aria-label="Organisation">
      <AgentSearch workspaces={workspaces} />
      {counts.size > 1 && (
        <button
          type="button"
          className="button"
          data-testid="fold-all"
          onClick={() => {
            chooseFolds(foldEvery(tree, !isAnyFolded));
          }}
        >
          {isAnyFolded ? 'Unfold teams' : 'Fold teams'}
        </button>
      )}
      <span className="org-toolbar-counts">
        <span>{counted(all.agents, 'agent')}</span>
        <TeamCounts counts={all} />
      </span>
    </div>
  );
}
