"""Tenants: names that stand first in the paths of the HTTP+JSON binding, so some words are taken."""

from collections.abc import Iterator

from molecule_wire import JSONObject
from molecule_wire.a2a import members
from molecule_wire.a2a.errors import Violation

RESERVED = frozenset({"v1", "tasks", "extendedAgentCard", ".well-known"})


def may_be(name: str) -> bool:
    """Whether a segment of a path can be a tenant."""
    return bool(name) and name not in RESERVED and not {":", "/"} & set(name)


def violations(params: JSONObject) -> Iterator[Violation]:
    """What is wrong with the tenant that a 1.0 request names, if it names one."""
    tenant = params.get("tenant")
    if tenant is None or tenant == "":
        return
    yield from members.named(params, "tenant")
    if isinstance(tenant, str) and not may_be(tenant):
        taken = ", ".join(sorted(RESERVED))
        yield Violation("tenant", f"must not be one of {taken}, and must hold no colon and no slash")
