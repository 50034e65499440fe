"""Who may call whom, asked and changed from the command line, against a real platform."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

Molecule = Callable[..., Any]


@pytest.fixture
def strangers(at_house: Molecule) -> tuple[str, str]:
    """Two workspaces below different roots."""
    names = [f"{kind}-{uuid4()}" for kind in ("left", "right", "ann", "bob")]
    left, right, ann, bob = names
    for arguments in ((left,), (right,), (ann, "--parent", left), (bob, "--parent", right)):
        assert at_house("workspace", "create", *arguments).code == 0
    return ann, bob


def test_a_refusal_is_explained_and_says_what_would_allow_it(
    at_house: Molecule, strangers: tuple[str, str]
) -> None:
    ann, bob = strangers
    told = at_house("access", "explain", ann, bob)
    assert told.code == 0
    assert "denied" in told.out
    assert "different parents" in " ".join(told.out.split())
    assert "molecule grant create" in told.out
    assert at_house("access", "check", ann, bob, "--json").json()["allowed"] is False


def test_a_grant_is_made_listed_and_ended(at_house: Molecule, strangers: tuple[str, str]) -> None:
    ann, bob = strangers
    made = at_house("grant", "create", ann, bob, "--reason", "they work together", "--days", "2", "--json")
    grant = made.json()
    assert at_house("access", "check", ann, bob, "--json").json()["rule"] == "grant"
    assert "they work together" in " ".join(at_house("grant", "list").out.split())
    assert at_house("grant", "delete", grant["id"]).code == 0
    assert at_house("access", "check", ann, bob, "--json").json()["allowed"] is False
    again = at_house("grant", "delete", grant["id"])
    assert (again.code, "no access grant" in again.err) == (1, True)
