"""Tokens of workspaces and organisations."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from molecule_platform.domain.authorisation import org_with, self_with
from molecule_platform.web.pipeline.rate_limits import RateLimit
from molecule_platform.web.pipeline.route import Route
from molecule_platform.web.pipeline.schemas import Body, NewBody, Query, Schema


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
