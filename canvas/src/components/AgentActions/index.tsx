import { useMutation } from '@tanstack/react-query';
import { useId } from 'react';
import type { ReactNode } from 'react';

import type { AgentCommand } from '@/commands/agentCommand';
import { agentCommands } from '@/commands/list';
import { sentenceOf } from '@/engine/errors';
import type { Workspace } from '@/engine/workspaces';
import { usePlatform } from '@/store/platform';

import './style.css';

interface Props {
  readonly workspace: Workspace;
  /** How many agents stand below this one. */
  readonly below: number;
}

export function AgentActions({ workspace, below }: Props): ReactNode {
  return (
    <div className="agent-actions">
      {agentCommands
        .filter((command) => command.isAvailable(workspace))
        .map((command) => (
          <ActionButton key={command.name} command={command} agentId={workspace.id} below={below} />
        ))}
    </div>
  );
}

interface ButtonProps {
  readonly command: AgentCommand;
  readonly agentId: string;
  readonly below: number;
}

function ActionButton({ command, agentId, below }: ButtonProps): ReactNode {
  const platform = usePlatform();
  const hintId = useId();
  const run = useMutation({ mutationFn: () => command.perform(platform, agentId) });
  const hint = command.takesAlong(below);
  return (
    <div className="agent-action">
      <button
        type="button"
        className="button"
        data-testid={command.name}
        disabled={run.isPending}
        aria-describedby={hint === null ? undefined : hintId}
        onClick={() => {
          run.mutate();
        }}
      >
        {run.isPending ? command.busyLabel : command.label}
      </button>
      {hint !== null && (
        <span id={hintId} className="agent-action-hint">
          {hint}
        </span>
      )}
      {run.isError && (
        <span className="agent-action-error" role="alert">
          {sentenceOf(run.error)}
        </span>
      )}
    </div>
  );
}
