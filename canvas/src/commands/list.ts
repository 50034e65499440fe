import type { AgentCommand } from '@/commands/agentCommand';
import { pause } from '@/commands/pause';
import { resume } from '@/commands/resume';

/** All commands on an agent, in the order in which they are offered. */
export const agentCommands: readonly AgentCommand[] = [pause, resume];
