"""Organisations, users, login codes and sessions in SQL."""

from dataclasses import asdict
from datetime import datetime

from sqlalchemy import Connection, insert, select, update

from molecule_platform.domain.credentials import LoginCode, Session
from molecule_platform.ports.people import Org
from molecule_platform.storage.tables import login_codes, memberships, orgs, sessions, users


class SqlPeople:
    """See `ports.people.People`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def insert_org(self, org: Org) -> None:
        """Keep a new organisation."""
        self._connection.execute(insert(orgs).values(asdict(org)))

    def org_by_slug(self, slug: str) -> Org | None:
        """The organisation of that name."""
        row = self._connection.execute(select(orgs).where(orgs.c.slug == slug)).mappings().first()
        return None if row is None else Org(**row)

    def org(self, org_id: str) -> Org | None:
        """The organisation with that id."""
        row = self._connection.execute(select(orgs).where(orgs.c.id == org_id)).mappings().first()
        return None if row is None else Org(**row)

    def put_member(self, user: str, org_id: str, role: str, at: datetime) -> str:
        """Make sure of the membership."""
        known = self._connection.execute(select(users.c.name).where(users.c.name == user)).first()
        if known is None:
            self._connection.execute(insert(users).values(name=user, created_at=at))
        mine = (memberships.c.user == user) & (memberships.c.org_id == org_id)
        has = self._connection.execute(select(memberships.c.role).where(mine)).scalar_one_or_none()
        if has is None:
            row = {"user": user, "org_id": org_id, "role": role, "created_at": at}
            self._connection.execute(insert(memberships).values(row))
        return has or role

    def signed_in(self, user: str, at: datetime) -> None:
        """Remember the sign-in."""
        self._connection.execute(update(users).where(users.c.name == user).values(last_login_at=at))

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
