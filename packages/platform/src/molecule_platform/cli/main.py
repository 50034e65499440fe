"""The program `molecule`: its commands, and what happens when one of them fails."""

import functools
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import typer
from typer.main import get_command

from molecule_platform.cli import output, problems
from molecule_platform.cli.access import access, grants
from molecule_platform.cli.activity import activity
from molecule_platform.cli.chat import chatting
from molecule_platform.cli.dead_letters import dead_letters
from molecule_platform.cli.delegations import delegations
from molecule_platform.cli.doctor import doctor
from molecule_platform.cli.events import events
from molecule_platform.cli.inbox import inbox
from molecule_platform.cli.keys import keys
from molecule_platform.cli.message_tree import messages
from molecule_platform.cli.messages import speaking
from molecule_platform.cli.models import models
from molecule_platform.cli.people import orgs, users
from molecule_platform.cli.plugin_rules import rules
from molecule_platform.cli.plugins import plugins
from molecule_platform.cli.registry import agents, neighbours
from molecule_platform.cli.runtimes import runtimes
from molecule_platform.cli.secrets import secrets
from molecule_platform.cli.status import platform
from molecule_platform.cli.tasks import tasks
from molecule_platform.cli.tokens import tokens
from molecule_platform.cli.up import starting
from molecule_platform.cli.workspace_lifecycle import lifecycle_services
from molecule_platform.cli.workspaces import workspaces

app = typer.Typer(
    name="molecule",
    help="Molecule: a control plane for organisations of AI agents.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # they print local values, and those hold tokens
)
workspaces.add_typer(lifecycle_services)
workspaces.add_typer(neighbours)
plugins.add_typer(rules)
app.add_typer(starting)
app.add_typer(platform)
app.add_typer(doctor)
app.add_typer(workspaces, name="workspace")
app.add_typer(agents, name="agent")
app.add_typer(activity, name="activity")
app.add_typer(events, name="event")
app.add_typer(secrets, name="secret")
app.add_typer(plugins, name="plugin")
app.add_typer(runtimes, name="runtime")
app.add_typer(keys, name="key")
app.add_typer(models, name="model")
app.add_typer(tokens, name="token")
app.add_typer(users, name="user")
app.add_typer(orgs, name="org")
app.add_typer(access, name="access")
app.add_typer(grants, name="grant")
app.add_typer(speaking)
app.add_typer(chatting)
app.add_typer(messages, name="message")
app.add_typer(inbox, name="inbox")
app.add_typer(tasks, name="task")
app.add_typer(dead_letters, name="dead-letter")
app.add_typer(delegations, name="delegation")


# Made at the first call and kept: it takes 50 ms, more than most commands.
_command = functools.cache(lambda: get_command(app))


def run(arguments: Sequence[str]) -> int:
    """Run one command; returns the exit code."""
    try:
        code = _command().main(list(arguments), prog_name="molecule", standalone_mode=False)
    except problems.Problem as problem:
        return _fail(problem, arguments)
    except typer.TyperException as mistake:
        return _fail(_misuse(mistake), arguments)
    except BrokenPipeError:
        return _fall_silent()
    except typer.Abort:
        return _fail(problems.Problem("stopped; nothing was changed", "aborted"), arguments)
    return code if isinstance(code, int) else 0


def _fail(problem: problems.Problem, arguments: Sequence[str]) -> int:
    if str(problem):
        output.failure(problem, as_json="--json" in arguments)
    return problem.exit_code


def _fall_silent() -> int:
    """Whoever read our output has seen enough; what is left of it goes nowhere, and nobody complains."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return problems.FAILURE


def _misuse(mistake: typer.TyperException) -> problems.Problem:
    sentence = mistake.format_message().rstrip(".")
    if not sentence:
        return problems.usage("")  # a group without a command has shown its help already
    context = getattr(mistake, "ctx", None)
    path = getattr(context, "command_path", None) or "molecule"
    return problems.usage(f"{sentence}. `{path} --help` tells more.")


def main() -> NoReturn:
    """The console script."""
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
