import { ancestorsOf } from '@/engine/tree';
import type { Workspace } from '@/engine/workspaces';
import type { Platform } from '@/store/platform';

/** Opens an agent and every team it stands in, and brings it into view. */
export function reveal({ canvas }: Platform, workspaces: readonly Workspace[], agentId: string): void {
  const { chooseFolds, select, lookFor } = canvas.getState();
  chooseFolds(Object.fromEntries(ancestorsOf(workspaces, agentId).map((id) => [id, false])));
  select(agentId);
  lookFor(agentId);
}
