"""Who may call whom: checks, explanations, grants."""

from typing import Any

from msgspec import field

from molecule_platform.domain.authorisation import ANY, org_with
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.workspaces import invalid
from molecule_platform.services.identity.access_grants import (
    AccessGrants,
    GrantEdge,
    grant_row,
)
from molecule_platform.web.pipeline.calls import Call, Handler, Response
from molecule_platform.web.pipeline.route import Route
from molecule_platform.web.pipeline.schemas import Body, NewBody, Query, Schema
from molecule_wire import ids, times


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


class AccessHandlers:
    """Serves /access and /registry/check-access."""

    def __init__(self, access: AccessGrants) -> None:
        self._access = access

    def handlers(self) -> dict[str, Handler]:
        """The handlers by route."""
        return {
            "access.check": self.check,
            "access.explain": self.explain,
            "grant.create": self.grant,
            "grant.list": self.grants,
            "grant.delete": self.revoke,
        }

    async def check(self, call: Call) -> Response:
        """Whether one may call the other."""
        body: CheckAccess = call.body
        return Response(await self._access.check(call.principal, body.caller_id, body.target_id))

    async def explain(self, call: Call) -> Response:
        """Why, or why not, rule by rule."""
        asked: Explain = call.query_params
        return Response(await self._access.explain(call.principal, asked.caller, asked.target))

    async def grant(self, call: Call) -> Response:
        """Let one workspace call another for a while."""
        body: NewGrant = call.body
        for workspace_id in (body.from_, body.to):
            if not ids.is_uuid(workspace_id):
                raise ApiError("invalid-id", f"{workspace_id[:64]} is not a workspace id: it is a UUID")
        try:
            expires_at = times.parse_time(body.expires_at)
        except ValueError as problem:
            raise invalid("expires_at", str(problem)) from problem
        edge = GrantEdge(body.from_.lower(), body.to.lower(), expires_at, body.reason, body.bidirectional)
        return Response(grant_row(await self._access.grant(call.principal, edge)), 201)

    async def grants(self, call: Call) -> Response:
        """The grants that hold."""
        return Response([grant_row(grant) for grant in await self._access.grants(call.principal)])

    async def revoke(self, call: Call) -> Response:
        """End a grant."""
        await self._access.revoke(call.principal, call.path["grant_id"])
        return Response({"status": "revoked"})
