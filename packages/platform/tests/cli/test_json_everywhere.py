"""Every command has --json, prints one JSON value with it, and uses the routes that it says it uses."""

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, cast
from uuid import uuid4

import pytest
from typer.main import get_command

from molecule_platform.api.router import Router
from molecule_platform.api.routes import TABLE
from molecule_platform.cli import client, main
from molecule_plugin.keys import generate_key

Molecule = Callable[..., Any]

# `{name}` and its like stand for things that exist. For each path of the program the calls that together
# use all its routes.
CALLS: dict[str, tuple[tuple[str, ...], ...]] = {
    "version": ((),),
    "whoami": ((),),
    "status": ((),),
    "metrics": ((),),
    "openapi": ((),),
    "doctor": ((),),
    "login-url": ((),),
    "workspace create": (("a-new-one",),),
    "workspace list": ((), ("--status", "paused", "--query", "{paused}", "--removed")),
    "workspace show": (("{id}",), ("{name}",)),
    "workspace update": (("{name}", "--role", "says hello", "--tier", "1", "--root", "--not-isolated"),),
    "workspace pause": (("{name}",),),
    "workspace resume": (("{paused}",),),
    "workspace restart": (("{name}", "--reset"),),
    "workspace hibernate": (("{name}", "--force"),),
    "workspace wake": (("{name}",),),
    "workspace state": (("{id}",), ("{name}",)),
    "workspace enrol": (("{name}",),),
    "workspace delete": (("{name}", "--yes"), ("{paused}", "--yes", "--purge")),
    "workspace peers": (("{name}",), ("{name}", "--query", "{paused}", "--relation", "sibling")),
    "workspace address": (("{name}",),),
    "agent search": ((), ("{name}", "--status", "paused", "--status", "online", "--limit", "1")),
    "agent card": (("{name}",),),
    "key rotate": ((),),
    "secret set": (("{key}", "--value", "x"), ("{key}", "--value", "x", "--workspace", "{name}")),
    "secret list": ((), ("--workspace", "{name}")),
    "secret delete": (("{key}",), ("{own_key}", "--workspace", "{name}")),
    "secret rotate-key": ((),),
    "plugin list": ((), ("--workspace", "{name}"), ("--runtime", "llm")),
    "plugin available": (("{name}",),),
    "plugin check": (("{name}", "llm"),),
    "plugin sources": ((),),
    "plugin install": (("{name}", "{plugin}"),),
    "plugin uninstall": (("{name}", "{installed}"),),
    "plugin allowlist": ((),),
    "plugin allow": (("--all",),),
    "plugin keys": ((),),
    "plugin trust": (("{publisher}", "--name", "us", "--for", "x-*"),),
    "plugin distrust": (("{publisher}",),),
    "plugin revocations": ((),),
    "plugin revoke": (
        ("--plugin", "x@1.0.0", "--reason", "a test"),
        ("--digest", "0" * 64, "--reason", "a test"),
        ("--key", "0123456789abcdef", "--reason", "a test"),
    ),
    "model show": (("{name}",),),
    "model set": (("{name}", "sonnet"), ("{name}", "--default")),
    "activity list": (("{name}",),),
    "event list": ((), ("{name}", "--type", "WORKSPACE_UPDATED", "--since", "0")),
    "event watch": (("--since", "0", "--count", "1"), ("{name}", "--since", "0", "--count", "1")),
    "token create": ((), ("--workspace", "{name}", "--scope", "ws.send", "--days", "1")),
    "token list": ((), ("--workspace", "{name}")),
    "token delete": (("{token}",), ("{own_token}", "--workspace", "{name}")),
    "user list": ((),),
    "user invite": (("{user}",),),
    "user set": (("{user}", "--role", "viewer"),),
    "user delete": (("{user}",),),
    "org list": ((),),
    "org create": (("{name}",),),
    "org show": (("{org}",),),
    "org rename": (("{org}", "--name", "Another"),),
    "access check": (("{name}", "{paused}"),),
    "access explain": (("{name}", "{paused}"),),
    "grant create": (("{name}", "{paused}", "--reason", "a test"),),
    "grant list": ((),),
    "grant delete": (("{grant}",),),
    "send": (("{name}", "hello", "--no-wait"), ("{name}", "hello", "--wait", "0.2")),
    "message show": (("{message}",), ("{message}", "--history")),
    "message list": (("{name}",), ("{name}", "--received", "--status", "failed", "--peer", "{paused}")),
    "message watch": (("{message}", "--count", "1"),),
    "message cancel": (("{message}", "--reason", "a test"),),
    "inbox list": (("{name}",), ("{name}", "--dead", "--kind", "message", "--peer", "{paused}")),
    "inbox show": (("{name}", "{message}"),),
    "task list": (("{name}",), ("{name}", "--state", "submitted", "--limit", "1")),
    "task show": (("{name}", "{message}"),),
    "task watch": (("{name}", "{message}", "--count", "1"),),
    "task cancel": (("{name}", "{message}"),),
    "dead-letter list": ((), ("{name}",)),
    "dead-letter redrive": (("{dead}",), ("--all", "{name}")),
    "delegation create": (("{name}", "{paused}", "write a poem"),),
    "delegation list": (("{name}",), ("{name}", "--role", "source", "--status", "pending")),
    "delegation show": (("{delegation}",),),
    "delegation cancel": (("{delegation}", "--reason", "a test"),),
}
STARTS_A_SERVER = {"up"}  # its line of JSON is tested where it is started
NEEDS_A_PROVISIONER = {"workspace hibernate", "workspace wake"}  # here every agent runs elsewhere
LOOKS_UP = {"workspace.list", "workspace.show"}  # how every command finds a workspace by its name or id


