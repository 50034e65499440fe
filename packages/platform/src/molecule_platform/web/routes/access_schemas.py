"""Who may call whom: checks, explanations, grants."""

from typing import Any

from msgspec import field

from molecule_platform.domain.authorisation import ANY, org_with
from molecule_platform.web.pipeline.route import Route
from molecule_platform.web.pipeline.schemas import Body, NewBody, Query, Schema


class CheckAccess(Body):
    """Two workspaces, or a principal and a workspace."""

    caller_id: str
    target_id: str


class Checked(Schema):
    """Whether the call is allowed, by which rule, and why."""

    allowed: bool
    rule: str
    reason: str


class Explain(Query):
    """Ids of workspaces, or principals."""

    caller: str
    target: str


class Party(Schema):
    """One side of a call, with the names from its root down to it."""

    id: str
    name: str
    path: list[str]


class Step(Schema):
    """One rule, and whether it decided."""

    rule: str
    matched: bool
    detail: str


class Explained(Schema):
    """Each rule in order with its verdict, and what would change it."""

    allowed: bool
    rule: str
    reason: str
    caller: Party
    target: Party
    common_ancestor: str | None
    checked: list[Step]
    remedies: list[dict[str, Any]]


class NewGrant(NewBody):
    """A way from one workspace to another, for a while."""

    from_: str = field(name="from")
    to: str
    expires_at: str
    reason: str
    bidirectional: bool = False


class Grant(Schema):
    """A way that the tree alone would not allow."""

    id: str
    from_: str = field(name="from")
    to: str
    bidirectional: bool
    expires_at: str
    reason: str
    created_by: str
    created_at: str


class GrantRevoked(Schema):
    """It has ended."""

    status: str


_WRITE = (org_with("org.write"),)

ROUTES = (
    Route(
        "access.check",
        "POST",
        "/registry/check-access",
        (ANY,),
        "Whether one may call the other.",
        CheckAccess,
        reply=Checked,
    ),
    Route(
        "access.explain",
        "GET",
        "/access/explain",
        (ANY,),
        "Why one may, or may not, call the other.",
        query=Explain,
        reply=Explained,
    ),
    Route(
        "grant.create",
        "POST",
        "/access/grants",
        _WRITE,
        "Let one workspace call another for a while.",
        NewGrant,
        reply=Grant,
        status=(201,),
        refusals=("invalid-id", "workspace-not-found"),
        creates=True,
    ),
    Route("grant.list", "GET", "/access/grants", _WRITE, "The grants that hold.", reply=list[Grant]),
    Route(
        "grant.delete",
        "DELETE",
        "/access/grants/{grant_id}",
        _WRITE,
        "End a grant.",
        reply=GrantRevoked,
        refusals=("not-found",),
    ),
)
