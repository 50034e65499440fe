"""Organisations and the people who sign in, as the store keeps them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from molecule_platform.domain.credentials import LoginCode, Session, StreamTicket
from molecule_platform.domain.people import Person


@dataclass(frozen=True)
class Org:
    """An organisation: the outermost wall."""

    id: str
    slug: str
    name: str
    created_at: datetime


class People(Protocol):
    """Verbs on organisations, users, login codes and sessions."""

    def insert_org(self, org: Org) -> None:
        """Keep a new organisation."""
        ...

    def update_org(self, org: Org) -> None:
        """Write another name or slug."""
        ...

    def org(self, org_id: str) -> Org | None:
        """The organisation with that id."""
        ...

    def org_named(self, named: str) -> Org | None:
        """The organisation with that id or that slug."""
        ...

    def first_org(self) -> Org | None:
        """The organisation that was there first."""
        ...

    def orgs(self, after: str, limit: int) -> list[Org]:
        """Organisations by slug, those after the one given."""
        ...

    def put_member(self, user: str, org_id: str, role: str, at: datetime) -> Person:
        """Make sure the user is a member; only a new one gets that role."""
        ...

    def member(self, user: str, org_id: str) -> Person | None:
        """Somebody as a member of that organisation."""
        ...

    def members(self, org_id: str, after: str, limit: int) -> list[Person]:
        """The members of an organisation by name, those after the one given."""
        ...

    def owners(self, org_id: str) -> int:
        """How many owners of the organisation are not disabled."""
        ...

    def update_member(self, person: Person) -> None:
        """Write what a person is in the organisation."""
        ...

    def remove_member(self, user: str, org_id: str) -> None:
        """Forget the membership, and the user with the last one."""
        ...

    def set_platform_admin(self, user: str, allowed: bool) -> None:
        """Make somebody an administrator of the platform, or no longer."""
        ...

    def end_sign_ins(self, user: str, at: datetime, org_id: str | None = None) -> None:
        """End the user's sessions and void the open login codes: of one organisation, or of all."""
        ...

    def insert_code(self, code: LoginCode) -> None:
        """Keep a new one-time code."""
        ...

    def use_code(self, code_hash: str, now: datetime) -> LoginCode | None:
        """Spend a code; None when it is unknown, spent or expired."""
        ...

    def insert_session(self, session: Session) -> None:
        """Keep a new session."""
        ...

    def session(self, token_hash: str) -> Session | None:
        """The session with that digest, ended and expired ones too."""
        ...

    def seen_session(self, token_hash: str, at: datetime, expires_at: datetime) -> None:
        """Slide a session forward."""
        ...

    def revoke_session(self, token_hash: str, at: datetime) -> None:
        """End a session."""
        ...

    def insert_ticket(self, ticket: StreamTicket) -> None:
        """Keep a new ticket, and forget those that have expired."""
        ...

    def ticket(self, ticket_hash: str, now: datetime) -> StreamTicket | None:
        """A ticket that can be spent; None when it is unknown, spent or expired."""
        ...

    def use_ticket(self, ticket_hash: str, now: datetime) -> bool:
        """Spend a ticket; False when somebody else was faster, or it cannot be spent."""
        ...
