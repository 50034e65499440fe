import type { AgentCommand } from '@/commands/agentCommand';

export const resume: AgentCommand = {
  name: 'resume',
  label: 'Resume',
  busyLabel: 'Resuming…',
  isAvailable: ({ status }) => status === 'paused',
  takesAlong: () => null,
  perform: async ({ api, records }, agentId) => {
    await api.resume(agentId);
    await records.refreshWorkspace(agentId);
  },
};
