"""Tokens from the command line, against a real platform."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

Molecule = Callable[..., Any]


def test_a_token_is_shown_once_then_listed_by_its_beginning_and_ended(at_house: Molecule) -> None:
    name = f"w-{uuid4()}"
    assert at_house("workspace", "create", name).code == 0
    made = at_house(
        "token", "create", "--workspace", name, "--name", "ci", "--scope", "ws.runtime", "--days", "3"
    )
    secret = made.out.split()[0]
    assert len(secret) == 43
    listed = at_house("token", "list", "--workspace", name)
    assert secret[:8] in listed.out
    assert secret not in listed.out
    rows = at_house("token", "list", "--workspace", name, "--json").json()["tokens"]
    token_id = next(row["id"] for row in rows if row["name"] == "ci")
    assert at_house("token", "delete", token_id, "--workspace", name).code == 0
    again = at_house("token", "delete", token_id, "--workspace", name)
    assert (again.code, "no token" in again.err) == (1, True)


def test_a_scope_that_does_not_exist_is_named(at_house: Molecule) -> None:
    refused = at_house("token", "create", "--scope", "no.such")
    assert refused.code == 1
    assert "no.such" in refused.err