def leaves(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    children = cast(dict[str, Any], getattr(command, "commands", {}))
    if not children:
        yield path, command
    for name, child in children.items():
        yield from leaves(child, f"{path} {name}".strip())


COMMANDS = dict(leaves(get_command(main.app)))


@pytest.fixture
def things(
    at_house: Molecule, fail: Callable[[str, str], str], offer: Callable[[], str]
) -> Iterator[dict[str, str]]:
    """Something of each kind that a command can be about."""
    name, paused, key, user = f"w-{uuid4()}", f"p-{uuid4()}", f"K_{uuid4().hex}", f"u-{uuid4()}"

    def made(*arguments: str) -> dict[str, Any]:
        done = at_house(*arguments, "--json")
        assert done.code == 0, done.err
        return done.json()

    found = {"name": name, "paused": paused, "key": key, "own_key": key, "user": user}
    found["id"] = made("workspace", "create", name)["id"]
    made("workspace", "create", paused)
    made("workspace", "pause", paused)
    made("secret", "set", key, "--value", "x")
    made("secret", "set", key, "--value", "x", "--workspace", name)
    made("user", "invite", user)
    worker = made("token", "create", "--workspace", name)["auth_token"]
    made("send", name, "in vain", "--no-wait")
    found["dead"] = fail(found["id"], worker)
    found["message"] = made("send", name, "hello", "--no-wait")["id"]
    found["delegation"] = made("delegation", "create", name, paused, "a task")["delegation_id"]
    found["grant"] = made("grant", "create", name, paused, "--reason", "a test")["id"]
    found["token"] = made("token", "create")["id"]
    found["own_token"] = made("token", "create", "--workspace", name)["id"]
    found["plugin"], found["installed"] = offer(), offer()
    made("plugin", "install", name, found["installed"])
    found["publisher"] = generate_key().public.text
    made("plugin", "trust", found["publisher"])
    found["org"] = made("org", "create", f"o-{uuid4()}")["slug"]
    yield found
    # An organisation has only so many tokens; the command may have revoked this one itself.
    at_house("token", "delete", found["token"], "--json")


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names of the routes that are called from now on."""
    router, names = Router(TABLE), set[str]()
    ask: Callable[..., AbstractContextManager[Any]] = client.Client._asked

    @contextmanager
    def asked(self: client.Client, request: client.Request) -> Generator[Any]:
        match = router.match(request.method, request.path.partition("?")[0])
        names.add("outside the table" if match is None else match.route.name)
        with ask(self, request) as response:
            yield response

    monkeypatch.setattr(client.Client, "_asked", asked)
    return names


def test_the_program_has_exactly_the_commands_that_are_tested_here() -> None:
    assert set(COMMANDS) == set(CALLS) | STARTS_A_SERVER


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_has_json_and_says_what_it_is_for(path: str) -> None:
    command = COMMANDS[path]
    assert "--json" in {option for parameter in command.params for option in parameter.opts}
    assert command.help


@pytest.mark.parametrize("path", CALLS)
def test_with_json_a_command_prints_one_json_value_and_uses_the_routes_it_says(
    path: str, at_house: Molecule, things: dict[str, str], used: set[str]
) -> None:
    for call in CALLS[path]:
        done = at_house(*path.split(), *(part.format(**things) for part in call), "--json")
        if path not in NEEDS_A_PROVISIONER:
            assert (done.code, done.err) == (0, "")
            assert done.json() is not None
    serves = set(getattr(COMMANDS[path].callback, "serves", ()))
    assert used - LOOKS_UP <= serves <= used
