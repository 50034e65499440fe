"""Every command has --json, prints one JSON value with it, and uses the routes that it says it uses."""

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, cast
from uuid import uuid4

import pytest
from typer.main import get_command

from molecule_platform.cli import client, main
from molecule_platform.web.pipeline.route_table import TABLE
from molecule_platform.web.pipeline.router import Router
from molecule_plugin.keys import generate_key
from tests.rows import each_row

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
    "runtime list": ((),),
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
    "message tree": (("{message}",), ("{message}", "--limit", "1")),
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
IS_ABOUT = {"dead-letter list": "dead"}  # what its list must hold for all its routes to be used
# Their JSON is tested where they are: they start a server, install packages, read what somebody types.
TESTED_ELSEWHERE = {"up", "runtime install", "chat"}
NEEDS_A_PROVISIONER = {"workspace hibernate", "workspace wake"}  # here every agent runs elsewhere
LOOKS_UP = {"workspace.list", "workspace.show"}  # how every command finds a workspace by its name or id


def leaves(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    children = cast(dict[str, Any], getattr(command, "commands", {}))
    if not children:
        yield path, command
    for name, child in children.items():
        yield from leaves(child, f"{path} {name}".strip())


COMMANDS = dict(leaves(get_command(main.app)))


class Things(dict[str, str]):
    """Something of each kind that a command can be about, made when a command asks for it."""

    def __init__(self, at_house: Molecule, fail: Callable[[str, str], str], offer: Callable[[], str]) -> None:
        super().__init__()
        self._at_house = at_house
        self._fail = fail
        self.plugin = offer

    def __missing__(self, kind: str) -> str:
        self[kind] = made = getattr(self, kind)()
        return made

    def _made(self, *arguments: str) -> dict[str, Any]:
        done = self._at_house(*arguments, "--json")
        assert done.code == 0, done.err
        return done.json()

    def name(self) -> str:
        named = f"w-{uuid4()}"
        self["id"] = self._made("workspace", "create", named)["id"]
        return named

    def id(self) -> str:
        self["name"] = self.name()
        return self["id"]

    def paused(self) -> str:
        named = f"p-{uuid4()}"
        self._made("workspace", "create", named)
        self._made("workspace", "pause", named)
        return named

    def key(self) -> str:
        named = f"K_{uuid4().hex}"
        self._made("secret", "set", named, "--value", "x")
        return named

    def own_key(self) -> str:
        named = f"K_{uuid4().hex}"
        self._made("secret", "set", named, "--value", "x", "--workspace", self["name"])
        return named

    def user(self) -> str:
        named = f"u-{uuid4()}"
        self._made("user", "invite", named)
        return named

    def dead(self) -> str:
        worker = self._made("token", "create", "--workspace", self["name"])["auth_token"]
        self._made("send", self["name"], "in vain", "--no-wait")
        return self._fail(self["id"], worker)

    def message(self) -> str:
        return self._made("send", self["name"], "hello", "--no-wait")["id"]

    def delegation(self) -> str:
        made = self._made("delegation", "create", self["name"], self["paused"], "a task")
        return made["delegation_id"]

    def grant(self) -> str:
        return self._made("grant", "create", self["name"], self["paused"], "--reason", "a test")["id"]

    def token(self) -> str:
        return self._made("token", "create")["id"]

    def own_token(self) -> str:
        return self._made("token", "create", "--workspace", self["name"])["id"]

    def installed(self) -> str:
        self._made("plugin", "install", self["name"], named := self.plugin())
        return named

    def publisher(self) -> str:
        self._made("plugin", "trust", text := generate_key().public.text)
        return text

    def org(self) -> str:
        return self._made("org", "create", f"o-{uuid4()}")["slug"]


@pytest.fixture
def things(
    at_house: Molecule, fail: Callable[[str, str], str], offer: Callable[[], str]
) -> Iterator[dict[str, str]]:
    """Something of each kind that a command can be about."""
    found = Things(at_house, fail, offer)
    yield found
    if "token" in found:
        # An organisation has only so many tokens; the command may have revoked this one itself.
        at_house("token", "delete", found["token"], "--json")


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names of the routes that are called from now on."""
    router, names = Router(TABLE), set[str]()
    ask: Callable[..., AbstractContextManager[Any]] = client.Client._asked

    @contextmanager
    def asked(self: client.Client, request: client.ApiRequest) -> Generator[Any]:
        match = router.match(request.method, request.path.partition("?")[0])
        names.add("outside the table" if match is None else match.route.name)
        with ask(self, request) as response:
            yield response

    monkeypatch.setattr(client.Client, "_asked", asked)
    return names


def test_the_program_has_exactly_the_commands_that_are_tested_here() -> None:
    assert set(COMMANDS) == set(CALLS) | TESTED_ELSEWHERE


@each_row("path", COMMANDS)
def test_every_command_has_json_and_says_what_it_is_for(path: str) -> None:
    command = COMMANDS[path]
    assert "--json" in {option for parameter in command.params for option in parameter.opts}
    assert command.help


@pytest.mark.parametrize("path", CALLS)
def test_with_json_a_command_prints_one_json_value_and_uses_the_routes_it_says(
    path: str, at_house: Molecule, things: dict[str, str], used: set[str]
) -> None:
    if path in IS_ABOUT:
        assert things[IS_ABOUT[path]]
    calls = [[part.format_map(things) for part in call] for call in CALLS[path]]
    used.clear()
    for call in calls:
        done = at_house(*path.split(), *call, "--json")
        if path not in NEEDS_A_PROVISIONER:
            assert (done.code, done.err) == (0, "")
            assert done.json() is not None
    serves = set(getattr(COMMANDS[path].callback, "serves", ()))
    assert used - LOOKS_UP <= serves <= used
