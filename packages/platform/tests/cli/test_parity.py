"""Whatever an operator can do over HTTP, the program can do: its commands against the route table."""

from collections.abc import Iterator
from typing import Any, cast

import pytest
from typer.main import get_command

from molecule_platform.cli import main, workspaces
from molecule_platform.web.pipeline.route import Route
from molecule_platform.web.pipeline.route_table import TABLE
from molecule_platform.web.pipeline.schemas import Body
from molecule_platform.web.routes.workspaces_schemas import ChangeWorkspace, CreateWorkspace
from tests.rows import each_row

# Operators' routes that no command serves, each with the reason.
WITHOUT_COMMAND = {
    "docs": "a page to read in a browser; `openapi` prints what it shows",
    "login.out": "ends the session of a browser; the program has none",
    "ticket.create": "opens streams for browsers, which cannot send a header",
    "event.live": "`event watch` reads the same frames from the event stream",
    "event.stream-one": "`event watch WORKSPACE` reads the same events from the event stream",
    "delegation.stream": "`event watch --type DELEGATION_STATUS` reads the same events from the event stream",
    "delegation.show-evidence": "agents hand in what they made; `delegation show` lists it",
    "card.original": "`workspace show` prints the same card",
    "card.extended": "`agent card` prints the same card",
    "card.extended-0.3": "`agent card` prints the same card",
    "agent.rpc": "for clients of the standard; `task` uses the same operations over HTTP+JSON",
}
# Fields of a workspace that no option gives: the canvas sets some, others are not served yet, and a secret on
# the command line would stay in the history of the shell.
NO_OPTION = {"x", "y", "collapsed", "canvas", "template", "initial_memories", "secrets"}
OWN_OPTIONS: dict[type[Body], set[str]] = {
    CreateWorkspace: {"name", "parent_id", "model", "url", "budget_limit", "external", "claimable"},
    ChangeWorkspace: {"name", "parent_id", "isolated"},
}


def leaves(command: Any) -> Iterator[Any]:
    children = cast(dict[str, Any], getattr(command, "commands", {}))
    if not children:
        yield command
    for child in children.values():
        yield from leaves(child)


COMMANDS = tuple(leaves(get_command(main.app)))
SERVED = {name for command in COMMANDS for name in getattr(command.callback, "serves", ())}
KNOWN = {route.name for route in TABLE}


def for_operators(route: Route) -> bool:
    return any(who.kind in ("org", "any") for who in route.who)


@each_row("name", sorted({route.name for route in TABLE if for_operators(route)}))
def test_a_route_for_operators_has_a_command_or_a_reason_why_not(name: str) -> None:
    assert (name in SERVED) != (name in WITHOUT_COMMAND)


def test_no_command_and_no_exception_names_a_route_that_does_not_exist() -> None:
    assert set(WITHOUT_COMMAND) | SERVED <= KNOWN


@pytest.mark.parametrize("shape", OWN_OPTIONS)
def test_every_field_of_a_workspace_has_an_option_or_a_reason_why_not(shape: type[Body]) -> None:
    shared = {name for name, _annotation, _default in workspaces.FIELDS}
    # A budget is changed by a route of its own.
    without = NO_OPTION | ({"budget_limit"} if shape is ChangeWorkspace else set[str]())
    assert set(shape.__struct_fields__) - without == OWN_OPTIONS[shape] | shared
