"""Organisations, users, login codes and sessions in SQL."""

from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, bindparam, delete, func, insert, select, update

from molecule_platform.domain import principals
from molecule_platform.domain.credentials import LoginCode, Session, StreamTicket
from molecule_platform.domain.people import Person
from molecule_platform.ports.people import Org
from molecule_platform.storage.prepared import Prepared
from molecule_platform.storage.tables import login_codes, memberships, orgs, sessions, stream_tickets, users

_PERSON = select(
    memberships.c.user.label("name"),
    memberships.c.org_id,
    memberships.c.role,
    memberships.c.created_at,
    memberships.c.disabled,
    memberships.c.last_login_at,
    users.c.platform_admin,
).join(users, users.c.name == memberships.c.user)

# Asked for every request that names its organisation.
_ORG_NAMED = Prepared(
    select(orgs).where((orgs.c.id == bindparam("named")) | (orgs.c.slug == bindparam("named"))),
    tuple(orgs.c),
)


def _fresh_ticket(ticket_hash: str, now: datetime) -> ColumnElement[bool]:
    column = stream_tickets.c
    return (column.ticket_hash == ticket_hash) & column.used_at.is_(None) & (column.expires_at > now)


def _membership(user: str, org_id: str) -> ColumnElement[bool]:
    return (memberships.c.user == user) & (memberships.c.org_id == org_id)


