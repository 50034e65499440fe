import type { Workspace } from '@/engine/workspaces';

/** Without case and accents: whoever types `zoe` finds `Zoë`. */
function plain(words: string): string {
  return words.normalize('NFD').replace(/\p{Diacritic}/gu, '').toLowerCase();
}

/** How well an agent fits, the best first: begins with it, has a word that does, holds it, has it in its role. */
function rank({ name, role }: Workspace, wanted: string): number | null {
  const said = plain(name);
  if (said.startsWith(wanted)) return 0;
  if (said.split(/[^\p{L}\p{N}]+/u).some((word) => word.startsWith(wanted))) return 1;
  if (said.includes(wanted)) return 2;
  return plain(role).includes(wanted) ? 3 : null;
}

/** The agents that fit what was typed, the best first, in the order of the rows among equals. */
export function findAgents(workspaces: readonly Workspace[], typed: string, most: number): Workspace[] {
  const wanted = plain(typed.trim());
  if (wanted === '') return [];
  return workspaces
    .flatMap((workspace) => {
      const place = rank(workspace, wanted);
      return place === null ? [] : [{ workspace, place }];
    })
    .sort((one, other) => one.place - other.place)
    .slice(0, most)
    .map(({ workspace }) => workspace);
}
