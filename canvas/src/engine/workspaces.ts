import { count, isObject, list, text, textOrNull } from '@/engine/json';
import type { JsonObject } from '@/engine/json';

/** One agent of the organisation, as the canvas needs it. */
export interface Workspace {
  readonly id: string;
  readonly name: string;
  readonly role: string;
  readonly status: string;
  readonly statusReason: string | null;
  readonly parentId: string | null;
  readonly runtime: string;
  readonly external: boolean;
  readonly deliveryMode: string;
  readonly currentTask: string;
  readonly activeTasks: number;
  readonly pending: number;
  readonly lastHeartbeatAt: string | null;
  /** Whether an agent has registered a card; the card itself is read when somebody looks. */
  readonly hasCard: boolean;
}

export function readWorkspace(row: JsonObject): Workspace {
  return {
    id: text(row.id),
    name: text(row.name),
    role: text(row.role),
    status: text(row.status),
    statusReason: textOrNull(row.status_reason),
    parentId: textOrNull(row.parent_id),
    runtime: text(row.runtime),
    external: row.external === true,
    deliveryMode: text(row.delivery_mode),
    currentTask: text(row.current_task),
    activeTasks: count(row.active_tasks),
    pending: count(row.pending),
    lastHeartbeatAt: textOrNull(row.last_heartbeat_at),
    hasCard: isObject(row.agent_card),
  };
}

/** Rows without an id cannot be shown or addressed and are left out, as are removed ones. */
export function readWorkspaces(body: unknown): Workspace[] {
  return list(body)
    .filter(isObject)
    .map(readWorkspace)
    .filter((workspace) => workspace.id !== '' && workspace.status !== 'removed');
}

/** The rows with a newer version of one of them, or with a new one at the end, where the platform lists it too. */
export function putRow(workspaces: readonly Workspace[], row: Workspace): readonly Workspace[] {
  const isKnown = workspaces.some(({ id }) => id === row.id);
  return isKnown ? workspaces.map((one) => (one.id === row.id ? row : one)) : [...workspaces, row];
}

/** The word on the badge: where the agent runs. */
export function runtimeBadge(workspace: Workspace): string {
  return workspace.external ? 'remote' : workspace.runtime;
}

/** Ids of the workspace and of everything below it; a cycle in the data ends the walk instead of hanging it. */
export function subtreeOf(workspaces: readonly Workspace[], rootId: string): ReadonlySet<string> {
  const found = new Set([rootId]);
  let grew = true;
  while (grew) {
    const children = workspaces.filter(
      ({ id, parentId }) => !found.has(id) && parentId !== null && found.has(parentId),
    );
    children.forEach(({ id }) => found.add(id));
    grew = children.length > 0;
  }
  return found;
}
