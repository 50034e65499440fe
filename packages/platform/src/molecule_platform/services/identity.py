"""Identity comes from a credential, in this one place."""

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta

from molecule_platform.domain import credentials, principals
from molecule_platform.domain.credentials import Session, Token
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.refusals import Refusal
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services.bells import CREDENTIALS, Bells

CACHED_SECONDS = 1.0
MOST_CACHED = 100_000
USED_WRITTEN_EVERY = timedelta(seconds=60)
SESSION_SLIDES = timedelta(hours=12)
SESSION_ENDS = timedelta(days=7)


@dataclass(frozen=True)
class Presented:
    """What a request shows of itself."""

    bearer: str | None = None
    session: str | None = None


class Identity:
    """Makes a principal from a credential, or says why not."""

    def __init__(
        self, storage: Storage, bells: Bells, clock: Clock, admin_token: str, default_org: str
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._admin_hash = credentials.digest(admin_token)
        self._admin = Principal("user:admin", default_org, principals.ADMIN_SCOPES, "admin", "owner")
        self._tokens: dict[str, tuple[Token, float]] = {}
        bells.watch(CREDENTIALS, lambda _rest: self._tokens.clear())

    async def authenticate(self, presented: Presented) -> Principal:
        """The principal behind the credential. Raises a 401 refusal when there is none."""
        if presented.bearer is not None:
            return await self._by_bearer(presented.bearer)
        if presented.session is not None:
            return await self._by_session(presented.session)
        raise Refusal("unauthenticated", "this needs a credential: send `Authorization: Bearer <token>`")

    async def _by_bearer(self, bearer: str) -> Principal:
        token_hash = credentials.digest(bearer)
        if credentials.same(token_hash, self._admin_hash):
            return self._admin
        token = await self._token(token_hash)
        now = self._clock.now()
        check_token(token, now)
        if token.last_used_at is None or now - token.last_used_at >= USED_WRITTEN_EVERY:
            await self._note_use(token, now)
        return principal_of(token)

    async def _token(self, token_hash: str) -> Token:
        cached = self._tokens.get(token_hash)
        now = asyncio.get_running_loop().time()
        if cached is not None and cached[1] > now:
            return cached[0]
        token = await self._storage.read(lambda tx: tx.tokens.by_hash(token_hash))
        if token is None:
            raise Refusal("invalid-token", "this token is not known here")
        if len(self._tokens) >= MOST_CACHED:
            self._tokens.clear()
        self._tokens[token_hash] = (token, now + CACHED_SECONDS)
        return token

    async def _note_use(self, token: Token, now: datetime) -> None:
        self._tokens.pop(token.token_hash, None)
        await self._storage.write(lambda tx: tx.tokens.used(token.id, now))

    async def _check_origin(self, token_id: str, now: datetime) -> None:
        """A session that was exchanged for a token lives no longer than the token."""
        token = await self._storage.read(lambda tx: tx.tokens.get(token_id))
        if token is None:
            raise Refusal("invalid-token", "the token behind this session is gone: sign in again")
        check_token(token, now)

    async def _by_session(self, session_token: str) -> Principal:
        token_hash = credentials.digest(session_token)
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
        )


def principal_of(token: Token) -> Principal:
    """The principal that a token stands for."""
    scopes = frozenset(token.scopes)
    if token.workspace_id is not None:
        text = principals.workspace_principal(token.workspace_id)
        name = token.name or token.workspace_id
    else:
        text, name = f"org-token:{token.id}", token.name or token.prefix
    return Principal(text, token.org_id, scopes, name, expires_at=token.expires_at, token_id=token.id)


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
