"""Tokens: minted within the minter's own power, shown once, rotated and revoked."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from molecule_platform.domain import credentials, principals
from molecule_platform.domain.credentials import EnrolmentToken, Token
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.events import Event
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import Workspace, check_text, invalid
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services.identity import authentication
from molecule_platform.services.support.signals import CREDENTIALS, EVENTS
from molecule_wire import ids, times

MAX_ACTIVE_TOKENS = 50
MAX_NAME_LENGTH = 100
LIMIT_RETRY_SECONDS = 60


@dataclass(frozen=True)
class NewTokenRequest:
    """What somebody wants a token for."""

    name: str = ""
    scopes: tuple[str, ...] = ()
    expires_at: datetime | None = None


@dataclass(frozen=True)
class IssuedToken:
    """A new token; the secret itself is shown once."""

    token: Token
    secret: str


class TokenService:
    """Keeps the credentials of workspaces and of organisations."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock

    async def of_workspace(self, workspace: Workspace) -> list[Token]:
        """The workspace's living tokens."""
        now = self._clock.now()
        return await self._storage.read(lambda tx: tx.tokens.living_of_workspace(workspace.id, now))

    async def of_org(self, principal: Principal) -> list[Token]:
        """The organisation's living tokens."""
        now = self._clock.now()
        return await self._storage.read(lambda tx: tx.tokens.living_of_org(principal.org_id, now))

    async def mint_for_workspace(
        self, principal: Principal, workspace: Workspace, wish: NewTokenRequest
    ) -> IssuedToken:
        """A further token of a workspace."""
        held = grantable(principal)
        scopes = wish.scopes or tuple(sorted(held))
        _check_scopes(scopes, for_workspace=True)
        _check_not_above(held, scopes)
        return await self._storage.write(
            lambda tx: self._mint(tx, principal, replace(wish, scopes=scopes), workspace)
        )

    async def mint_for_org(self, principal: Principal, wish: NewTokenRequest) -> IssuedToken:
        """A token of the organisation."""
        scopes = wish.scopes or principals.ORG_TOKEN_SCOPES
        _check_scopes(scopes, for_workspace=False)
        _check_not_above(principal.scopes, scopes)
        return await self._storage.write(
            lambda tx: self._mint(tx, principal, replace(wish, scopes=scopes), None)
        )

    async def rotate(self, principal: Principal, workspace: Workspace, overlap: timedelta) -> IssuedToken:
        """A new token like the one presented, which ends after the overlap."""
        now = self._clock.now()

        def work(tx: Transaction) -> IssuedToken:
            old = tx.tokens.get(principal.token_id or "")
            if old is None or old.workspace_id != workspace.id:
                raise ApiError("forbidden", "only a workspace token can be rotated, by itself")
            wish = NewTokenRequest(old.name, tuple(old.scopes), old.expires_at)
            minted = self._mint(tx, principal, wish, workspace, old.created_by)
            tx.tokens.end_at(old.id, min(now + overlap, old.expires_at or now + overlap))
            return minted

        return await self._storage.write(work)

    async def new_enrolment(
        self, principal: Principal, workspace: Workspace, lifecycle_services: timedelta
    ) -> tuple[str, EnrolmentToken]:
        """A single-use token with which a machine joins: it yields what its issuer could mint."""
        now, secret, scopes = self._clock.now(), credentials.new_token(), sorted(grantable(principal))

        def work(tx: Transaction) -> EnrolmentToken:
            behind = authentication.backing(tx, principal, now)
            until = behind.until
            issued = EnrolmentToken(
                token_hash=credentials.digest(secret),
                org_id=workspace.org_id,
                workspace_id=workspace.id,
                scopes=scopes,
                created_by=principal.text,
                created_at=now,
                expires_at=now + lifecycle_services
                if until is None
                else min(now + lifecycle_services, until),
                token_expires_at=until,
                ends_with=behind.person,
            )
            tx.tokens.insert_enrolment(issued)
            return issued

        return secret, await self._storage.write(work)

    async def revoke(self, principal: Principal, workspace: Workspace | None, token_id: str) -> None:
        """End a token at once, on every replica."""
        now = self._clock.now()

        def work(tx: Transaction) -> None:
            authentication.backing(tx, principal, now)
            token = tx.tokens.get(token_id)
            if token is None or token.revoked_at is not None or not _belongs(token, principal, workspace):
                raise ApiError("not-found", f"there is no token {token_id[:64]} here")
            tx.tokens.revoke(token.id, now, "revoked")
            _note(tx, "TOKEN_REVOKED", token, now)

        await self._storage.write(work)

    def _mint(
        self,
        tx: Transaction,
        principal: Principal,
        wish: NewTokenRequest,
        workspace: Workspace | None,
        created_by: str = "",
    ) -> IssuedToken:
        now = self._clock.now()
        behind = authentication.backing(tx, principal, now)
        check_text("name", wish.name, MAX_NAME_LENGTH)
        secret = credentials.new_token()
        token = Token(
            id=ids.uuid7(),
            org_id=principal.org_id if workspace is None else workspace.org_id,
            kind="org" if workspace is None else "workspace",
            token_hash=credentials.digest(secret),
            prefix=secret[: credentials.PREFIX_LENGTH],
            scopes=sorted(wish.scopes),
            created_by=created_by or principal.acted_by or principal.text,
            created_at=now,
            workspace_id=None if workspace is None else workspace.id,
            name=wish.name,
            expires_at=_expiry(behind.until, wish.expires_at, now),
            ends_with=behind.person,
        )
        _keep(tx, token)
        return IssuedToken(token, secret)


