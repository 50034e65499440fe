"""People and organisations: signing in, sessions, users."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from molecule_platform.domain.authorisation import ANY, PUBLIC, org_with
from molecule_platform.web.pipeline.rate_limits import RateLimit
from molecule_platform.web.pipeline.route import Route
from molecule_platform.web.pipeline.schemas import EmptyBody, NewBody, Query, Schema


class SignIn(NewBody):
    """A one-time code, or a token to exchange."""

    code: str | None = None
    token: str | None = None


class NewLoginCode(NewBody):
    """Whom to let in, and for how long the link lives."""

    user: str
    role: str = "member"
    org_id: str | None = None
    ttl_seconds: int = 900


class LoginLink(Query):
    """The one-time code of a login link; opening it spends nothing."""

    code: str = ""


class SignedIn(Schema):
    """Who signed in."""

    user: str
    role: str
    org_id: str
    csrf_token: str


class LoginCode(Schema):
    """A link that signs somebody in once."""

    code: str
    url: str
    expires_at: str


class Session(Schema):
    """Who a credential is."""

    principal: str
    user: str
    role: str
    org_id: str
    org_name: str
    scopes: list[str]
    expires_at: str | None
    csrf_token: str | UnsetType = UNSET


class ListPeople(Query):
    """Which page of the people."""

    limit: Annotated[int, Meta(ge=1, le=500)] = 500
    cursor: str = ""


class ListOrgs(Query):
    """Which page of the organisations."""

    limit: Annotated[int, Meta(ge=1, le=500)] = 500
    cursor: str = ""


class UserChange(NewBody):
    """What shall be different; what is left out stays."""

    role: str | None = None
    disabled: bool | None = None
    platform_admin: bool | None = None


class User(Schema):
    """Somebody in the organisation; administrators also see who administers the platform."""

    name: str
    role: str
    disabled: bool
    created_at: str
    last_login_at: str | None
    platform_admin: bool | UnsetType = UNSET


class NewOrg(NewBody):
    """A new organisation; its slug comes from the name when none is given."""

    name: str
    slug: str | None = None


class OrgChange(NewBody):
    """What shall be different; what is left out stays."""

    name: str | None = None
    slug: str | None = None


class Org(Schema):
    """An organisation."""

    id: str
    slug: str
    name: str
    created_at: str


_PEOPLE = (org_with("org.tokens"),)
_OPERATOR = (org_with("admin"),)
_INSIDE = (org_with("org.read"),)

ROUTES = (
    Route(
        "login.page",
        "GET",
        "/auth/login",
        (PUBLIC,),
        "The page that a login link opens.",
        query=LoginLink,
        reply=str,
        media="text/html",
    ),
    Route(
        "login",
        "POST",
        "/auth/login",
        (PUBLIC,),
        "Exchange a one-time code or a token for a session.",
        SignIn,
        reply=SignedIn,
        refusals=(
            "invalid-token",
            "token-revoked",
            "token-expired",
            "forbidden",
            "csrf",
            "unsupported-media-type",
        ),
        rate=RateLimit(10, 60, 10),
    ),
    Route(
        "login.code",
        "POST",
        "/auth/login-codes",
        (org_with("org.tokens"),),
        "Make a one-time login link for a user.",
        NewLoginCode,
        reply=LoginCode,
        status=(201,),
        refusals=("not-found", "conflict"),
        creates=True,
    ),
    Route("login.session", "GET", "/auth/session", (ANY,), "Who this credential is.", reply=Session),
    Route("login.out", "POST", "/auth/logout", (ANY,), "End the session.", EmptyBody, status=(204,)),
    Route(
        "user.list",
        "GET",
        "/users",
        _PEOPLE,
        "The people of the organisation.",
        query=ListPeople,
        reply=list[User],
    ),
    Route(
        "user.change",
        "PATCH",
        "/users/{name}",
        _PEOPLE,
        "Give somebody another role, or close or open the door.",
        UserChange,
        reply=User,
        refusals=("not-found", "conflict"),
    ),
    Route(
        "user.delete",
        "DELETE",
        "/users/{name}",
        _PEOPLE,
        "Take somebody out of the organisation.",
        status=(204,),
        refusals=("not-found", "conflict"),
    ),
    Route(
        "org.list",
        "GET",
        "/orgs",
        _INSIDE,
        "The organisations: the administrator sees all, anyone else their own.",
        query=ListOrgs,
        reply=list[Org],
    ),
    Route(
        "org.create",
        "POST",
        "/orgs",
        _OPERATOR,
        "A new organisation.",
        NewOrg,
        reply=Org,
        status=(201,),
        refusals=("already-exists",),
        creates=True,
    ),
    Route(
        "org.show",
        "GET",
        "/orgs/{org}",
        _INSIDE,
        "One organisation, by its id or slug.",
        reply=Org,
        refusals=("not-found",),
    ),
    Route(
        "org.change",
        "PATCH",
        "/orgs/{org}",
        _OPERATOR,
        "Give an organisation another name or slug.",
        OrgChange,
        reply=Org,
        refusals=("not-found", "already-exists"),
    ),
)
