"""Delegations from the command line, against a real platform."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

Molecule = Callable[..., Any]


@pytest.fixture
def pair(at_house: Molecule) -> tuple[str, str]:
    """Two workspaces, side by side."""
    names = f"asks-{uuid4()}", f"works-{uuid4()}"
    for name in names:
        assert at_house("workspace", "create", name).code == 0
    return names


def test_a_delegation_is_made_listed_shown_and_called_off(at_house: Molecule, pair: tuple[str, str]) -> None:
    asks, works = pair
    made = at_house("delegation", "create", asks, works, "write a poem")
    assert (made.code, made.err) == (0, "")
    assert "awaiting_agent" in made.out
    [row] = at_house("delegation", "list", asks, "--json").json()
    listed = at_house("delegation", "list", works, "--role", "target")
    assert "write a poem" in listed.out
    shown = at_house("delegation", "show", row["id"])
    assert "pending" in shown.out
    assert f"delegation cancel {row['id']}" in shown.out
    called_off = at_house("delegation", "cancel", row["id"], "--reason", "no time")
    assert called_off.code == 0
    shown = at_house("delegation", "show", row["id"])
    assert "cancelled" in shown.out
    assert "no time" in shown.out
    again = at_house("delegation", "cancel", row["id"])
    assert (again.code, "ended already" in again.err) == (1, True)


def test_whoever_has_none_is_told_so(at_house: Molecule, pair: tuple[str, str]) -> None:
    told = at_house("delegation", "list", pair[0])
    assert told.out == f"No delegations of {pair[0]}.\n"
