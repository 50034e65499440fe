"""Answers that come as messages: how original clients reply to a peer, and to a person."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from molecule_platform.domain import authorisation, inbox, messages, principals, results, traces
from molecule_platform.domain.messages import Message, MessageOutcome
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.activity import ActivityRow
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services.events import activity_writer
from molecule_platform.services.identity import authorizer
from molecule_platform.services.messaging.messages import intake, settlement, wakeups
from molecule_platform.services.messaging.messages.message_service import MessageService
from molecule_platform.services.messaging.messages.new_message import NewMessage
from molecule_platform.services.support import event_log, signals
from molecule_wire import ids, times
from molecule_wire.a2a import convert
from molecule_wire.a2a.envelopes import A2ARequest

RECEIVED = ("cursor", "inbox")


@dataclass(frozen=True)
class ReplyResult:
    """What became of a reply: whether it completed a message, and which."""

    settled: bool
    message_id: str
    # Whether the same words came before.
    replayed: bool = False


class Replies:
    """Finds what a reply answers. It is an answer, not a call: completing a message asks nobody's leave."""

    def __init__(self, storage: Storage, clock: Clock, deliveries: MessageService, replica_id: str) -> None:
        self._storage = storage
        self._clock = clock
        self._deliveries = deliveries
        self._replica_id = replica_id

    async def reply(self, submission: NewMessage, names: list[str]) -> ReplyResult:
        """Take a peer's answer; `names` are the ids by which it says what it answers."""
        now = self._clock.now()
        item = self._deliveries.as_reply(submission, now)
        return await self._storage.write(lambda tx: self._reply(tx, submission, item, names, now))

    def _reply(
        self, tx: Transaction, submission: NewMessage, item: Message, names: list[str], now: datetime
    ) -> ReplyResult:
        answering, asker = submission.principal.workspace_id or "", submission.target
        if answering == asker.id:
            return ReplyResult(False, self._record(tx, item, now))
        before = self._said_before(tx, submission, item, now)
        if before is not None:
            return before
        answered = _named(tx, answering, asker, names) if names else _oldest(tx, answering, asker)
        if answered is not None and answered.kind == "reply":
            return ReplyResult(False, self._record(tx, item, now))
        if answered is None or not answered.is_open:
            return ReplyResult(False, self._deliver(tx, submission, item, now))
        if submission.begins_trace:
            item = item.but(traceparent=traces.within(answered.traceparent, item.traceparent))
        settlement.settle(tx, answered.id, _outcome(answered, item, now), now)
        tx.mailbox.answered_by(answered.id, item.body_hash)
        if not self._is_held(tx, answered, now):
            _keep(tx, item, now)
        return ReplyResult(True, answered.id)

    def _said_before(
        self, tx: Transaction, submission: NewMessage, item: Message, now: datetime
    ) -> ReplyResult | None:
        """The same words posted again, after a time-out for instance, answer nothing a second time."""
        if not submission.request.given_message_id:
            return None
        answered = tx.mailbox.by_reply(submission.principal.workspace_id or "", item.body_hash)
        if answered is not None:
            return ReplyResult(True, answered, replayed=True)
        since = now - messages.REPEAT_WINDOW
        first = tx.mailbox.by_reference(item.caller, item.target_id, item.message_ref, item.body_hash, since)
        return None if first is None else ReplyResult(False, first.id, replayed=True)

    def _deliver(self, tx: Transaction, submission: NewMessage, item: Message, now: datetime) -> str:
        """Words that answer nothing open: the other side finds them in its inbox."""
        self._check_access(tx, submission)
        return _keep(tx, item, now)

    def _check_access(self, tx: Transaction, submission: NewMessage) -> None:
        principal = submission.principal
        verdict = authorizer.verdict(tx, principal.workspace_id or "", submission.target, self._clock)
        if not verdict.allowed:
            raise authorisation.hierarchy_denied(principal, submission.target.id, verdict)

    def _is_held(self, tx: Transaction, answered: Message, now: datetime) -> bool:
        """Whether the asker gets the answer as the result of a call it is still waiting on."""
        if answered.held_by is None or answered.held_until is None or answered.held_until <= now:
            return False
        replica = answered.held_by.partition("/")[0]
        return replica == self._replica_id or replica in tx.presence.alive(messages.REPLICA_UNSEEN)

    def _record(self, tx: Transaction, item: Message, now: datetime) -> str:
        answering = inbox.peer_of(item.caller)
        for workspace_id, kind in ((answering, "a2a_send"), (item.target_id, "agent_log")):
            activity_writer.write(
                tx,
                ActivityRow(
                    id=ids.uuid7(),
                    org_id=item.org_id,
                    seq=tx.activity.next_seq(),
                    workspace_id=workspace_id,
                    activity_type=kind,
                    caller=item.caller,
                    created_at=now,
                    source_id=answering,
                    target_id=item.target_id,
                    method=item.method,
                    summary=intake.text_of(item),
                ),
            )
        return item.id

    async def notify(
        self, workspace: Workspace, said: str, attachments: list[Any], kind: str | None, name: str | None
    ) -> str:
        """Tell the organisation's people something; it also answers the message it replies to."""
        now = self._clock.now()

        def work(tx: Transaction) -> str:
            if kind in (None, "", "reply"):
                self._answer_person(tx, workspace, said, name, now)
            payload: dict[str, Any] = {"message": said, "workspace_id": workspace.id, "name": workspace.name}
            if attachments:
                payload["attachments"] = attachments
            if kind:
                payload["type"] = kind
            event_log.note(tx, "AGENT_MESSAGE", workspace, now, **payload)
            tx.signal(signals.mail(workspace.id))
            return _notified(tx, workspace, payload, now)

        return await self._storage.write(work)

    def _answer_person(
        self, tx: Transaction, workspace: Workspace, said: str, name: str | None, now: datetime
    ) -> None:
        held = tx.mailbox.list_leased(workspace.id, RECEIVED)
        asked = [m for m in held if inbox.source_of(m.caller) != "peer_agent"]
        if name:
            asked = [m for m in asked if name in (m.id, m.activity_id)]
        else:
            asked = [m for m in asked if m.lease_kind == "cursor"]
        if asked:
            parts = [{"text": said}]
            settlement.settle(tx, asked[0].id, _outcome_of_parts(asked[0], parts, now), now)


