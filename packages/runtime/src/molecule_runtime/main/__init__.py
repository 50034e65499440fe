"""The workspace process: boot, serve, stop; and the commands around it."""

import os
import sys
from collections.abc import Mapping

__all__ = ["main", "main_sync"]


async def main(variables: Mapping[str, str] | None = None) -> int:
    """Run the workspace that the environment describes until it is stopped; returns the exit code."""
    # Imported here: `molecule-runtime --help` waits for none of it.
    from molecule_runtime.domain.config_values import ConfigError
    from molecule_runtime.main.boot import BootFailed, prepare
    from molecule_runtime.main.logs import set_up_logging
    from molecule_runtime.main.process import WorkspaceProcess
    from molecule_runtime.settings.environment import Environment

    try:
        environment = Environment.read(os.environ if variables is None else variables)
    except ConfigError as problem:
        print(problem, file=sys.stderr)
        return 1
    set_up_logging(environment.log_format, environment.variables)
    try:
        prepared = await prepare(environment)
    except BootFailed as failed:
        print(failed, file=sys.stderr)
        return 1
    return await WorkspaceProcess(prepared).run()


def main_sync() -> None:
    """The console script: a command, or the workspace itself."""
    from molecule_runtime.main.commands import run_command

    sys.exit(run_command(sys.argv[1:]))
