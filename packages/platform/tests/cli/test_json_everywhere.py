"""Every command has --json, and with it prints one JSON value and nothing else."""

from collections.abc import Callable, Iterator
from typing import Any, cast
from uuid import uuid4

import pytest
from typer.main import get_command

from molecule_platform.cli import main

Molecule = Callable[..., Any]

# `{name}` and its like stand for things that exist; a command for each path of the program.
CALLS: dict[str, tuple[str, ...]] = {
    "version": (),
    "status": (),
    "doctor": (),
    "login-url": (),
    "workspace create": ("a-new-one",),
    "workspace list": (),
    "workspace show": ("{name}",),
    "workspace pause": ("{name}",),
    "workspace resume": ("{paused}",),
    "workspace enrol": ("{name}",),
    "workspace delete": ("{name}", "--yes"),
    "secret set": ("{key}", "--value", "x"),
    "secret list": (),
    "secret delete": ("{key}",),
    "token create": ("--workspace", "{name}"),
    "token list": ("--workspace", "{name}"),
    "token delete": ("{token}",),
    "access check": ("{name}", "{paused}"),
    "access explain": ("{name}", "{paused}"),
    "grant create": ("{name}", "{paused}", "--reason", "a test"),
    "grant list": (),
    "grant delete": ("{grant}",),
    "send": ("{name}", "hello", "--no-wait"),
    "message show": ("{message}",),
}
STARTS_A_SERVER = {"up"}  # its line of JSON is tested where it is started


def leaves(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    children = cast(dict[str, Any], getattr(command, "commands", {}))
    if not children:
        yield path, command
    for name, child in children.items():
        yield from leaves(child, f"{path} {name}".strip())


COMMANDS = dict(leaves(get_command(main.app)))


def test_the_program_has_exactly_the_commands_that_are_tested_here() -> None:
    assert set(COMMANDS) == set(CALLS) | STARTS_A_SERVER


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_has_json_and_says_what_it_is_for(path: str) -> None:
    command = COMMANDS[path]
    assert "--json" in {option for parameter in command.params for option in parameter.opts}
    assert command.help


@pytest.mark.parametrize("path", CALLS)
def test_with_json_a_command_prints_one_json_value(path: str, at_house: Molecule) -> None:
    name, paused, key = f"w-{uuid4()}", f"p-{uuid4()}", f"K_{uuid4().hex}"
    for made in (name, paused):
        at_house("workspace", "create", made)
    at_house("workspace", "pause", paused)
    at_house("secret", "set", key, "--value", "x")
    message = at_house("send", name, "hello", "--no-wait", "--json").json()["id"]
    grant = at_house("grant", "create", name, paused, "--reason", "a test", "--json").json()["id"]
    token = at_house("token", "create", "--json").json()["id"]
    things = {"name": name, "paused": paused, "key": key, "message": message, "grant": grant, "token": token}
    given = [part.format(**things) for part in CALLS[path]]
    done = at_house(*path.split(), *given, "--json")
    assert (done.code, done.err) == (0, "")
    assert done.json() is not None
