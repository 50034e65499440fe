"""Joining: how an agent claims its workspace, proves itself again, and says where it is reached."""

from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from molecule_platform.domain import credentials, errors, lifecycle, principals, visibility
from molecule_platform.domain.credentials import Token
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.events import CLAIMED
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import DELIVERY_MODES, Workspace, check_choice, check_label
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services.identity import authorizer
from molecule_platform.services.messaging.inbox import inbox_leases
from molecule_platform.services.support import event_log, signals
from molecule_platform.services.workspaces import restart_notice
from molecule_wire import ids, jsontext

CARD_MOST_BYTES = 256 * 1024
MAX_CARD_IN_EVENT_BYTES = 16 * 1024
CREATED_BY = "system:registration"


@dataclass(frozen=True)
class RegistrationRequest:
    """What an agent says when it registers."""

    workspace_id: str
    agent_card: dict[str, Any]
    url: str = ""
    delivery_mode: str | None = None
    protocols: list[str] | None = None
    enrolment_token: str | None = None
    recovery_secret: str | None = None
    dispatch_secret: str | None = None
    replaces_worker: str | None = None
    client_address: str = ""


@dataclass(frozen=True)
class MintedToken:
    """A new token of a workspace; the secret and its recovery secret are shown once and kept as digests."""

    token: Token
    secret: str
    recovery_secret: str


@dataclass(frozen=True)
class RegistrationProof:
    """What a recovery secret or an enrolment token stands for: a token with these scopes, until then."""

    scopes: Collection[str]
    expires_at: datetime | None
    lost: Token | None = None


@dataclass(frozen=True)
class _Checked:
    """What was found out about an application before anything is written, and when."""

    mode: str
    card_signature: str
    now: datetime


@dataclass(frozen=True)
class RegistrationResult:
    """What registering led to. `auth_token` and `recovery_secret` are shown once, when minted."""

    workspace: Workspace
    applied: bool
    auth_token: str | None = None
    recovery_secret: str | None = None


@dataclass(frozen=True)
class ClaimRules:
    """When a workspace may be claimed without a token.

    With open enrolment an unknown id becomes a new root of `open_org_id`, which reaches nobody until an
    operator takes it out of its isolation.
    """

    claim_on_register: bool = True
    strict: bool = False
    open_org_id: str | None = None


