"""Tokens of workspaces and organisations."""

from datetime import datetime, timedelta
from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from molecule_platform.domain.authorisation import org_with, self_with
from molecule_platform.domain.workspaces import invalid
from molecule_platform.ports.clock import Clock
from molecule_platform.services.identity.authorizer import Authorizer
from molecule_platform.services.identity.tokens import (
    IssuedToken,
    NewTokenRequest,
    TokenService,
    token_row,
)
from molecule_platform.web.pipeline.calls import Call, Handler, Response
from molecule_platform.web.pipeline.rate_limits import RateLimit
from molecule_platform.web.pipeline.route import Route
from molecule_platform.web.pipeline.schemas import Body, NewBody, Query, Schema
from molecule_platform.web.routes.workspaces_schemas import NewEnrolment
from molecule_wire import times


class NewToken(Body):
    """What a token is for, and until when."""

    name: str | None = None
    scopes: list[str] | None = None
    ttl_seconds: int | None = None
    expires_at: str | None = None


class NewOrgToken(NewToken):
    """The same, and for the administrator in which organisation."""

    org_id: str | None = None


class RotateToken(NewBody):
    """How long the old token still works."""

    overlap_seconds: int = 300


class ListTokens(Query):
    """Which part of the list."""

    limit: Annotated[int, Meta(ge=1, le=200)] = 200
    offset: Annotated[int, Meta(ge=0, le=1_000_000)] = 0


class TokenRow(Schema):
    """A living token; never the token itself."""

    id: str
    prefix: str
    name: str
    scopes: list[str]
    created_at: str
    last_used_at: str | None
    expires_at: str | None
    created_by: str
    org_id: str | UnsetType = UNSET


class TokenList(Schema):
    """Living tokens, and how many there are."""

    tokens: list[TokenRow]
    count: int


class Minted(Schema):
    """A new token, shown this once."""

    auth_token: str
    workspace_id: str
    id: str
    prefix: str
    scopes: list[str]
    expires_at: str | None
    message: str


class OrgMinted(Schema):
    """A new token of the organisation, shown this once."""

    id: str
    prefix: str
    name: str
    auth_token: str
    scopes: list[str]
    expires_at: str | None
    warning: str


class TokenRevoked(Schema):
    """It has ended."""

    status: str


class OrgTokenRevoked(Schema):
    """The id of the token that has ended."""

    revoked: str


_TOKENS = (self_with("ws.manage"), org_with("org.tokens"))
_ORG_TOKENS = (org_with("org.tokens"),)

ROUTES = (
    Route(
        "token.list",
        "GET",
        "/workspaces/{id}/tokens",
        _TOKENS,
        "The living tokens of a workspace.",
        query=ListTokens,
        reply=TokenList,
    ),
    Route(
        "token.create",
        "POST",
        "/workspaces/{id}/tokens",
        _TOKENS,
        "A further token of a workspace, with no scope that the minter could not use (org.impersonate).",
        NewToken,
        reply=Minted,
        status=(201,),
        refusals=("token-limit",),
        creates=True,
    ),
    Route(
        "token.create",
        "POST",
        "/admin/workspaces/{id}/tokens",
        (org_with("admin"),),
        "The same, for the platform's administrator.",
        NewToken,
        reply=Minted,
        status=(201,),
        refusals=("token-limit",),
        creates=True,
    ),
    Route(
        "token.rotate",
        "POST",
        "/workspaces/{id}/tokens/rotate",
        (self_with(""),),
        "A new token for the one presented, which ends after an overlap.",
        RotateToken,
        reply=Minted,
        status=(201,),
        refusals=("token-limit",),
        creates=True,
    ),
    Route(
        "token.delete",
        "DELETE",
        "/workspaces/{id}/tokens/{token_id}",
        _TOKENS,
        "End a token at once.",
        reply=TokenRevoked,
        refusals=("not-found",),
    ),
    Route(
        "org-token.list",
        "GET",
        "/org/tokens",
        _ORG_TOKENS,
        "The living tokens of the organisation.",
        reply=TokenList,
    ),
    Route(
        "org-token.create",
        "POST",
        "/org/tokens",
        _ORG_TOKENS,
        "A token of the organisation.",
        NewOrgToken,
        reply=OrgMinted,
        refusals=("token-limit", "not-found"),
        creates=True,
        rate=RateLimit(10, 3600, 10),
    ),
    Route(
        "org-token.delete",
        "DELETE",
        "/org/tokens/{token_id}",
        _ORG_TOKENS,
        "End a token at once.",
        reply=OrgTokenRevoked,
        refusals=("not-found",),
    ),
)


MAX_OVERLAP_SECONDS = 3600
MAX_ENROLMENT_SECONDS = 86_400
_SHOWN_ONCE = "keep this token now: it is shown once"


