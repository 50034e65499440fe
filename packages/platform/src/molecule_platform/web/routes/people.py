"""The people of an organisation, and the organisations of the platform."""

from collections.abc import Sequence
from typing import Any

from molecule_platform.domain.people import ROLES, Person
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import check_choice
from molecule_platform.ports.people import Org
from molecule_platform.services.identity.members import MemberChange, MemberService
from molecule_platform.services.identity.organisations import OrganisationService
from molecule_platform.web.pipeline.calls import Call, Handler, Response
from molecule_platform.web.routes import people_schemas as shapes
from molecule_wire import times


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
        asked: shapes.ListPeople = call.query_params
        found = await self._people.listing(call.principal, asked.cursor, asked.limit + 1)
        rows = [_user(person, call.principal) for person in found]
        return _page(rows, asked.limit, "name")

    async def change_user(self, call: Call) -> Response:
        """Another role, or the door closed or open."""
        body: shapes.UserChange = call.body
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
        asked: shapes.ListOrgs = call.query_params
        found = await self._orgs.listing(call.principal, asked.cursor, asked.limit + 1)
        return _page([_org(org) for org in found], asked.limit, "slug")

    async def create_org(self, call: Call) -> Response:
        """A new organisation."""
        body: shapes.NewOrg = call.body
        return Response(_org(await self._orgs.create(body.name, body.slug)), 201)

    async def show_org(self, call: Call) -> Response:
        """One organisation."""
        return Response(_org(await self._orgs.show(call.principal, call.path["org"])))

    async def change_org(self, call: Call) -> Response:
        """Another name or slug."""
        body: shapes.OrgChange = call.body
        return Response(_org(await self._orgs.change(call.principal, call.path["org"], body.name, body.slug)))


def _page(rows: Sequence[dict[str, Any]], limit: int, key: str) -> Response:
    """The rows up to the limit; the header says where the next page begins, if there is one."""
    more = (("x-next-cursor", str(rows[limit - 1][key])),) if len(rows) > limit else ()
    return Response(list(rows[:limit]), 200, more)


def _user(person: Person, reader: Principal) -> dict[str, Any]:
    return person.row() | ({"platform_admin": person.platform_admin} if reader.is_admin else {})


def _org(org: Org) -> dict[str, Any]:
    return {"id": org.id, "slug": org.slug, "name": org.name, "created_at": times.format_time(org.created_at)}
