import { chooseLayout, isReadable } from '@/engine/layout';
import type { Size } from '@/engine/layout';
import { teamIds } from '@/engine/tree';
import type { Branch } from '@/engine/tree';
import type { Workspace } from '@/engine/workspaces';

/** How many agents there are and how they are. One that is busy is also online. */
export interface Counts {
  readonly agents: number;
  readonly online: number;
  readonly busy: number;
  /** Starting, or still without an agent. */
  readonly waiting: number;
  readonly down: number;
}

const NOBODY: Counts = { agents: 0, online: 0, busy: 0, waiting: 0, down: 0 };
const ALIVE: ReadonlySet<string> = new Set(['online', 'degraded']);
const WAITING: ReadonlySet<string> = new Set(['awaiting_agent', 'provisioning']);
const DOWN: ReadonlySet<string> = new Set(['offline', 'failed']);

function countOne({ status, activeTasks }: Workspace): Counts {
  const alive = ALIVE.has(status);
  return {
    agents: 1,
    online: Number(alive),
    busy: Number(alive && activeTasks > 0),
    waiting: Number(WAITING.has(status)),
    down: Number(DOWN.has(status)),
  };
}

function sum(one: Counts, other: Counts): Counts {
  return {
    agents: one.agents + other.agents,
    online: one.online + other.online,
    busy: one.busy + other.busy,
    waiting: one.waiting + other.waiting,
    down: one.down + other.down,
  };
}

export function countAll(workspaces: readonly Workspace[]): Counts {
  return workspaces.map(countOne).reduce(sum, NOBODY);
}

/** The counts of every team, with its lead and all below it, by the id of the lead. */
export function countTeams(tree: readonly Branch[], workspaces: readonly Workspace[]): ReadonlyMap<string, Counts> {
  const rows = new Map(workspaces.map((workspace) => [workspace.id, workspace]));
  const counts = new Map<string, Counts>();
  const count = ({ id, children }: Branch): Counts => {
    const row = rows.get(id);
    const all = children.map(count).reduce(sum, row === undefined ? NOBODY : countOne(row));
    if (children.length > 0) counts.set(id, all);
    return all;
  };
  tree.forEach(count);
  return counts;
}

export function sameCounts(one: Counts | null, other: Counts | null): boolean {
  if (one === null || other === null) return one === other;
  const { agents, online, busy, waiting, down } = one;
  return (
    agents === other.agents &&
    online === other.online &&
    busy === other.busy &&
    waiting === other.waiting &&
    down === other.down
  );
}

/** `9 online`, `3 busy`, `2 waiting`, `1 down`: online always, the others when there are any. */
export function countWords({ online, busy, waiting, down }: Counts): string[] {
  const others = Object.entries({ busy, waiting, down }).filter(([, count]) => count > 0);
  return [`${online} online`, ...others.map(([word, count]) => `${count} ${word}`)];
}

/** What the reader chose for each team, by the id of its lead: true is folded. */
export type FoldChoices = Readonly<Record<string, boolean>>;

const MOST_ROWS = 60;

/** Teams that may be folded for the reader: not the only root, which would hide everything. */
function foldable(tree: readonly Branch[]): string[] {
  const onlyRoot = tree.length === 1 ? tree[0]?.id : undefined;
  return teamIds(tree).filter((id) => id !== onlyRoot);
}

/** The teams that are folded before the reader chooses anything: all, when names could not be read otherwise. */
export function foldedAtFirst(tree: readonly Branch[], area: Size, isList: boolean, agents: number): string[] {
  const nothing: ReadonlySet<string> = new Set();
  const fits = isList ? agents <= MOST_ROWS : isReadable(chooseLayout(tree, nothing, area), area);
  return fits ? [] : foldable(tree);
}

export function foldedTeams(
  tree: readonly Branch[],
  atFirst: ReadonlySet<string>,
  choices: FoldChoices,
): ReadonlySet<string> {
  return new Set(teamIds(tree).filter((id) => (Object.hasOwn(choices, id) ? choices[id] : atFirst.has(id))));
}

/** The choice that folds or opens every team at once. */
export function foldEvery(tree: readonly Branch[], isFolded: boolean): FoldChoices {
  return Object.fromEntries((isFolded ? foldable(tree) : teamIds(tree)).map((id) => [id, isFolded]));
}