class TokenHandlers:
    """Serves /workspaces/{id}/tokens and /org/tokens."""

    def __init__(self, tokens: TokenService, authority: Authorizer, clock: Clock) -> None:
        self._tokens = tokens
        self._authority = authority
        self._clock = clock

    def handlers(self) -> dict[str, Handler]:
        """The handlers by route."""
        return {
            "token.list": self.listing,
            "token.create": self.create,
            "token.rotate": self.rotate,
            "token.delete": self.delete,
            "workspace.enrol": self.enrol,
            "org-token.list": self.org_listing,
            "org-token.create": self.org_create,
            "org-token.delete": self.org_delete,
        }

    async def listing(self, call: Call) -> Response:
        """The living tokens of a workspace."""
        rows = [token_row(token) for token in await self._tokens.of_workspace(call.workspace)]
        asked: ListTokens = call.query_params
        return Response({"tokens": rows[asked.offset : asked.offset + asked.limit], "count": len(rows)})

    async def create(self, call: Call) -> Response:
        """A further token of a workspace."""
        wish = self._wish(call.body)
        minted = await self._tokens.mint_for_workspace(call.principal, call.workspace, wish)
        return Response(_minted(minted), 201)

    async def rotate(self, call: Call) -> Response:
        """A new token for the one presented."""
        body: RotateToken = call.body
        if not 0 <= body.overlap_seconds <= MAX_OVERLAP_SECONDS:
            raise invalid("overlap_seconds", f"overlap_seconds is between 0 and {MAX_OVERLAP_SECONDS}")
        overlap = timedelta(seconds=body.overlap_seconds)
        return Response(_minted(await self._tokens.rotate(call.principal, call.workspace, overlap)), 201)

    async def delete(self, call: Call) -> Response:
        """End a token of a workspace."""
        await self._tokens.revoke(call.principal, call.workspace, call.path["token_id"])
        return Response({"status": "revoked"})

    async def enrol(self, call: Call) -> Response:
        """A single-use token for a replaced machine."""
        body: NewEnrolment = call.body
        if not 1 <= body.ttl_seconds <= MAX_ENROLMENT_SECONDS:
            raise invalid("ttl_seconds", f"ttl_seconds is between 1 and {MAX_ENROLMENT_SECONDS}")
        lifecycle_services = timedelta(seconds=body.ttl_seconds)
        secret, issued = await self._tokens.new_enrolment(call.principal, call.workspace, lifecycle_services)
        expires_at = times.format_time(issued.expires_at)
        return Response({"enrolment_token": secret, "scopes": issued.scopes, "expires_at": expires_at}, 201)

    async def org_listing(self, call: Call) -> Response:
        """The living tokens of the organisation."""
        rows = [token_row(token) for token in await self._tokens.of_org(call.principal)]
        return Response({"tokens": rows, "count": len(rows)})

    async def org_create(self, call: Call) -> Response:
        """A token of the organisation."""
        body: NewOrgToken = call.body
        minter = call.principal
        if body.org_id is not None:
            minter = await self._authority.check_org(minter, body.org_id)
        minted = await self._tokens.mint_for_org(minter, self._wish(body))
        row = {
            name: token_row(minted.token)[name] for name in ("id", "prefix", "name", "scopes", "expires_at")
        }
        return Response(row | {"auth_token": minted.secret, "warning": _SHOWN_ONCE})

    async def org_delete(self, call: Call) -> Response:
        """End a token of the organisation."""
        await self._tokens.revoke(call.principal, None, call.path["token_id"])
        return Response({"revoked": call.path["token_id"]})

    def _wish(self, body: NewToken) -> NewTokenRequest:
        return NewTokenRequest(body.name or "", tuple(body.scopes or ()), self._expiry(body))

    def _expiry(self, body: NewToken) -> datetime | None:
        if body.ttl_seconds is not None and body.expires_at is not None:
            raise invalid("expires_at", "give ttl_seconds or expires_at, not both")
        if body.ttl_seconds is not None:
            if not 1 <= body.ttl_seconds <= 10 * 365 * 86_400:
                raise invalid("ttl_seconds", "ttl_seconds is between 1 and ten years")
            return self._clock.now() + timedelta(seconds=body.ttl_seconds)
        if body.expires_at is None:
            return None
        try:
            return times.parse_time(body.expires_at)
        except ValueError as problem:
            raise invalid("expires_at", str(problem)) from problem


def _minted(minted: IssuedToken) -> dict[str, Any]:
    row = token_row(minted.token)
    return {
        "auth_token": minted.secret,
        "workspace_id": minted.token.workspace_id,
        "id": row["id"],
        "prefix": row["prefix"],
        "scopes": row["scopes"],
        "expires_at": row["expires_at"],
        "message": _SHOWN_ONCE,
    }
