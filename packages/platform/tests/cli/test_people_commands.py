"""People and organisations from the command line, against a real platform."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

Molecule = Callable[..., Any]


def test_somebody_is_invited_promoted_locked_out_and_removed(at_house: Molecule) -> None:
    name = f"u-{uuid4()}"
    invited = at_house("user", "invite", name, "--role", "viewer")
    assert "/auth/login?code=" in invited.out
    assert name in at_house("user", "list").out
    assert at_house("user", "set", name, "--role", "admin", "--json").json()["role"] == "admin"
    assert "cannot sign in" in at_house("user", "set", name, "--disable").out
    assert at_house("user", "set", name, "--enable", "--json").json()["disabled"] is False
    assert at_house("user", "set", name, "--platform-admin", "--json").json()["platform_admin"] is True
    assert at_house("user", "delete", name).code == 0
    assert name not in at_house("user", "list").out
    again = at_house("user", "delete", name)
    assert (again.code, "no user" in again.err) == (1, True)


def test_nothing_to_change_and_a_role_that_does_not_exist_are_named(at_house: Molecule) -> None:
    assert "--role" in at_house("user", "set", "admin").err
    assert "--slug" in at_house("org", "rename", "default").err
    refused = at_house("user", "invite", "ann", "--role", "king")
    assert "viewer, member, admin, owner" in refused.err


def test_the_last_owner_is_kept_with_the_reason(at_house: Molecule) -> None:
    refused = at_house("user", "delete", "admin")
    assert (refused.code, "last owner" in refused.err) == (1, True)


def test_a_command_acts_in_the_organisation_that_is_named(at_house: Molecule) -> None:
    slug, name = f"o-{uuid4().hex[:8]}", f"w-{uuid4()}"
    made = at_house("org", "create", "Acme", "--slug", slug)
    assert f"--org {slug}" in made.out
    assert at_house("workspace", "create", name, "--org", slug).code == 0
    assert name in at_house("workspace", "list", "--org", slug).out
    assert name not in at_house("workspace", "list").out
    unknown = at_house("workspace", "list", "--org", "nowhere")
    assert (unknown.code, "no such organisation" in unknown.err) == (1, True)
    assert "--org must be" in at_house("workspace", "list", "--org", "No Where").err


def test_an_organisation_is_listed_shown_and_renamed(at_house: Molecule) -> None:
    slug = f"o-{uuid4().hex[:8]}"
    org = at_house("org", "create", "Acme", "--slug", slug, "--json").json()
    assert slug in at_house("org", "list").out
    assert org["id"] in at_house("org", "show", slug).out
    assert "Apex" in at_house("org", "rename", slug, "--name", "Apex").out
    assert at_house("org", "show", org["id"], "--json").json() == org | {"name": "Apex"}