class Registration:
    """Keeps the register decision table.

    `judge_card` says whether the signatures of a card hold; it may ask others, so never inside a transaction.
    """

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        rules: ClaimRules,
        check_url: Callable[[str], Awaitable[None]],
        judge_card: Callable[[str, dict[str, Any]], Awaitable[str]],
        seal: Callable[[str, str], str],
        remote_seconds: int,
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._rules = rules
        self._check_url = check_url
        self._judge_card = judge_card
        self._seal = seal
        self._remote_seconds = remote_seconds

    async def register(
        self, application: RegistrationRequest, principal: Principal | None
    ) -> RegistrationResult:
        """Let an agent in by its token, by a claim or by a proof; or tell it that nothing changed."""
        mode, now = self._delivery_mode(application), self._clock.now()
        if not await self._storage.read(lambda tx: self._is_let_in(tx, application, principal, now)):
            return await self._storage.read(lambda tx: RegistrationResult(_known(tx, application), False))
        if application.url and not application.url.startswith("remote://"):
            await self._check_url(application.url)
        signature = await self._judge_card(application.workspace_id, application.agent_card)
        checked = _Checked(mode, signature, self._clock.now())
        return await self._storage.write(lambda tx: self._decide(tx, application, principal, checked))

    def _delivery_mode(self, application: RegistrationRequest) -> str:
        if application.delivery_mode is not None:
            check_choice("delivery_mode", application.delivery_mode, DELIVERY_MODES)
        if not application.url or application.url.startswith("remote://"):
            return "poll"
        if not application.url.startswith(("http://", "https://")):
            raise ApiError(
                "invalid-url", "url begins with http://, https:// or remote://, or is empty for polling"
            )
        return application.delivery_mode or "push"

    def _is_let_in(
        self, tx: Transaction, application: RegistrationRequest, principal: Principal | None, now: datetime
    ) -> bool:
        """Whether anything comes of it; refuses who may not. Only then is anybody asked whom it names."""
        is_newcomer = self._is_newcomer(tx, application, principal)
        workspace = None if is_newcomer else _known(tx, application)
        if principal is not None:
            if workspace is None or principal.workspace_id != workspace.id:
                if workspace is not None and not visibility.is_visible_to(principal, workspace, now):
                    raise errors.workspace_not_found(workspace.id)
                raise ApiError("identity-mismatch", "this token belongs to another workspace")
            return True
        if application.recovery_secret or application.enrolment_token:
            _proof(tx, application, now)
            return True
        if workspace is None or workspace.claimed_at is None:
            self._check_claim(application.workspace_id, workspace, now)
            return True
        if self._rules.strict:
            raise ApiError("unauthenticated", "this workspace is claimed: register with its token")
        return False

    def _decide(
        self,
        tx: Transaction,
        application: RegistrationRequest,
        principal: Principal | None,
        checked: _Checked,
    ) -> RegistrationResult:
        if not self._is_let_in(tx, application, principal, checked.now):
            return RegistrationResult(_known(tx, application), False)
        if self._is_newcomer(tx, application, principal):
            self._enrol(tx, application, checked.now)
        workspace = _known(tx, application)
        if principal is not None:
            return RegistrationResult(self._apply(tx, workspace, application, checked), True)
        if application.recovery_secret or application.enrolment_token:
            minted = _proved(tx, workspace, application, checked.now)
        else:
            minted = _claimed(tx, workspace, application, checked.now)
        joined = self._apply(tx, workspace, application, checked)
        return RegistrationResult(joined, True, minted.secret, minted.recovery_secret)

    def _is_newcomer(
        self, tx: Transaction, application: RegistrationRequest, principal: Principal | None
    ) -> bool:
        open_to_all = self._rules.open_org_id is not None and principal is None
        return open_to_all and tx.workspaces.get(application.workspace_id) is None

    def _enrol(self, tx: Transaction, application: RegistrationRequest, now: datetime) -> None:
        assert self._rules.open_org_id is not None
        workspace = Workspace(
            id=application.workspace_id,
            org_id=self._rules.open_org_id,
            name=_name_of(application),
            isolated=True,
            awareness_namespace=f"workspace:{application.workspace_id}",
            claim_reads_secrets=True,
            created_at=now,
            updated_at=now,
        )
        tx.workspaces.insert(workspace)
        event_log.note(tx, "WORKSPACE_AWAITING_AGENT", workspace, now, name=workspace.name)

    def _check_claim(self, workspace_id: str, workspace: Workspace | None, now: datetime) -> None:
        is_open = workspace is None or workspace.can_be_claimed(now)
        if not self._rules.claim_on_register or not is_open:
            raise ApiError(
                "unauthenticated",
                f"workspace {workspace_id} cannot be claimed: register with the token that came with it, or "
                f"an administrator can run `molecule workspace enrol {workspace_id}`",
            )

    def _apply(
        self, tx: Transaction, workspace: Workspace, application: RegistrationRequest, checked: _Checked
    ) -> Workspace:
        now = checked.now
        sealed = workspace.dispatch_secret_sealed
        if application.dispatch_secret:
            place = dispatch_seal_context(workspace.org_id, workspace.id)
            sealed = self._seal(application.dispatch_secret, place)
        window = lifecycle.liveness_window(workspace.external, workspace.capabilities, self._remote_seconds)
        after = workspace.changed(
            url=application.url if checked.mode == "push" else "",
            delivery_mode=checked.mode,
            protocols=application.protocols,
            agent_card=application.agent_card,
            card_signature=checked.card_signature,
            dispatch_secret_sealed=sealed,
            status=lifecycle.after_register(workspace),
            status_reason="",
            claimed_at=workspace.claimed_at or now,
            liveness_expires_at=now + window,
            updated_at=now,
        )
        tx.signal(signals.card(workspace.id))
        card = _shown_card(application.agent_card)
        event_log.move(tx, workspace, after, now, url=after.url, agent_card=card, name=workspace.name)
        if after.status == workspace.status and after.agent_card != workspace.agent_card:
            event_log.note(tx, "AGENT_CARD_UPDATED", workspace, now, agent_card=card)
        restart_notice.send_restart_notice(tx, workspace, after, now)
        if application.replaces_worker:
            inbox_leases.release_worker(tx, workspace, application.replaces_worker, now)
        tx.signal(signals.mail(workspace.id))
        return after

    async def update_card(self, workspace: Workspace, agent_card: dict[str, Any]) -> str:
        """Keep a new card, and say how its signatures are; one that says the same is no news."""
        signature = await self._judge_card(workspace.id, agent_card)
        now = self._clock.now()

        def work(tx: Transaction) -> None:
            current = tx.workspaces.get(workspace.id)
            if current is None or (current.agent_card, current.card_signature) == (agent_card, signature):
                return
            changes = {"agent_card": agent_card, "card_signature": signature, "updated_at": now}
            tx.workspaces.touch(workspace.id, version=current.version + 1, **changes)
            tx.signal(signals.card(workspace.id))
            if current.agent_card != agent_card:
                card = _shown_card(agent_card)
                event_log.note(tx, "AGENT_CARD_UPDATED", workspace, now, agent_card=card)

        await self._storage.write(work)
        return signature