class SqlPeople:
    """See `ports.people.People`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def insert_org(self, org: Org) -> None:
        """Keep a new organisation."""
        self._connection.execute(insert(orgs).values(asdict(org)))

    def update_org(self, org: Org) -> None:
        """Write another name or slug."""
        mine = orgs.c.id == org.id
        self._connection.execute(update(orgs).where(mine).values(name=org.name, slug=org.slug))

    def org(self, org_id: str) -> Org | None:
        """The organisation with that id."""
        return self._org(select(orgs).where(orgs.c.id == org_id))

    def org_named(self, named: str) -> Org | None:
        """The organisation with that id or that slug."""
        row = _ORG_NAMED.first(self._connection, {"named": named})
        return None if row is None else Org(**row)

    def first_org(self) -> Org | None:
        """The organisation that was there first."""
        return self._org(select(orgs).order_by(orgs.c.created_at, orgs.c.id).limit(1))

    def _org(self, wanted: Select[Any]) -> Org | None:
        row = self._connection.execute(wanted).mappings().first()
        return None if row is None else Org(**row)

    def orgs(self, after: str, limit: int) -> list[Org]:
        """Organisations by slug."""
        wanted = select(orgs).where(orgs.c.slug > after).order_by(orgs.c.slug).limit(limit)
        return [Org(**row) for row in self._connection.execute(wanted).mappings()]

    def put_member(self, user: str, org_id: str, role: str, at: datetime) -> Person:
        """Make sure of the membership."""
        if (known := self.member(user, org_id)) is not None:
            return known
        if self._connection.execute(select(users.c.name).where(users.c.name == user)).first() is None:
            is_admin = user == principals.ADMINISTRATOR
            self._connection.execute(insert(users).values(name=user, platform_admin=is_admin, created_at=at))
        row = {"user": user, "org_id": org_id, "role": role, "created_at": at}
        self._connection.execute(insert(memberships).values(row))
        made = self.member(user, org_id)
        assert made is not None
        return made

    def member(self, user: str, org_id: str) -> Person | None:
        """Somebody as a member of that organisation."""
        row = self._connection.execute(_PERSON.where(_membership(user, org_id))).mappings().first()
        return None if row is None else Person(**row)

    def members(self, org_id: str, after: str, limit: int) -> list[Person]:
        """The members of an organisation by name."""
        mine = (memberships.c.org_id == org_id) & (memberships.c.user > after)
        wanted = _PERSON.where(mine).order_by(memberships.c.user).limit(limit)
        return [Person(**row) for row in self._connection.execute(wanted).mappings()]

    def owners(self, org_id: str) -> int:
        """How many owners are not disabled."""
        column = memberships.c
        mine = (column.org_id == org_id) & (column.role == "owner") & ~column.disabled
        wanted = select(func.count()).select_from(memberships).where(mine)
        return self._connection.execute(wanted).scalar_one()

    def update_member(self, person: Person) -> None:
        """Write what a person is in the organisation."""
        values = {
            "role": person.role,
            "disabled": person.disabled,
            "last_login_at": person.last_login_at,
        }
        mine = _membership(person.name, person.org_id)
        self._connection.execute(update(memberships).where(mine).values(values))

    def remove_member(self, user: str, org_id: str) -> None:
        """Forget the membership, and the user with the last one."""
        self._connection.execute(delete(memberships).where(_membership(user, org_id)))
        still = select(memberships.c.user).where(memberships.c.user == user).exists()
        self._connection.execute(delete(users).where((users.c.name == user) & ~still))

    def set_platform_admin(self, user: str, allowed: bool) -> None:
        """Make somebody an administrator of the platform, or no longer."""
        self._connection.execute(update(users).where(users.c.name == user).values(platform_admin=allowed))

    def end_sign_ins(self, user: str, at: datetime, org_id: str | None = None) -> None:
        """End the sessions and void the open codes."""
        living = (sessions.c.user == user) & sessions.c.revoked_at.is_(None)
        unspent = (login_codes.c.user == user) & login_codes.c.used_at.is_(None)
        if org_id is not None:
            living, unspent = (
                living & (sessions.c.org_id == org_id),
                unspent & (login_codes.c.org_id == org_id),
            )
        self._connection.execute(update(sessions).where(living).values(revoked_at=at))
        self._connection.execute(delete(login_codes).where(unspent))

    def insert_code(self, code: LoginCode) -> None:
        """Keep a new one-time code."""
        self._connection.execute(insert(login_codes).values(asdict(code)))

    def use_code(self, code_hash: str, now: datetime) -> LoginCode | None:
        """Spend a code."""
        column = login_codes.c
        fresh = (column.code_hash == code_hash) & column.used_at.is_(None) & (column.expires_at > now)
        spent = (
            self._connection.execute(
                update(login_codes).where(fresh).values(used_at=now).returning(*login_codes.c)
            )
            .mappings()
            .first()
        )
        return None if spent is None else LoginCode(**spent)

    def insert_session(self, session: Session) -> None:
        """Keep a new session."""
        self._connection.execute(insert(sessions).values(asdict(session)))

    def session(self, token_hash: str) -> Session | None:
        """The session with that digest."""
        row = (
            self._connection.execute(select(sessions).where(sessions.c.token_hash == token_hash))
            .mappings()
            .first()
        )
        return None if row is None else Session(**row)

    def seen_session(self, token_hash: str, at: datetime, expires_at: datetime) -> None:
        """Slide a session forward."""
        mine = sessions.c.token_hash == token_hash
        self._connection.execute(update(sessions).where(mine).values(seen_at=at, expires_at=expires_at))

    def revoke_session(self, token_hash: str, at: datetime) -> None:
        """End a session."""
        self._connection.execute(
            update(sessions).where(sessions.c.token_hash == token_hash).values(revoked_at=at)
        )

    def insert_ticket(self, ticket: StreamTicket) -> None:
        """Keep a new ticket, and forget the old ones."""
        over = stream_tickets.c.expires_at <= ticket.created_at
        self._connection.execute(delete(stream_tickets).where(over))
        self._connection.execute(insert(stream_tickets).values(asdict(ticket)))

    def ticket(self, ticket_hash: str, now: datetime) -> StreamTicket | None:
        """A ticket that can be spent."""
        wanted = select(stream_tickets).where(_fresh_ticket(ticket_hash, now))
        row = self._connection.execute(wanted).mappings().first()
        return None if row is None else StreamTicket(**row)

    def use_ticket(self, ticket_hash: str, now: datetime) -> bool:
        """Spend a ticket."""
        spent = update(stream_tickets).where(_fresh_ticket(ticket_hash, now)).values(used_at=now)
        return self._connection.execute(spent).rowcount == 1