def _keep(tx: Transaction, token: Token) -> None:
    if token.workspace_id is not None:
        living = tx.tokens.living_of_workspace(token.workspace_id, token.created_at)
    else:
        living = tx.tokens.living_of_org(token.org_id, token.created_at)
    if len(living) >= MAX_ACTIVE_TOKENS:
        sentence = f"there are {MAX_ACTIVE_TOKENS} living tokens already: revoke one that is not needed"
        raise ApiError("token-limit", sentence, retry_after=LIMIT_RETRY_SECONDS)
    tx.tokens.insert(token)
    _note(tx, "TOKEN_CREATED", token, token.created_at)


def end_tokens_of(
    tx: Transaction, person: str, org_id: str | None, held: Collection[str], now: datetime
) -> None:
    """End what a person minted, through other tokens too, and could not mint now.

    What came with a workspace, or with the registration of its agent, is the agent's and stays.
    """
    kept = {"org": held, "workspace": principals.grantable_scopes(held)}
    for token in tx.tokens.ending_with(person, org_id, now):
        if not all(principals.implies(kept[token.kind], scope) for scope in token.scopes):
            tx.tokens.revoke(token.id, now, "minter-ended")
            _note(tx, "TOKEN_REVOKED", token, now)
    if not kept["workspace"]:
        tx.tokens.end_enrolments_with(person, org_id)


def token_row(token: Token) -> dict[str, Any]:
    """A token on the wire: never the token itself."""
    return {
        "id": token.id,
        "prefix": token.prefix,
        "name": token.name,
        "org_id": token.org_id,
        "scopes": token.scopes,
        "created_at": times.format_time(token.created_at),
        "last_used_at": _time(token.last_used_at),
        "expires_at": _time(token.expires_at),
        "created_by": token.created_by,
    }


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else times.format_time(moment)


def _belongs(token: Token, principal: Principal, workspace: Workspace | None) -> bool:
    if workspace is not None:
        return token.workspace_id == workspace.id
    return token.kind == "org" and (token.org_id == principal.org_id or principal.is_admin)


def _check_scopes(scopes: tuple[str, ...], *, for_workspace: bool) -> None:
    unknown = sorted(set(scopes) - principals.KNOWN_SCOPES)
    if unknown:
        raise invalid("scopes", f"{', '.join(unknown)[:200]}: no such scope")
    misplaced = sorted(s for s in scopes if principals.is_workspace_scope(s) != for_workspace)
    if misplaced:
        whose = "a workspace" if for_workspace else "an organisation"
        raise invalid("scopes", f"{', '.join(misplaced)}: not a scope of {whose}'s token")


def grantable(minter: Principal) -> frozenset[str]:
    """The scopes of a workspace that the minter may pass on. Raises the 403 that says what is missing."""
    held = minter.scopes if minter.workspace_id else principals.grantable_scopes(minter.scopes)
    if not held:
        sentence = "a token of a workspace acts as that workspace: this needs the scope org.impersonate"
        raise ApiError("scope-required", sentence, required=["org.impersonate"])
    return held


def _check_not_above(held: Collection[str], scopes: tuple[str, ...]) -> None:
    above = sorted(scope for scope in scopes if not principals.implies(held, scope))
    if above:
        sentence = f"nobody grants more than they hold: {', '.join(above)}"
        raise ApiError("scope-required", sentence, required=list(above))


def _expiry(until: datetime | None, asked: datetime | None, now: datetime) -> datetime | None:
    if asked is not None and asked <= now:
        raise invalid("expires_at", "expires_at must be in the future")
    if until is None:
        return asked
    if asked is not None and asked > until:
        raise invalid("expires_at", "no token outlives the one that mints it")
    return asked or until


def _note(tx: Transaction, event_type: str, token: Token, now: datetime) -> None:
    facts = {"token_id": token.id, "prefix": token.prefix, "kind": token.kind, "scopes": token.scopes}
    tx.events.append(Event(event_type, token.org_id, token.workspace_id or "", facts, now))
    tx.signal(EVENTS)
    tx.signal(CREDENTIALS)