def _shown_card(agent_card: dict[str, Any]) -> dict[str, Any] | None:
    """The card for an event, which is kept long and sent to many; a large one is read at its workspace."""
    return agent_card if len(jsontext.encode(agent_card)) <= MAX_CARD_IN_EVENT_BYTES else None


def _known(tx: Transaction, application: RegistrationRequest) -> Workspace:
    workspace = tx.workspaces.get(application.workspace_id)
    if workspace is None:
        raise errors.workspace_not_found(application.workspace_id)
    if workspace.removed:
        raise errors.workspace_removed(workspace.id, authorizer.removed_at(workspace))
    return workspace


def _name_of(application: RegistrationRequest) -> str:
    """What a newcomer calls itself, if that can be the name of a workspace."""
    named = application.agent_card.get("name")
    if isinstance(named, str) and named.strip():
        with suppress(ApiError):
            return check_label("name", named.strip(), 255)
    return f"agent-{application.workspace_id[:8]}"


def mint(
    tx: Transaction,
    workspace: Workspace,
    created_by: str,
    now: datetime,
    scopes: Collection[str] = principals.WORKSPACE_SCOPES,
    expires_at: datetime | None = None,
) -> MintedToken:
    """A new token of a workspace, with a recovery secret."""
    secret, recovery = credentials.new_token(), credentials.new_token()
    token = Token(
        id=ids.uuid7(),
        org_id=workspace.org_id,
        kind="workspace",
        token_hash=credentials.digest(secret),
        prefix=secret[: credentials.PREFIX_LENGTH],
        scopes=sorted(scopes),
        created_by=created_by,
        created_at=now,
        workspace_id=workspace.id,
        name=workspace.name,
        expires_at=expires_at,
        recovery_hash=credentials.digest(recovery),
    )
    tx.tokens.insert(token)
    return MintedToken(token, secret, recovery)


def dispatch_seal_context(org_id: str, workspace_id: str) -> str:
    """What a sealed dispatch secret is bound to."""
    return f"{org_id}|{workspace_id}|dispatch"


def _claimed(
    tx: Transaction, workspace: Workspace, application: RegistrationRequest, now: datetime
) -> MintedToken:
    """The token of whoever came first; every other way in ends, and operators learn from where it was.

    It gives what the token of the workspace's creation gave: nobody who creates one gets more by claiming it,
    and who could gain by claiming it does not see it (`domain.visibility`).
    """
    tx.tokens.revoke_all(workspace.id, now, "workspace-claimed")
    tx.tokens.end_enrolments(workspace.id)
    tx.signal(signals.CREDENTIALS)
    reads = workspace.claim_reads_secrets
    scopes = principals.WORKSPACE_SCOPES if reads else principals.IMPERSONATED_SCOPES
    minted = mint(tx, workspace, CREATED_BY, now, scopes)
    shown = {"token_id": minted.token.id, "prefix": minted.token.prefix}
    event_log.note(tx, CLAIMED, workspace, now, **shown, client_address=application.client_address)
    return minted


def _proof(tx: Transaction, application: RegistrationRequest, now: datetime) -> RegistrationProof:
    """What the proof that the agent shows stands for; it is not spent yet. Raises when it proves nothing."""
    workspace_id = application.workspace_id
    if application.recovery_secret:
        lost = tx.tokens.by_recovery_hash(workspace_id, credentials.digest(application.recovery_secret))
        if lost is not None and (lost.expires_at is None or lost.expires_at > now):
            return RegistrationProof(lost.scopes, lost.expires_at, lost)
    if application.enrolment_token:
        issued = tx.tokens.enrolment(workspace_id, credentials.digest(application.enrolment_token), now)
        if issued is not None:
            return RegistrationProof(issued.scopes, issued.token_expires_at)
    raise ApiError(
        "enrolment-invalid", "this proof is unknown, used or expired: ask an administrator for a new one"
    )


def _proved(
    tx: Transaction, workspace: Workspace, application: RegistrationRequest, now: datetime
) -> MintedToken:
    """The token that a proof stands for; the proof serves once."""
    proof = _proof(tx, application, now)
    if proof.lost is not None:
        tx.tokens.revoke(proof.lost.id, now, "recovered")
        tx.signal(signals.CREDENTIALS)
    elif application.enrolment_token:
        tx.tokens.use_enrolment(workspace.id, credentials.digest(application.enrolment_token), now)
    return mint(tx, workspace, CREATED_BY, now, proof.scopes, proof.expires_at)
