"""Role-based access control of an agent's own tools: one table for tools, MCP and executors.

It denies by default: an unknown role grants nothing, and without a readable configuration nothing is allowed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import cast

ADMIN = "admin"
DELEGATE, APPROVE, MEMORY_READ, MEMORY_WRITE = "delegate", "approve", "memory.read", "memory.write"

ROLE_ACTIONS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        ADMIN: frozenset({DELEGATE, APPROVE, MEMORY_READ, MEMORY_WRITE}),
        "operator": frozenset({DELEGATE, APPROVE, MEMORY_READ, MEMORY_WRITE}),
        "read-only": frozenset({MEMORY_READ}),
        "memory-readonly": frozenset({MEMORY_READ}),
        "no-delegation": frozenset({APPROVE, MEMORY_READ, MEMORY_WRITE}),
        "no-approval": frozenset({DELEGATE, MEMORY_READ, MEMORY_WRITE}),
    }
)


@dataclass(frozen=True)
class RolePermissions:
    """What the roles of a workspace allow. A role that `allowed_actions` names has only the actions there."""

    roles: tuple[str, ...] = ()
    allowed_actions: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])

    def allows(self, action: str) -> bool:
        """Whether some role grants the action; `admin` has every one."""
        if ADMIN in self.roles:
            return True
        nothing: frozenset[str] = frozenset()
        granted = (self.allowed_actions.get(role, ROLE_ACTIONS.get(role, nothing)) for role in self.roles)
        return any(action in actions for actions in granted)

    def refusal(self, action: str) -> str:
        """The sentence for a caller that lacks a permission."""
        return f"RBAC: no '{action}' permission. Roles: {', '.join(self.roles) or 'none'}"


NO_PERMISSIONS = RolePermissions()


def permissions_of(workspace_config: object) -> RolePermissions:
    """The permissions that the `rbac` block of a configuration gives.

    A configuration without a block that can be understood gives none. The caller logs that.
    """
    rbac = getattr(workspace_config, "rbac", None)
    roles = _texts(getattr(rbac, "roles", None))
    allowed: object = getattr(rbac, "allowed_actions", None)
    if roles is None or not isinstance(allowed, Mapping | None):
        return NO_PERMISSIONS
    role_actions: dict[str, frozenset[str]] = {}
    for role, actions in cast("Mapping[object, object]", allowed or {}).items():
        listed = _texts(actions)
        if not isinstance(role, str) or listed is None:
            return NO_PERMISSIONS
        role_actions[role] = frozenset(listed)
    return RolePermissions(tuple(roles), role_actions)


def _texts(value: object) -> list[str] | None:
    """The texts of a list; `None` when it is no list of texts."""
    if not isinstance(value, list | tuple | set | frozenset):
        return None
    listed = list(cast("Iterable[object]", value))
    texts = [item for item in listed if isinstance(item, str)]
    return texts if len(texts) == len(listed) else None
