import type { AgentCommand } from '@/commands/agentCommand';

export const pause: AgentCommand = {
  name: 'pause',
  label: 'Pause',
  busyLabel: 'Pausing…',
  isAvailable: ({ status }) => status !== 'paused',
  takesAlong: (below) => {
    if (below === 0) return null;
    return below === 1 ? 'Also pauses the agent below it.' : `Also pauses the ${below} agents below it.`;
  },
  perform: async ({ api, records }, agentId) => {
    await api.pause(agentId);
    await records.refreshWorkspace(agentId);
  },
};
