import { count, isObject, object, parse, text, textOrNull } from '@/engine/json';
import type { JsonObject } from '@/engine/json';
import { subtreeOf } from '@/engine/workspaces';
import type { Workspace } from '@/engine/workspaces';

/** One event of the live stream. Ephemeral events have no id and are never replayed. */
export interface Frame {
  readonly id: string | null;
  readonly event: string;
  readonly workspaceId: string;
  readonly timestamp: string;
  readonly payload: JsonObject;
}

export function readFrame(data: unknown): Frame | null {
  const frame = typeof data === 'string' ? parse(data) : undefined;
  if (!isObject(frame) || text(frame.event) === '') return null;
  return {
    id: textOrNull(frame.id),
    event: text(frame.event),
    workspaceId: text(frame.workspace_id),
    timestamp: text(frame.timestamp),
    payload: object(frame.payload),
  };
}

const STATUS_AFTER: Readonly<Record<string, string>> = {
  WORKSPACE_PROVISIONING: 'provisioning',
  WORKSPACE_WAKING: 'provisioning',
  WORKSPACE_ONLINE: 'online',
  WORKSPACE_AWAITING_AGENT: 'awaiting_agent',
  WORKSPACE_OFFLINE: 'offline',
  WORKSPACE_DEGRADED: 'degraded',
  WORKSPACE_PAUSED: 'paused',
  WORKSPACE_HIBERNATED: 'hibernated',
  WORKSPACE_PROVISION_FAILED: 'failed',
};

type Change = (workspace: Workspace, frame: Frame) => Workspace;

/** What a new start forgets. */
const IDLE = { currentTask: '', activeTasks: 0 };

const CHANGES: Readonly<Record<string, Change>> = {
  WORKSPACE_RESUMED: (workspace) => ({
    ...workspace,
    status: workspace.external ? 'awaiting_agent' : 'provisioning',
    statusReason: null,
  }),
  WORKSPACE_UPDATED: (workspace, { payload }) => ({ ...workspace, ...changedFields(payload) }),
  AGENT_CARD_UPDATED: (workspace) => ({ ...workspace, hasCard: true }),
  WORKSPACE_HEARTBEAT: (workspace, { payload, timestamp }) => ({
    ...workspace,
    activeTasks: count(payload.active_tasks),
    lastHeartbeatAt: timestamp === '' ? workspace.lastHeartbeatAt : timestamp,
  }),
  TASK_UPDATED: (workspace, { payload }) => ({
    ...workspace,
    currentTask: text(payload.current_task),
    activeTasks: count(payload.active_tasks),
  }),
};

/** The fields that an update names and the page shows. */
function changedFields(payload: JsonObject): Partial<Workspace> {
  return {
    ...('name' in payload && { name: text(payload.name) }),
    ...('role' in payload && { role: text(payload.role) }),
    ...('parent_id' in payload && { parentId: textOrNull(payload.parent_id) }),
    ...('runtime' in payload && { runtime: text(payload.runtime) }),
    ...('delivery_mode' in payload && { deliveryMode: text(payload.delivery_mode) }),
  };
}

function changeFor(event: string): Change | undefined {
  const status = STATUS_AFTER[event];
  if (status === undefined) return CHANGES[event];
  return (workspace, { payload }) => ({
    ...workspace,
    status,
    statusReason: textOrNull(payload.reason) ?? textOrNull(payload.error),
    hasCard: workspace.hasCard || isObject(payload.agent_card),
    ...(status === 'provisioning' && IDLE),
  });
}

/** The rows after the event; the same array when the event says nothing about them. */
export function foldFrame(workspaces: readonly Workspace[], frame: Frame): readonly Workspace[] {
  if (frame.event === 'WORKSPACE_REMOVED') {
    const gone = subtreeOf(workspaces, frame.workspaceId);
    return workspaces.filter(({ id }) => !gone.has(id));
  }
  const change = changeFor(frame.event);
  if (change === undefined || !workspaces.some(({ id }) => id === frame.workspaceId)) return workspaces;
  return workspaces.map((workspace) =>
    workspace.id === frame.workspaceId ? change(workspace, frame) : workspace,
  );
}

/** True when so much may have been missed that all rows must be read again. */
export function needsAllRows({ event }: Frame): boolean {
  return event === 'RESYNC_REQUIRED';
}

// A registration may bring another way of delivery, and the reason of a degraded agent is a sentence of the platform.
const saysLess: Readonly<Record<string, (payload: JsonObject) => boolean>> = {
  WORKSPACE_ONLINE: (payload) => 'url' in payload,
  WORKSPACE_DEGRADED: () => true,
};

const NO_ROW: ReadonlySet<string> = new Set(['WORKSPACE_REMOVED', 'WORKSPACE_HEARTBEAT']);

/** True when the row of this one agent must be read: it is new here, or the event does not carry all that changed. */
export function needsRow(workspaces: readonly Workspace[], { event, workspaceId, payload }: Frame): boolean {
  if (!event.startsWith('WORKSPACE_') || NO_ROW.has(event)) return false;
  if (!workspaces.some(({ id }) => id === workspaceId)) return true;
  return changeFor(event) === undefined || (saysLess[event]?.(payload) ?? false);
}

/**
 * True when the agent may have another card. One that starts again while its last life still counts as online brings
 * a new card without an event of its own; its first heartbeat tells.
 */
export function touchesCard({ event }: Frame): boolean {
  return event === 'AGENT_CARD_UPDATED' || event.startsWith('WORKSPACE_');
}

const CHAT_EVENTS: ReadonlySet<string> = new Set(['A2A_RESPONSE', 'AGENT_MESSAGE', 'RESYNC_REQUIRED']);

/** True when the conversation with the agent may have grown or got an answer. */
export function touchesChat({ event }: Frame): boolean {
  return CHAT_EVENTS.has(event) || event.startsWith('MESSAGE_');
}

/** The agent whose conversation the event belongs to. */
export function chatOf(frame: Frame): string {
  const target = text(frame.payload.target_id);
  return target === '' ? frame.workspaceId : target;
}
