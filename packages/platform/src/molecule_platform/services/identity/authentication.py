"""Identity comes from a credential, in this one place."""

import math
import time
from dataclasses import replace
from datetime import datetime, timedelta

from molecule_platform.domain import credentials, principals
from molecule_platform.domain.credentials import Session, Token
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.principals import Principal
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services.identity import claim_window
from molecule_platform.services.support.signals import CREDENTIALS, Signals
from molecule_wire.values import value

# Where other replicas end tokens, too: a revocation counts within a second, also when its bell is lost.
CACHED_SECONDS = 0.8
MAX_CACHED = 100_000
USED_WRITTEN_EVERY = timedelta(seconds=60)
SESSION_SLIDES = timedelta(hours=12)
SESSION_ENDS = timedelta(days=7)
ADMIN, TOKEN, SESSION = "admin", "token", "session"
_ADMIN_S = ADMIN + ":"


@value
class PresentedCredential:
    """What a request shows of itself."""

    bearer: str | None = None
    session: str | None = None
    ticket: str | None = None

    @property
    def is_cookie(self) -> bool:
        """Whether only a browser's cookie speaks for the request, which other pages could make it send."""
        return self.bearer is None and self.ticket is None


class EndedWithWorkspace(ApiError):
    """The token is good no more because its workspace was removed; some routes tell the agent just that."""

    def __init__(self, token: Token) -> None:
        super().__init__("token-revoked", "this token ended when its workspace was removed")
        self.workspace_id = token.workspace_id or ""
        self.at = token.revoked_at


@value
class _Cached:
    """The principal of a token that was good, and until when that need not be looked up again.

    `until` is a time of the monotonic clock; at `due` the token ends, or its use is written down again.
    """

    principal: Principal
    until: float
    due: datetime


