"""Command line parser of `molecule-skill`. Exit codes: 0 done, 1 failed, 2 wrong usage."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from molecule_skill import __version__
from molecule_skill.cli.output import CommandFailed, Output


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command."""
    parser = _parser()
    options, rest = parser.parse_known_args(arguments)
    if options.command == "call" and not any(text.startswith("-") for text in rest):
        options.values += rest  # arguments of the skill may stand behind options
    elif rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    output = Output(as_json=options.json)
    try:
        return int(options.run(options, output) or 0)
    except CommandFailed as problem:
        output.failure(problem)
        return problem.exit_code
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="molecule-skill", description="Write, try, check, serve and call agents made of typed skills."
    )
    parser.add_argument("--version", action="version", version=f"molecule-skill {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_init(commands)
    _add_dev(commands)
    _add_test(commands)
    _add_card(commands)
    _add_run(commands)
    _add_call(commands)
    return parser


def _command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, says: str):
    command = commands.add_parser(name, help=says, description=says)
    command.add_argument("--json", action="store_true", help="answer in JSON, for programs")
    return command


def _in_project(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--project", type=Path, default=Path(), metavar="DIR", help="folder with config.yaml (default: here)"
    )
    command.add_argument(
        "--env-file", type=Path, default=None, metavar="FILE", help="secrets (default: .env.local)"
    )


def _add_init(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    command = _command(commands, "init", "Start a project in a new folder.")
    command.add_argument("name", metavar="NAME", help="the agent's name, and the folder's")
    command.add_argument("--template", choices=("basic", "chat", "files"), default="basic")
    command.set_defaults(run=_lazy("init"))


def _add_dev(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    command = _command(commands, "dev", "Try the agent in a browser; saved files take effect at once.")
    _in_project(command)
    command.add_argument("--port", type=int, default=8000)
    command.add_argument("--no-reload", action="store_true", help="do not look for saved files")
    command.add_argument(
        "--workspace", type=Path, default=None, metavar="DIR", help="files that the agent sees"
    )
    command.set_defaults(run=_lazy("dev"))


def _add_test(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    command = _command(
        commands, "test", "Check the project, then run its safe skills with made-up arguments."
    )
    _in_project(command)
    command.add_argument("--skill", metavar="S", help="run this skill, safe or not")
    command.add_argument("--args", metavar="JSON", help="its arguments")
    command.set_defaults(run=_lazy("test"))


def _add_card(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    command = _command(commands, "card", "Show the agent's card.")
    _in_project(command)
    command.add_argument("--format", choices=("native", "a2a"), default="native")
    command.add_argument("--check", action="store_true", help="fail where config.yaml says something else")
    command.set_defaults(run=_lazy("card"))


def _add_run(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    command = _command(commands, "run", "Serve the agent.")
    _in_project(command)
    command.add_argument("--host", default="0.0.0.0")
    command.add_argument("--port", type=int, default=8000)
    command.set_defaults(run=_lazy("run"))


def _add_call(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    command = _command(commands, "call", "Run a skill of an agent.")
    _in_project(command)
    command.add_argument("target", metavar="TARGET", help="a URL, platform:NAME, or . for this project")
    command.add_argument("skill", metavar="SKILL")
    command.add_argument("values", nargs="*", metavar="K=V", help="arguments, typed by the skill's schema")
    command.add_argument("--args", metavar="JSON", help="arguments as one JSON object")
    command.add_argument("--stream", action="store_true", help="show events as they come")
    command.add_argument("--grant", metavar="FILE", help="file with a grant token for the callee")
    command.add_argument("--timeout", type=float, default=300.0, metavar="SECONDS")
    command.set_defaults(run=_lazy("call"))


def _lazy(name: str):
    """The function `run` of a command's module, which is imported when the command is used."""

    def run(options: argparse.Namespace, output: Output) -> int | None:
        from importlib import import_module

        return import_module(f"molecule_skill.cli.{name}").run(options, output)

    return run


if __name__ == "__main__":
    sys.exit(main())
