"""Organisations: made and named by the administrator, seen from inside by their own people."""

from dataclasses import replace

from molecule_platform.domain import people
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.principals import Principal
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.people import Org
from molecule_platform.ports.storage import Storage, Transaction
from molecule_wire import ids


class OrganisationService:
    """Keeps the organisations of the platform."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock

    async def create(self, name: str, slug: str | None) -> Org:
        """A new organisation, still without members; its slug comes from the name when none is given."""
        people.check_org_name(name)
        slug = people.slug_of(name) if slug is None else people.check_slug(slug)
        org = Org(ids.uuid7(), slug, name, self._clock.now())

        def work(tx: Transaction) -> None:
            _check_free(tx, org)
            tx.people.insert_org(org)

        await self._storage.write(work)
        return org

    async def change(self, by: Principal, named: str, name: str | None, slug: str | None) -> Org:
        """Give an organisation another name or slug; its id stays."""

        def work(tx: Transaction) -> Org:
            before = org_named(tx, by, named)
            after = replace(
                before,
                name=before.name if name is None else people.check_org_name(name),
                slug=before.slug if slug is None else people.check_slug(slug),
            )
            _check_free(tx, after)
            tx.people.update_org(after)
            return after

        return await self._storage.write(work)

    async def show(self, by: Principal, named: str) -> Org:
        """One organisation, by its id or slug."""
        return await self._storage.read(lambda tx: org_named(tx, by, named))

    async def listing(self, by: Principal, after: str, limit: int) -> list[Org]:
        """Organisations by slug: all for the administrator, for anyone else their own."""
        if by.is_admin:
            return await self._storage.read(lambda tx: tx.people.orgs(after, limit))
        own = await self.show(by, by.org_id)
        return [own] if own.slug > after else []


def org_named(tx: Transaction, by: Principal, named: str) -> Org:
    """The organisation with that id or slug, if the principal may know that it exists."""
    org = tx.people.org_named(named)
    if org is None or not (org.id == by.org_id or by.is_admin):
        raise ApiError("not-found", "there is no such organisation")
    return org


def _check_free(tx: Transaction, org: Org) -> None:
    holder = tx.people.org_named(org.slug)
    if holder is not None and holder.id != org.id:
        raise ApiError("already-exists", f"there is an organisation {org.slug} already: choose another slug")
