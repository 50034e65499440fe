"""The people of an organisation, and the organisations of the platform."""

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from molecule_platform.domain.authorisation import ANY, PUBLIC, org_with
from molecule_platform.domain.people import ROLES, Person
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import check_choice
from molecule_platform.ports.people import Org as OrgRecord
from molecule_platform.services.identity.members import MemberChange, MemberService
from molecule_platform.services.identity.organisations import OrganisationService
from molecule_platform.web.pipeline.calls import Call, Handler, Response
from molecule_platform.web.pipeline.rate_limits import RateLimit
from molecule_platform.web.pipeline.route import Route
from molecule_platform.web.pipeline.schemas import EmptyBody, NewBody, Query, Schema
from molecule_wire import times


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


class PeopleHandlers:
    """Serves /users and /orgs."""

    def __init__(self, people: MemberService, orgs: OrganisationService) -> None:
        self._people = people
        self._orgs = orgs

    def handlers(self) -> dict[str, Handler]:
        """The handlers by route."""
        return {
            "user.list": self.users,
            "user.change": self.change_user,
            "user.delete": self.delete_user,
            "org.list": self.orgs,
            "org.create": self.create_org,
            "org.show": self.show_org,
            "org.change": self.change_org,
        }

    async def users(self, call: Call) -> Response:
        """The people of the organisation, a page at a time."""
        asked: ListPeople = call.query_params
        found = await self._people.listing(call.principal, asked.cursor, asked.limit + 1)
        rows = [_user(person, call.principal) for person in found]
        return _page(rows, asked.limit, "name")

    async def change_user(self, call: Call) -> Response:
        """Another role, or the door closed or open."""
        body: UserChange = call.body
        if body.role is not None:
            check_choice("role", body.role, ROLES)
        change = MemberChange(body.role, body.disabled, body.platform_admin)
        person = await self._people.change(call.principal, call.path["name"], change, call.request_id)
        return Response(_user(person, call.principal))

    async def delete_user(self, call: Call) -> Response:
        """Out of the organisation."""
        await self._people.remove(call.principal, call.path["name"], call.request_id)
        return Response(None, 204)

    async def orgs(self, call: Call) -> Response:
        """The organisations that the caller may know of, a page at a time."""
        asked: ListOrgs = call.query_params
        found = await self._orgs.listing(call.principal, asked.cursor, asked.limit + 1)
        return _page([_org(org) for org in found], asked.limit, "slug")

    async def create_org(self, call: Call) -> Response:
        """A new organisation."""
        body: NewOrg = call.body
        return Response(_org(await self._orgs.create(body.name, body.slug)), 201)

    async def show_org(self, call: Call) -> Response:
        """One organisation."""
        return Response(_org(await self._orgs.show(call.principal, call.path["org"])))

    async def change_org(self, call: Call) -> Response:
        """Another name or slug."""
        body: OrgChange = call.body
        return Response(_org(await self._orgs.change(call.principal, call.path["org"], body.name, body.slug)))


def _page(rows: Sequence[dict[str, Any]], limit: int, key: str) -> Response:
    """The rows up to the limit; the header says where the next page begins, if there is one."""
    more = (("x-next-cursor", str(rows[limit - 1][key])),) if len(rows) > limit else ()
    return Response(list(rows[:limit]), 200, more)


def _user(person: Person, reader: Principal) -> dict[str, Any]:
    return person.row() | ({"platform_admin": person.platform_admin} if reader.is_admin else {})


def _org(org: OrgRecord) -> dict[str, Any]:
    return {"id": org.id, "slug": org.slug, "name": org.name, "created_at": times.format_time(org.created_at)}
