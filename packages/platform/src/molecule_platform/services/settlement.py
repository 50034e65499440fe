"""The end of a message: one place where an outcome is written, with everything that follows from it."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from molecule_platform.domain import activity, events, messages
from molecule_platform.domain.events import Event
from molecule_platform.domain.json_bytes import JsonBytes
from molecule_platform.domain.messages import Message, Outcome
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.storage import Transaction
from molecule_platform.services import bells, conclusions, delegations
from molecule_wire.a2a import envelopes, errors

SHOWN_MOST_BYTES = 64 * 1024

# What the sender is told of an error beside its code and its sentence; texts, as the protocol has them.
_TOLD_TOO = ("agent_status",)


def settle(
    tx: Transaction, message_id: str, outcome: Outcome, now: datetime, epoch: int | None = None
) -> Message | None:
    """End an open message, with all that follows. None when the lease or the moment is gone."""
    message = _ended(tx, message_id, outcome, now, epoch)
    if message is None:
        return None
    conclusions.conclude(tx, message, now, told=outcome.told)
    _tell_delegation(tx, message, now)
    _tell(tx, message, now)
    # Its task may have got its name just now.
    return tx.mailbox.get(message_id)


def _tell(tx: Transaction, message: Message, now: datetime) -> None:
    """Write the outcome down wherever somebody may look for it, and ring."""
    if message.kind != "reply":
        payload = {
            "message_id": message.id,
            "response_body": _kept_body(message),
            "method": message.method,
            "duration_ms": activity.duration_ms(message),
        }
        parties = events.parties_of(message.caller, message.target_id)
        tx.events.append(
            Event("A2A_RESPONSE", message.org_id, message.target_id, payload, now, parties=parties)
        )
    tx.signal(bells.settled(message.id))
    tx.signal(bells.EVENTS)
    if tx.mailbox.is_anyone_waiting(message.target_id):
        tx.signal(bells.mail(message.target_id))


def answer(tx: Transaction, message: Message, result: bytes, now: datetime) -> Message | None:
    """End a message with an agent's one bare answer: most end so, and little follows from it.

    None when more follows, or the lease is gone: then `settle` knows.
    """
    ended = tx.mailbox.answer(message, result, now)
    if ended is not None:
        _tell(tx, ended, now)
    return ended


def _ended(
    tx: Transaction, message_id: str, outcome: Outcome, now: datetime, epoch: int | None
) -> Message | None:
    """The message with its outcome, told under the ids that its sender knows."""
    if outcome.agent_task_id is not None and outcome.result is not None and not outcome.told:
        message = tx.mailbox.get(message_id)
        if message is None:
            return None
        outcome = replace(outcome, result=conclusions.as_told(tx, message, outcome.result))
    return tx.mailbox.settle(message_id, outcome, now, epoch)


def moved(tx: Transaction, message: Message, now: datetime) -> None:
    """A message was leased or offered again: whoever delegated it sees that."""
    current = tx.mailbox.get(message.id) if message.delegation_id is not None else None
    if current is not None:
        _tell_delegation(tx, current, now)


def _tell_delegation(tx: Transaction, message: Message, now: datetime) -> None:
    if message.delegation_id is not None:
        delegations.message_moved(tx, message, now)


def at_deadline(tx: Transaction, message: Message) -> Outcome:
    """What its deadline makes of a message; one that waited for an agent that did not wake has failed."""
    target = tx.workspaces.get(message.target_id)
    asleep = target is not None and target.status == "failed" and target.provision_attempts > 0
    if target is not None and asleep and message.status == "accepted" and message.kind != "reply":
        return wake_failed(target)
    return messages.expiry(message)


def wake_failed(workspace: Workspace) -> Outcome:
    """The outcome of a message whose agent could not be woken."""
    return messages.failure("wake-failed", f"{workspace.name} could not be woken: {workspace.status_reason}")


def response_body(message: Message) -> dict[str, Any] | None:
    """The answer as a JSON-RPC envelope; None while there is none, or when it is too large for a log."""
    if message.is_open or len(message.result or b"") > SHOWN_MOST_BYTES:
        return None
    if message.error is not None:
        return envelopes.error_envelope(message.message_ref, error_of(message))
    return envelopes.result_envelope(message.message_ref, message.result_json())


def _kept_body(message: Message) -> dict[str, Any] | None:
    """The same for the log, into which the bytes of an answer go as they are."""
    if message.error is not None or message.result is None or len(message.result) > SHOWN_MOST_BYTES:
        return response_body(message)
    return {"jsonrpc": "2.0", "id": message.message_ref, "result": JsonBytes(message.result)}


def error_of(message: Message) -> errors.A2AError:
    """The error that a message ended with: the agent's own where it gave one, else the platform's."""
    error = message.error or {}
    if "agent_error" in error:
        return errors.from_object(error["agent_error"])
    facts = {name: str(error[name]) for name in _TOLD_TOO if name in error}
    return errors.gateway_error(str(error["code"]), str(error["message"]), **facts)