class AuthenticationService:
    """Makes a principal from a credential, or says why not.

    Good tokens are cached. Every change of tokens rings a bell that empties the cache; what other replicas
    may change (`shared`) is also looked up anew each second.
    """

    def __init__(
        self,
        storage: Storage,
        signals: Signals,
        clock: Clock,
        admin_token: str,
        default_org: str,
        *,
        shared: bool = True,
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._admin_hash = credentials.digest(admin_token)
        self._admin = Principal(
            "user:admin", default_org, principals.ADMIN_SCOPES, "admin", "owner", credential=ADMIN
        )
        self._cached_seconds = CACHED_SECONDS if shared else math.inf
        self._tokens: dict[str, _Cached] = {}
        # How often tokens changed: what was looked up before the last time is not remembered after it.
        self._changes = 0
        signals.watch(CREDENTIALS, lambda _rest: self._forget())

    async def authenticate(self, presented: PresentedCredential) -> Principal:
        """The principal behind the credential. Raises a 401 refusal when there is none."""
        if presented.bearer is not None:
            token_hash = credentials.digest(presented.bearer)
            return self._at_hand(token_hash) or await self._by_token(token_hash)
        if presented.ticket is not None:
            return await self._by_ticket(presented.ticket)
        if presented.session is not None:
            return await self._by_session(credentials.digest(presented.session))
        raise ApiError("unauthenticated", "this needs a credential: send `Authorization: Bearer <token>`")

    async def again(self, credential: str) -> Principal:
        """The principal of a credential that was shown before. Raises a 401 refusal once it has ended."""
        kind, _, digest = credential.partition(":")
        if kind == ADMIN:
            return self._admin
        return await (self._by_token(digest) if kind == TOKEN else self._by_session(digest))

    def _at_hand(self, token_hash: str) -> Principal | None:
        """The principal of a token that nobody need be asked about."""
        known = self._looked_up(token_hash)
        return self._admin if known is None and credentials.same(token_hash, self._admin_hash) else known

    def _looked_up(self, token_hash: str) -> Principal | None:
        """The principal of a token that was found good a moment ago."""
        cached = self._tokens.get(token_hash)
        if cached is None or cached.until <= time.monotonic() or cached.due <= self._clock.now():
            return None
        return cached.principal

    def _forget(self) -> None:
        self._changes += 1
        self._tokens.clear()

    async def _by_ticket(self, ticket: str) -> Principal:
        """Spend the ticket: whoever shows it is the one who asked for it."""
        ticket_hash, now = credentials.digest(ticket), self._clock.now()
        # Read first: whoever makes tickets up costs no write.
        found = await self._storage.glance(lambda tx: tx.people.ticket(ticket_hash, now))
        if found is None or not await self._storage.write(lambda tx: tx.people.use_ticket(ticket_hash, now)):
            sentence = "this ticket was used or has expired: ask for another with POST /auth/ticket"
            raise ApiError("invalid-token", sentence)
        principal = await self.again(found.credential)
        return replace(principal, org_id=found.org_id) if principal.is_admin else principal

    async def _by_token(self, token_hash: str) -> Principal:
        known = self._looked_up(token_hash)
        if known is not None:
            return known
        asked_at, changes = time.monotonic(), self._changes
        token = await self._storage.glance(lambda tx: tx.tokens.by_hash(token_hash))
        if token is None:
            raise ApiError("invalid-token", "this token is not known here")
        now = self._clock.now()
        check_token(token, now)
        if token.last_used_at is None or now - token.last_used_at >= USED_WRITTEN_EVERY:
            await self._note_use(token, now)
            token = replace(token, last_used_at=now)
        principal = principal_of(token)
        if changes == self._changes:
            self._keep(token, principal, asked_at)
        return principal

    def _keep(self, token: Token, principal: Principal, asked_at: float) -> None:
        """Remember a good token, but not past its end or the time to write down its use."""
        if len(self._tokens) >= MAX_CACHED:
            self._tokens.clear()
        assert token.last_used_at is not None
        due = token.last_used_at + USED_WRITTEN_EVERY
        due = due if token.expires_at is None else min(due, token.expires_at)
        self._tokens[token.token_hash] = _Cached(principal, asked_at + self._cached_seconds, due)

    async def _note_use(self, token: Token, now: datetime) -> None:
        self._tokens.pop(token.token_hash, None)

        def work(tx: Transaction) -> None:
            tx.tokens.used(token.id, now)
            if token.last_used_at is None and token.workspace_id is not None:
                claim_window.close_after_use(tx, token.workspace_id, now)

        await self._storage.write(work)

    def origin_of(self, principal: Principal, session_hash: str) -> str | None:
        """What a session exchanged for a token is bound to: it lives no longer than the token."""
        return self._admin_s_proof(session_hash) if principal.credential == ADMIN else principal.token_id

    def _admin_s_proof(self, session_hash: str) -> str:
        return _ADMIN_S + credentials.bound(self._admin_hash, session_hash)

    async def _by_session(self, token_hash: str) -> Principal:
        now = self._clock.now()
        session, _origin = await self._storage.glance(lambda tx: _living_session(tx, token_hash, now))
        bound_to = session.token_id or ""
        if bound_to.startswith(_ADMIN_S) and not credentials.same(bound_to, self._admin_s_proof(token_hash)):
            raise ApiError("token-revoked", "the administrator's token was changed: sign in again")
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
            raise EndedWithWorkspace(token)
        raise ApiError("token-revoked", "this token was revoked")
    if token.expires_at is not None and token.expires_at <= now:
        raise ApiError("token-expired", "this token has expired")


@value
class TokenOwner:
    """What stands behind a credential: how long it lives, None for ever, and the person with whom it ends."""

    until: datetime | None
    person: str


def backing(tx: Transaction, principal: Principal, now: datetime) -> TokenOwner:
    """What whatever is made with a principal's credential is bound to. Raises 401 once that has ended.

    A request is let in by what was known a moment ago; what gives new power looks again, in its transaction.
    """
    kind, _, digest = principal.credential.partition(":")
    origin = None
    if kind == TOKEN:
        origin = _living_token(tx.tokens.by_hash(digest), now)
    elif kind == SESSION:
        _session, origin = _living_session(tx, digest, now)
    if origin is None:
        return TokenOwner(None, principal.acted_by or principal.text)
    return TokenOwner(origin.expires_at, origin.ends_with)


def _living_token(token: Token | None, now: datetime) -> Token:
    if token is None:
        raise ApiError("invalid-token", "this token is not known here")
    check_token(token, now)
    return token


def _living_session(tx: Transaction, token_hash: str, now: datetime) -> tuple[Session, Token | None]:
    """A session that is still good, and the token that it was exchanged for, which is so too."""
    session = tx.people.session(token_hash)
    if session is None:
        raise ApiError("invalid-token", "this session is not known here: sign in again")
    _check_session(session, now)
    if session.token_id is None or session.token_id.startswith(_ADMIN_S):
        return session, None
    return session, _living_token(tx.tokens.get(session.token_id), now)


def _check_session(session: Session, now: datetime) -> None:
    if session.revoked_at is not None:
        raise ApiError("token-revoked", "this session has ended: sign in again")
    if session.expires_at <= now:
        raise ApiError("token-expired", "this session has expired: sign in again")


def _slide(tx: Transaction, session: Session, now: datetime) -> None:
    ends = min(now + SESSION_SLIDES, session.created_at + SESSION_ENDS)
    tx.people.seen_session(session.token_hash, now, ends)
