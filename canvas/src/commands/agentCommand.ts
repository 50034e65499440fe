import type { Workspace } from '@/engine/workspaces';
import type { Platform } from '@/store/platform';

/** Something a person can do to one agent. Buttons, and later menus and shortcuts, read the same list. */
export interface AgentCommand {
  readonly name: string;
  readonly label: string;
  readonly busyLabel: string;
  isAvailable(workspace: Workspace): boolean;
  /** What it takes along, for the reader to know before; null when it touches this agent alone. */
  takesAlong(below: number): string | null;
  perform(platform: Platform, agentId: string): Promise<void>;
}
