"""Identity comes from a credential, in this one place."""

import time
from dataclasses import dataclass
from datetime import datetime, timedelta

from molecule_platform.domain import credentials, principals
from molecule_platform.domain.credentials import Session, Token
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.refusals import Refusal
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services.bells import CREDENTIALS, Bells

CACHED_SECONDS = 0.8  # a revocation counts everywhere within a second, also when its bell is lost
MOST_CACHED = 100_000
USED_WRITTEN_EVERY = timedelta(seconds=60)
SESSION_SLIDES = timedelta(hours=12)
SESSION_ENDS = timedelta(days=7)
ADMIN, TOKEN, SESSION = "admin", "token", "session"


@dataclass(frozen=True)
class Presented:
    """What a request shows of itself."""

    bearer: str | None = None
    session: str | None = None
    ticket: str | None = None

    @property
    def is_cookie(self) -> bool:
        """Whether only a browser's cookie speaks for the request, which other pages could make it send."""
        return self.bearer is None and self.ticket is None


class Identity:
    """Makes a principal from a credential, or says why not."""

    def __init__(
        self, storage: Storage, bells: Bells, clock: Clock, admin_token: str, default_org: str
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._admin_hash = credentials.digest(admin_token)
        self._admin = Principal(
            "user:admin", default_org, principals.ADMIN_SCOPES, "admin", "owner", credential=ADMIN
        )
        self._tokens: dict[str, tuple[Token, Principal, float]] = {}
        bells.watch(CREDENTIALS, lambda _rest: self._tokens.clear())

    async def authenticate(self, presented: Presented) -> Principal:
        """The principal behind the credential. Raises a 401 refusal when there is none."""
        if presented.bearer is not None:
            return await self._by_bearer(presented.bearer)
        if presented.ticket is not None:
            return await self._by_ticket(presented.ticket)
        if presented.session is not None:
            return await self._by_session(credentials.digest(presented.session))
        raise Refusal("unauthenticated", "this needs a credential: send `Authorization: Bearer <token>`")

    async def again(self, credential: str) -> Principal:
        """The principal of a credential that was shown before. Raises a 401 refusal once it has ended."""
        kind, _, digest = credential.partition(":")
        if kind == ADMIN:
            return self._admin
        return await (self._by_token(digest) if kind == TOKEN else self._by_session(digest))

    async def _by_bearer(self, bearer: str) -> Principal:
        token_hash = credentials.digest(bearer)
        known = self._known(token_hash)
        if known is not None:
            return known
        if credentials.same(token_hash, self._admin_hash):
            return self._admin
        return await self._by_token(token_hash)

    def _known(self, token_hash: str) -> Principal | None:
        """The principal of a token that was looked up within the last second, if nothing need be written."""
        cached = self._tokens.get(token_hash)
        if cached is None or cached[2] <= time.monotonic():
            return None
        token, now = cached[0], self._clock.now()
        check_token(token, now)
        fresh = token.last_used_at is not None and now - token.last_used_at < USED_WRITTEN_EVERY
        return cached[1] if fresh else None

    async def _by_ticket(self, ticket: str) -> Principal:
        """Spend the ticket: whoever shows it is the one who asked for it."""
        ticket_hash, now = credentials.digest(ticket), self._clock.now()
        credential = await self._storage.write(lambda tx: tx.people.use_ticket(ticket_hash, now))
        if credential is None:
            sentence = "this ticket was used or has expired: ask for another with POST /auth/ticket"
            raise Refusal("invalid-token", sentence)
        return await self.again(credential)

    async def _by_token(self, token_hash: str) -> Principal:
        token, principal = await self._token(token_hash)
        now = self._clock.now()
        check_token(token, now)
        if token.last_used_at is None or now - token.last_used_at >= USED_WRITTEN_EVERY:
            await self._note_use(token, now)
        return principal

    async def _token(self, token_hash: str) -> tuple[Token, Principal]:
        cached = self._tokens.get(token_hash)
        now = time.monotonic()
        if cached is not None and cached[2] > now:
            return cached[0], cached[1]
        token = await self._storage.read(lambda tx: tx.tokens.by_hash(token_hash))
        if token is None:
            raise Refusal("invalid-token", "this token is not known here")
        if len(self._tokens) >= MOST_CACHED:
            self._tokens.clear()
        principal = principal_of(token)
        self._tokens[token_hash] = (token, principal, now + CACHED_SECONDS)
        return token, principal

    async def _note_use(self, token: Token, now: datetime) -> None:
        self._tokens.pop(token.token_hash, None)
        await self._storage.write(lambda tx: tx.tokens.used(token.id, now))

    async def _check_origin(self, token_id: str, now: datetime) -> None:
        """A session that was exchanged for a token lives no longer than the token."""
        token = await self._storage.read(lambda tx: tx.tokens.get(token_id))
        if token is None:
            raise Refusal("invalid-token", "the token behind this session is gone: sign in again")
        check_token(token, now)

    async def _by_session(self, token_hash: str) -> Principal:
        session = await self._storage.read(lambda tx: tx.people.session(token_hash))
        now = self._clock.now()
        if session is None:
            raise Refusal("invalid-token", "this session is not known here: sign in again")
        _check_session(session, now)
        if session.token_id is not None:
            await self._check_origin(session.token_id, now)
        if now - session.seen_at >= USED_WRITTEN_EVERY:
            await self._storage.write(lambda tx: _slide(tx, session, now))
        return Principal(
            text=f"user:{session.user}",
            org_id=session.org_id,
            scopes=frozenset(session.scopes),
            name=session.user,
            role=session.role,
            expires_at=session.expires_at,
            credential=f"{SESSION}:{token_hash}",
        )


def principal_of(token: Token) -> Principal:
    """The principal that a token stands for."""
    scopes = frozenset(token.scopes)
    if token.workspace_id is not None:
        text = principals.workspace_principal(token.workspace_id)
        name = token.name or token.workspace_id
    else:
        text, name = f"org-token:{token.id}", token.name or token.prefix
    return Principal(
        text,
        token.org_id,
        scopes,
        name,
        expires_at=token.expires_at,
        token_id=token.id,
        credential=f"{TOKEN}:{token.token_hash}",
    )


def check_token(token: Token, now: datetime) -> None:
    """Raise the 401 that fits a token which is no longer good."""
    if token.revoked_at is not None:
        if token.revoke_reason == "workspace-removed":
            raise Refusal("token-revoked", "this token ended when its workspace was removed", removed=True)
        raise Refusal("token-revoked", "this token was revoked")
    if token.expires_at is not None and token.expires_at <= now:
        raise Refusal("token-expired", "this token has expired")


def _check_session(session: Session, now: datetime) -> None:
    if session.revoked_at is not None:
        raise Refusal("token-revoked", "this session has ended: sign in again")
    if session.expires_at <= now:
        raise Refusal("token-expired", "this session has expired: sign in again")


def _slide(tx: Transaction, session: Session, now: datetime) -> None:
    ends = min(now + SESSION_SLIDES, session.created_at + SESSION_ENDS)
    tx.people.seen_session(session.token_hash, now, ends)
