"""What parties do with a delegation that exists: look at it, wait for it, close it, show evidence for it."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from molecule_platform.domain import cursors, messages, results
from molecule_platform.domain import delegation_views as views
from molecule_platform.domain import delegations as rules
from molecule_platform.domain.delegations import Delegation, Evidence
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.messages import Message, MessageOutcome
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import Workspace, invalid
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services.messaging.delegations import delegation_state
from molecule_platform.services.support import signals
from molecule_platform.services.support.signals import Signals
from molecule_wire import ids, times

MAX_CONCURRENT = 200
MAX_REASON_LENGTH = 1000
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")


@dataclass(frozen=True)
class EvidenceItem:
    """What somebody shows for a deliverable."""

    deliverable: str
    kind: str
    uri: str | None = None
    text: str | None = None
    sha256: str | None = None
    media_type: str | None = None
    note: str | None = None


class DelegationService:
    """Serves the parties of delegations, and ends what is overdue."""

    def __init__(self, storage: Storage, signals: Signals, clock: Clock) -> None:
        self._storage = storage
        self._signals = signals
        self._clock = clock

    async def tick(self) -> None:
        """End what was not done by its deadline."""
        now = self._clock.now()
        if not await self._storage.read(lambda tx: tx.delegations.overdue(now, 1)):
            return

        def work(tx: Transaction) -> None:
            for delegation in tx.delegations.overdue(now, MAX_CONCURRENT):
                delegation_state.expire(tx, delegation, now)

        await self._storage.write(work)

    # Looking

    async def visible(self, principal: Principal, delegation_id: str) -> Delegation:
        """The delegation, for its parties and the organisation's readers; for others it does not exist."""
        return await self._storage.read(lambda tx: _visible(tx, principal, delegation_id))

    async def whole(self, principal: Principal, delegation_id: str, wait: float) -> dict[str, Any]:
        """All there is to know of it; with a wait, as soon as it has ended."""

        async def look() -> bool | None:
            current = await self.visible(principal, delegation_id)
            return None if current.is_open else True

        await self._signals.wait_for(signals.delegation(delegation_id), look, wait)

        def work(tx: Transaction) -> dict[str, Any]:
            delegation = _visible(tx, principal, delegation_id)
            return views.full_view(delegation, tx.delegations.evidence(delegation.id))

        return await self._storage.read(work)

    async def page(
        self, workspace: Workspace, role: str, status: str | None, limit: int, cursor: str | None
    ) -> tuple[list[Delegation], str | None]:
        """A workspace's delegations, newest first, and the cursor of the next page."""
        if role not in rules.ROLES:
            raise invalid("role", f"role is one of {', '.join(rules.ROLES)}")
        if status is not None and status not in rules.STATUSES:
            raise invalid("status", f"status is one of {', '.join(rules.STATUSES)}")
        statuses = None if status is None else {status}
        before = None if cursor is None else _place(cursor)
        found, more = await self._storage.read(
            lambda tx: tx.delegations.page(workspace.id, role, statuses, before, limit)
        )
        return found, cursors.written(str(found[-1].seq)) if more else None

    # Closing

    async def cancel(self, principal: Principal, delegation_id: str, reason: str | None) -> dict[str, Any]:
        """Call it off, with all that came of it."""
        now = self._clock.now()
        sentence = (reason or f"called off by {principal.text}")[:MAX_REASON_LENGTH]

        def work(tx: Transaction) -> dict[str, Any]:
            delegation = _visible(tx, principal, delegation_id)
            _check_not_target(principal, delegation)
            if not delegation.is_open:
                how = f"the delegation has ended already: {delegation.outcome}"
                raise ApiError("not-cancelable", how)
            delegation_state.cancel(tx, delegation, messages.cancellation("cancelled", sentence), now)
            return _whole_now(tx, delegation.id)

        return await self._storage.write(work)

    async def update(
        self, workspace: Workspace, delegation_id: str, status: str, words: str, error: str
    ) -> Delegation:
        """Close it by the word of an agent: its target, or its source if it was only recorded."""
        if status not in ("completed", "failed"):
            raise invalid("status", "status is completed or failed")
        now = self._clock.now()

        def work(tx: Transaction) -> Delegation:
            delegation = tx.delegations.get(delegation_id)
            if delegation is None or workspace.id not in (delegation.source_id, delegation.target_id):
                raise rules.not_found(delegation_id)
            if workspace.id != delegation.target_id and not delegation.recorded:
                sentence = "the platform carries this delegation: only its target can say how it ended"
                raise ApiError("forbidden", f"{sentence}; cancel it if it is no longer wanted")
            if not delegation.is_open:
                return _said_again(delegation, status)
            carried = None if delegation.message_id is None else tx.mailbox.get(delegation.message_id)
            how = _outcome(carried, status, words, error, now)
            result = rules.result_text(words) if status == "completed" else None
            delegation_state.close(tx, delegation, how, status, now, result)
            return tx.delegations.get(delegation_id) or delegation

        return await self._storage.write(work)

    # Evidence

    async def show_evidence(self, principal: Principal, delegation_id: str, shown: EvidenceItem) -> str:
        """Keep what a party shows for a deliverable; the id of it."""
        now = self._clock.now()

        def work(tx: Transaction) -> str:
            delegation = _visible(tx, principal, delegation_id)
            return attach(tx, delegation, principal.text, shown, now)

        return await self._storage.write(work)


