"""Signing in: a one-time link becomes a session."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from molecule_platform.domain import credentials, principals
from molecule_platform.domain.credentials import LoginCode, Session
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.refusals import Refusal
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services import identity
from molecule_platform.services.bells import CREDENTIALS
from molecule_platform.services.identity import Identity, Presented

CODE_LIVES = timedelta(minutes=15)


@dataclass(frozen=True)
class SignedIn:
    """A fresh session; the token is shown once, in the cookie."""

    token: str
    session: Session


class Login:
    """Makes login codes and turns them, or a token, into sessions."""

    def __init__(self, storage: Storage, clock: Clock, identity: Identity) -> None:
        self._storage = storage
        self._clock = clock
        self._identity = identity

    async def invite(
        self, by: Principal, user: str, role: str, org_id: str, lives: timedelta
    ) -> tuple[str, datetime]:
        """A code for somebody who will then be able to do no more than the one who invites."""
        missing = sorted(scope for scope in _scopes_of(user, role) if not by.may(scope))
        if missing:
            sentence = f"nobody invites to more than they may do: {user} as {role} needs {', '.join(missing)}"
            raise Refusal("scope-required", sentence, required=list(missing))
        return await self.new_code(user, role, org_id, lives)

    async def new_code(
        self, user: str, role: str, org_id: str, lives: timedelta = CODE_LIVES
    ) -> tuple[str, datetime]:
        """A code that signs `user` in once; the user is created when new."""
        code = credentials.new_token()
        now = self._clock.now()
        row = LoginCode(credentials.digest(code), org_id, user, role, now, now + lives)

        def work(tx: Transaction) -> None:
            has = tx.people.put_member(user, org_id, role, now)
            tx.people.insert_code(replace(row, role=has))

        await self._storage.write(work)
        return code, row.expires_at

    async def with_code(self, code: str) -> SignedIn:
        """Spend a code for a session."""
        now = self._clock.now()
        token = credentials.new_token()

        def work(tx: Transaction) -> Session:
            spent = tx.people.use_code(credentials.digest(code), now)
            if spent is None:
                raise Refusal(
                    "invalid-token",
                    "this login link was used or has expired: run `molecule login-url` for a new one",
                )
            scopes = _scopes_of(spent.user, spent.role)
            session = _session(token, spent.org_id, spent.user, spent.role, scopes, now)
            tx.people.insert_session(session)
            tx.people.signed_in(spent.user, now)
            return session

        return SignedIn(token, await self._storage.write(work))

    async def with_token(self, bearer: str) -> SignedIn:
        """Exchange an administrator's or organisation's token for a session with the same scopes."""
        principal = await self._identity.authenticate(Presented(bearer=bearer))
        if principal.workspace_id is not None:
            raise Refusal("forbidden", "a workspace token cannot sign a person in")
        token = credentials.new_token()
        session = _session(
            token,
            principal.org_id,
            _user_name(principal),
            principal.role,
            principal.scopes,
            self._clock.now(),
        )
        bound = replace(session, token_id=principal.token_id)
        await self._storage.write(lambda tx: tx.people.insert_session(bound))
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


def _scopes_of(user: str, role: str) -> frozenset[str]:
    return principals.ADMIN_SCOPES if user == "admin" else principals.ROLE_SCOPES[role]


def _user_name(principal: Principal) -> str:
    return principal.text.partition(":")[2]


def _session(token: str, org_id: str, user: str, role: str, scopes: frozenset[str], now: datetime) -> Session:
    ends = now + identity.SESSION_SLIDES
    return Session(credentials.digest(token), org_id, user, role, sorted(scopes), now, ends, now)
