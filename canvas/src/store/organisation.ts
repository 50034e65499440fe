import { useMemo, useState } from 'react';

import { countTeams, foldedAtFirst, foldedTeams } from '@/engine/teams';
import type { Counts } from '@/engine/teams';
import type { Size } from '@/engine/layout';
import { buildTree, keepWhileSame, sameShape } from '@/engine/tree';
import type { Branch, Shape } from '@/engine/tree';
import type { Workspace } from '@/engine/workspaces';
import { useCanvas } from '@/store/platform';

/** The organisation as it is shown: who stands where, which teams are folded, and how each team is. */
export interface Organisation {
  readonly workspaces: readonly Workspace[];
  /** The same object as long as nobody comes, goes or moves. */
  readonly tree: readonly Branch[];
  readonly folded: ReadonlySet<string>;
  readonly counts: ReadonlyMap<string, Counts>;
}

export function useOrganisation(workspaces: readonly Workspace[], area: Size, isList: boolean): Organisation {
  const [keepShape] = useState(() => keepWhileSame<readonly Shape[]>(sameShape));
  const shape = keepShape(workspaces);
  const tree = useMemo(() => buildTree(shape), [shape]);
  // Decided once: a team must not fold under the reader's eyes because an agent joined or the window changed.
  const [atFirst] = useState(() => new Set(foldedAtFirst(tree, area, isList, workspaces.length)));
  const choices = useCanvas((state) => state.foldChoices);
  const folded = useMemo(() => foldedTeams(tree, atFirst, choices), [tree, atFirst, choices]);
  const counts = useMemo(() => countTeams(tree, workspaces), [tree, workspaces]);
  return useMemo(() => ({ workspaces, tree, folded, counts }), [workspaces, tree, folded, counts]);
}