def attach(tx: Transaction, delegation: Delegation, by: str, shown: EvidenceItem, now: datetime) -> str:
    """Keep evidence, inside a transaction. Raises 400 for what does not fit, 409 when it comes too late."""
    _check_shown(delegation, shown)
    if delegation.finished_at is not None and now - delegation.finished_at > rules.EVIDENCE_AFTER_END:
        raise ApiError(
            "state-conflict", "the delegation ended more than an hour ago: nothing is taken any more"
        )
    if len(tx.delegations.evidence(delegation.id)) >= rules.MAX_EVIDENCE:
        raise ApiError("conflict", f"a delegation keeps at most {rules.MAX_EVIDENCE} pieces of evidence")
    evidence = Evidence(ids.uuid7(), delegation.org_id, delegation.id, by=by, created_at=now, **vars(shown))
    tx.delegations.add_evidence(evidence)
    told = {"evidence_id": evidence.id, "deliverable": evidence.deliverable, "kind": evidence.kind, "by": by}
    delegation_state.notify(tx, delegation, delegation_state.STATUS, now, evidence=told)
    return evidence.id


def _check_shown(delegation: Delegation, shown: EvidenceItem) -> None:
    names = [str(one["name"]) for one in delegation.deliverables]
    if shown.deliverable not in names:
        known = f"it has {', '.join(names)}" if names else "it has none"
        raise invalid("deliverable", f"the delegation has no deliverable of this name: {known}")
    if shown.kind not in rules.EVIDENCE_KINDS:
        raise invalid("kind", f"kind is one of {', '.join(rules.EVIDENCE_KINDS)}")
    if not (shown.uri or shown.text):
        raise invalid("uri", "evidence has a uri or a text")
    if shown.sha256 is not None and not _SHA256.fullmatch(shown.sha256):
        raise invalid("sha256", "sha256 has 64 hexadecimal digits")


def _visible(tx: Transaction, principal: Principal, delegation_id: str) -> Delegation:
    delegation = tx.delegations.get(delegation_id)
    if delegation is None or not _may_see(principal, delegation):
        raise rules.not_found(delegation_id)
    return delegation


def _may_see(principal: Principal, delegation: Delegation) -> bool:
    if principal.workspace_id is not None:
        return principal.workspace_id in (delegation.source_id, delegation.target_id)
    mine = principal.org_id == delegation.org_id or principal.is_admin
    return mine and (principal.text == delegation.source or principal.may("org.read"))


def _check_not_target(principal: Principal, delegation: Delegation) -> None:
    if principal.workspace_id == delegation.target_id:
        raise ApiError("forbidden", "only the source of a delegation calls it off: answer it, or fail it")


def _said_again(delegation: Delegation, status: str) -> Delegation:
    if delegation.status != status:
        sentence = f"the delegation has ended already: {delegation.outcome}"
        raise ApiError("state-conflict", sentence)
    return delegation


def _outcome(carried: Message | None, status: str, words: str, error: str, now: datetime) -> MessageOutcome:
    """How the message ends when its agent closes the delegation, or what it would be without a message."""
    if status == "failed":
        return messages.failure("skill-failed", error or "the agent gave no reason")
    if carried is None:
        return MessageOutcome("answered", task_state="completed")
    content = results.agent_message(ids.uuid7(), [{"text": words}] if words else [])
    result = results.answer_task(carried, "completed", content, [], times.format_time(now))
    return MessageOutcome("answered", result, "completed")


def _whole_now(tx: Transaction, delegation_id: str) -> dict[str, Any]:
    delegation = tx.delegations.get(delegation_id)
    assert delegation is not None
    return views.full_view(delegation, tx.delegations.evidence(delegation_id))


def _place(cursor: str) -> int:
    [place] = cursors.read(cursor, 1)
    if not (place.isascii() and place.isdigit() and len(place) <= 18):
        raise cursors.unknown()
    return int(place)
