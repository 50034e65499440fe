"""The table of roles denies by default."""

from types import SimpleNamespace

import pytest

from molecule_runtime.domain.permissions import NO_PERMISSIONS, RolePermissions, permissions_of

ACTIONS = ("delegate", "approve", "memory.read", "memory.write")


@pytest.mark.parametrize(
    ("role", "granted"),
    [
        ("admin", ACTIONS),
        ("operator", ACTIONS),
        ("read-only", ("memory.read",)),
        ("memory-readonly", ("memory.read",)),
        ("no-delegation", ("approve", "memory.read", "memory.write")),
        ("no-approval", ("delegate", "memory.read", "memory.write")),
        ("stranger", ()),
    ],
)
def test_a_role_grants_its_row_of_the_table(role: str, granted: tuple[str, ...]) -> None:
    assert tuple(action for action in ACTIONS if RolePermissions((role,)).allows(action)) == granted


def test_roles_add_up() -> None:
    both = RolePermissions(("no-delegation", "no-approval"))
    assert all(both.allows(action) for action in ACTIONS)


def test_a_role_with_a_list_of_its_own_has_only_that_list() -> None:
    narrowed = RolePermissions(("operator",), {"operator": frozenset({"approve"})})
    assert [action for action in ACTIONS if narrowed.allows(action)] == ["approve"]


def test_an_admin_is_allowed_everything_whatever_is_listed() -> None:
    assert RolePermissions(("admin",), {"admin": frozenset()}).allows("anything")


def test_a_configuration_gives_its_roles() -> None:
    rbac = SimpleNamespace(roles=["custom"], allowed_actions={"custom": ["delegate"]})
    permissions = permissions_of(SimpleNamespace(rbac=rbac))
    assert permissions.allows("delegate")
    assert not permissions.allows("approve")


@pytest.mark.parametrize(
    "config",
    [
        None,
        SimpleNamespace(),
        SimpleNamespace(rbac=None),
        SimpleNamespace(rbac=SimpleNamespace(roles="admin", allowed_actions={})),
        SimpleNamespace(rbac=SimpleNamespace(roles=["admin", 3], allowed_actions={})),
        SimpleNamespace(rbac=SimpleNamespace(roles=["admin"], allowed_actions=["x"])),
        SimpleNamespace(rbac=SimpleNamespace(roles=["admin"], allowed_actions={"x": "delegate"})),
    ],
)
def test_a_configuration_that_cannot_be_understood_allows_nothing(config: object) -> None:
    assert permissions_of(config) == NO_PERMISSIONS


def test_a_refusal_names_the_action_and_the_roles() -> None:
    assert RolePermissions(("a", "b")).refusal("delegate") == "RBAC: no 'delegate' permission. Roles: a, b"
