"""Organisations and the people who sign in, as the store keeps them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from molecule_platform.domain.credentials import LoginCode, Session


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

    def org_by_slug(self, slug: str) -> Org | None:
        """The organisation of that name."""
        ...

    def org(self, org_id: str) -> Org | None:
        """The organisation with that id."""
        ...

    def put_member(self, user: str, org_id: str, role: str, at: datetime) -> str:
        """Make sure the user is a member; a new one gets that role. The role the member has."""
        ...

    def signed_in(self, user: str, at: datetime) -> None:
        """Remember when a user last signed in."""
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
