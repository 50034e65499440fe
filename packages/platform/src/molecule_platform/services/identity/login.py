"""Signing in: a one-time link becomes a session."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from molecule_platform.domain import credentials, people
from molecule_platform.domain.credentials import LoginCode, Session
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.people import Person
from molecule_platform.domain.principals import Principal
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services.identity import authentication, organisations
from molecule_platform.services.identity.authentication import (
    AuthenticationService,
    PresentedCredential,
)
from molecule_platform.services.support import audit_log
from molecule_platform.services.support.audit_log import AuditActor
from molecule_platform.services.support.signals import CREDENTIALS

CODE_LIVES = timedelta(minutes=15)


@dataclass(frozen=True)
class SignedIn:
    """A fresh session; the token is shown once, in the cookie."""

    token: str
    session: Session


@dataclass(frozen=True)
class Invitation:
    """Whom to let in, as what and where; `org` is an id or slug, None for the inviter's own."""

    user: str
    role: str
    org: str | None = None
    lifecycle_services: timedelta = CODE_LIVES


class Login:
    """Makes login codes and turns them, or a token, into sessions."""

    def __init__(self, storage: Storage, clock: Clock, identity: AuthenticationService) -> None:
        self._storage = storage
        self._clock = clock
        self._identity = identity

    async def invite(self, by: Principal, invitation: Invitation, request_id: str) -> tuple[str, datetime]:
        """A code for somebody who will then be able to do no more than the one who invites.

        Who is a member already keeps the role, whatever the invitation says.
        """

        def invited(tx: Transaction) -> tuple[Person, datetime | None]:
            org = by.org_id if invitation.org is None else organisations.org_named(tx, by, invitation.org).id
            now = self._clock.now()
            until = authentication.backing(tx, by, now).until
            person = tx.people.put_member(invitation.user, org, invitation.role, now)
            people.check_not_above(person, by.may)
            if person.disabled:
                raise ApiError("conflict", f"{person.name} is disabled: enable the user first")
            actor = AuditActor(by.text, request_id)
            audit_log.note(tx, org, actor, "user.invite", f"user:{person.name}", now)
            return person, until

        return await self._code_for(invited, invitation.lifecycle_services)

    async def new_code(self, user: str, role: str, org_id: str) -> tuple[str, datetime]:
        """A code that the house itself gives; the user is created when new."""
        now = self._clock.now()
        return await self._code_for(
            lambda tx: (tx.people.put_member(user, org_id, role, now), None), CODE_LIVES
        )

    async def _code_for(
        self, invited: Callable[[Transaction], tuple[Person, datetime | None]], lifecycle_services: timedelta
    ) -> tuple[str, datetime]:
        """A code for whom `invited` names, which ends no later than the inviter's credential."""
        code = credentials.new_token()
        now = self._clock.now()

        def work(tx: Transaction) -> datetime:
            person, until = invited(tx)
            ends = now + lifecycle_services if until is None else min(now + lifecycle_services, until)
            code_hash = credentials.digest(code)
            tx.people.insert_code(LoginCode(code_hash, person.org_id, person.name, person.role, now, ends))
            return ends

        return code, await self._storage.write(work)

    async def with_code(self, code: str) -> SignedIn:
        """Spend a code for a session."""
        now = self._clock.now()
        token = credentials.new_token()

        def work(tx: Transaction) -> Session:
            spent = tx.people.use_code(credentials.digest(code), now)
            person = None if spent is None else tx.people.member(spent.user, spent.org_id)
            if person is None:
                raise ApiError(
                    "invalid-token",
                    "this login link was used or has expired: run `molecule login-url` for a new one",
                )
            _check_enabled(person)
            session = _session(token, person.org_id, person.name, person.role, person.scopes, now)
            tx.people.insert_session(session)
            tx.people.update_member(replace(person, last_login_at=now))
            return session

        return SignedIn(token, await self._storage.write(work))

    async def with_token(self, bearer: str) -> SignedIn:
        """Exchange an administrator's or organisation's token for a session with the same scopes."""
        principal = await self._identity.authenticate(PresentedCredential(bearer=bearer))
        if principal.workspace_id is not None:
            raise ApiError("forbidden", "a workspace token cannot sign a person in")
        token = credentials.new_token()
        session = _session(
            token,
            principal.org_id,
            _user_name(principal),
            principal.role,
            principal.scopes,
            self._clock.now(),
        )
        bound = replace(session, token_id=self._identity.origin_of(principal, session.token_hash))

        def work(tx: Transaction) -> None:
            if (person := tx.people.member(bound.user, bound.org_id)) is not None:
                _check_enabled(person)
            tx.people.insert_session(bound)

        await self._storage.write(work)
        return SignedIn(token, bound)

    async def org_name(self, org_id: str) -> str:
        """What the organisation is called."""
        org = await self._storage.read(lambda tx: tx.people.org(org_id))
        return "" if org is None else org.name

    async def sign_out(self, session_token: str) -> None:
        """End a session."""
        now = self._clock.now()

        def work(tx: Transaction) -> None:
            tx.people.revoke_session(credentials.digest(session_token), now)
            tx.signal(CREDENTIALS)

        await self._storage.write(work)


def _check_enabled(person: Person) -> None:
    if person.disabled:
        sentence = f"{person.name} is disabled in this organisation: ask one of its owners to undo that"
        raise ApiError("invalid-token", sentence)


def _user_name(principal: Principal) -> str:
    return principal.text.partition(":")[2]


def _session(token: str, org_id: str, user: str, role: str, scopes: frozenset[str], now: datetime) -> Session:
    ends = now + authentication.SESSION_SLIDES
    return Session(credentials.digest(token), org_id, user, role, sorted(scopes), now, ends, now)
