"""Plugins from the command line, against a real platform."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from molecule_plugin.keys import generate_key

Molecule = Callable[..., Any]


@pytest.fixture
def workspace(at_house: Molecule) -> str:
    name = f"w-{uuid4()}"
    assert at_house("workspace", "create", name).code == 0
    return name


def test_a_plugin_is_offered_installed_listed_and_taken_away(
    at_house: Molecule, workspace: str, offer: Callable[[], str]
) -> None:
    plugin = offer()
    assert plugin in {row["name"] for row in at_house("plugin", "list", "--json").json()}
    assert plugin in {row["name"] for row in at_house("plugin", "available", workspace, "--json").json()}
    done = at_house("plugin", "install", workspace, plugin)
    assert (done.code, "is recorded" in " ".join(done.out.split())) == (0, True)
    assert plugin in at_house("plugin", "list", "--workspace", workspace).out
    assert at_house("plugin", "check", workspace, "llm", "--json").json()["all_compatible"]
    assert at_house("plugin", "uninstall", workspace, plugin).code == 0
    again = at_house("plugin", "uninstall", workspace, plugin)
    assert (again.code, "has no plugin" in again.err) == (1, True)


def test_what_is_refused_says_why_and_what_to_do(at_house: Molecule, workspace: str) -> None:
    none = at_house("plugin", "install", workspace, "no-such-plugin")
    assert (none.code, "has no plugin no-such-plugin" in none.err) == (1, True)
    scheme = at_house("plugin", "install", workspace, "ftp://x")
    assert (scheme.code, "github, local" in scheme.err) == (1, True)
    assert at_house("plugin", "allow").code == 2
    assert at_house("plugin", "allow", "x", "--all").code == 2
    assert at_house("plugin", "revoke", "--reason", "x").code == 2


def test_a_key_is_trusted_changed_and_distrusted(at_house: Molecule) -> None:
    key = generate_key().public.text
    assert at_house("plugin", "trust", key, "--name", "us").code == 0
    assert at_house("plugin", "trust", key, "--name", "us", "--for", "ours-*").code == 0
    found = [one for one in at_house("plugin", "keys", "--json").json()["keys"] if one["key"] == key]
    assert found == [{"key": key, "name": "us", "allow": ["ours-*"]}]
    assert at_house("plugin", "distrust", key).code == 0
    assert at_house("plugin", "distrust", key).code == 1


def test_a_revoked_plugin_cannot_be_installed(
    at_house: Molecule, workspace: str, offer: Callable[[], str]
) -> None:
    plugin = offer()
    assert at_house("plugin", "revoke", "--plugin", f"{plugin}@1.0.0", "--reason", "it steals").code == 0
    refused = at_house("plugin", "install", workspace, plugin)
    assert (refused.code, "it steals" in refused.err) == (1, True)
    assert plugin in at_house("plugin", "revocations", "--json").out