def _keep(tx: Transaction, item: Message, now: datetime) -> str:
    """Put a reply into the inbox of the asker. It is said only once, so a full mailbox takes it too."""
    intake.enqueue(tx, item, now)
    wakeups.wake_receiver(tx, item, now)
    return item.id


def _named(tx: Transaction, answering: str, asker: Workspace, names: list[str]) -> Message | None:
    caller = principals.workspace_principal(asker.id)
    for name in names:
        found = tx.mailbox.get(name) or tx.mailbox.by_activity(name) or tx.mailbox.by_task(answering, name)
        if found is not None and found.target_id == answering and found.caller == caller:
            return found
    return None


def _oldest(tx: Transaction, answering: str, asker: Workspace) -> Message | None:
    caller = principals.workspace_principal(asker.id)
    held = (m for m in tx.mailbox.list_leased(answering, RECEIVED) if m.caller == caller)
    return next(held, None)


def _outcome(answered: Message, item: Message, now: datetime) -> MessageOutcome:
    said = inbox.a2a_message_of(item)
    modern: dict[str, Any] = said if item.dialect == "1.0" else convert.FROM_0_3.message(said)
    return _outcome_of_parts(answered, modern.get("parts") or [], now)


def _outcome_of_parts(answered: Message, parts: list[Any], now: datetime) -> MessageOutcome:
    content = results.agent_message(ids.uuid7(), parts)
    result = results.answer_task(answered, "completed", content, [], times.format_time(now))
    return MessageOutcome("answered", result, "completed")


def _notified(tx: Transaction, workspace: Workspace, payload: dict[str, Any], now: datetime) -> str:
    row = ActivityRow(
        id=ids.uuid7(),
        org_id=workspace.org_id,
        seq=tx.activity.next_seq(),
        workspace_id=workspace.id,
        activity_type="agent_message",
        caller=principals.workspace_principal(workspace.id),
        created_at=now,
        source_id=workspace.id,
        method="notify",
        summary=str(payload["message"]),
        request_body=payload,
    )
    return activity_writer.write(tx, row).id


def names_of(request: A2ARequest, header: str | None) -> list[str]:
    """Every id by which a reply says what it answers, the header first."""
    metadata = (request.message or {}).get("metadata")
    named = metadata.get("in_reply_to") if isinstance(metadata, dict) else None
    candidates = [header, named, request.task_id, *request.reference_task_ids]
    return [name for name in candidates if isinstance(name, str) and name]


def is_reply(principal: Principal, role: str) -> bool:
    """A message from an agent to an agent in the role of the one answering."""
    return role == "agent" and principal.workspace_id is not None
