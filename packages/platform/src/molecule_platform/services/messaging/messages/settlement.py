"""The end of a message: one place where an outcome is written, with everything that follows from it."""

from dataclasses import replace
from datetime import datetime

from molecule_platform.domain import messages
from molecule_platform.domain.messages import Message, MessageOutcome
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.agents import Completed
from molecule_platform.ports.storage import Transaction
from molecule_platform.services.messaging.delegations import delegation_state
from molecule_platform.services.messaging.messages import intake
from molecule_platform.services.messaging.tasks import task_completion
from molecule_platform.services.support import signals
from molecule_wire import jsontext


def settle(
    tx: Transaction, message_id: str, outcome: MessageOutcome, now: datetime, epoch: int | None = None
) -> Message | None:
    """End an open message, with all that follows. None when the lease or the moment is gone."""
    message = _ended(tx, message_id, outcome, now, epoch)
    if message is None:
        return None
    task_completion.complete_task(tx, message, now, told=outcome.told)
    _tell_delegation(tx, message, now)
    if message.status in ("failed", "expired"):
        intake.log_failed(tx, message, now)
    _ring(tx, message)
    # Its task may have got its name just now.
    return tx.mailbox.get(message_id)


def _ring(tx: Transaction, message: Message) -> None:
    """Call whoever waits for this end, or for the place that it leaves."""
    tx.signal(signals.settled(message.id))
    tx.signal(signals.EVENTS)
    if tx.mailbox.is_anyone_waiting(message.target_id):
        tx.signal(signals.mail(message.target_id))


def answer(tx: Transaction, message: Message, result: bytes, now: datetime) -> Message | None:
    """End a message with an agent's one bare answer: most end so, and little follows from it.

    None when more follows, or the lease is gone: then `settle` knows.
    """
    ended = tx.mailbox.answer(message, result, now)
    if ended is not None:
        _ring(tx, ended)
    return ended


def _ended(
    tx: Transaction, message_id: str, outcome: MessageOutcome, now: datetime, epoch: int | None
) -> Message | None:
    """The message with its outcome, told under the ids that its sender knows."""
    if outcome.agent_task_id is not None and outcome.result is not None and not outcome.told:
        message = tx.mailbox.get(message_id)
        if message is None:
            return None
        outcome = replace(outcome, result=task_completion.rewrite_ids(tx, message, outcome.result))
    return tx.mailbox.settle(message_id, outcome, now, epoch)


def moved(tx: Transaction, message: Message, now: datetime) -> None:
    """A message was leased or offered again: whoever delegated it sees that."""
    current = tx.mailbox.get(message.id) if message.delegation_id is not None else None
    if current is not None:
        _tell_delegation(tx, current, now)


def _tell_delegation(tx: Transaction, message: Message, now: datetime) -> None:
    if message.delegation_id is not None:
        delegation_state.message_moved(tx, message, now)


def at_deadline(tx: Transaction, message: Message) -> MessageOutcome:
    """What its deadline makes of a message; one that waited for an agent that did not wake has failed."""
    target = tx.workspaces.get(message.target_id)
    asleep = target is not None and target.status == "failed" and target.provision_attempts > 0
    if target is not None and asleep and message.status == "accepted" and message.kind != "reply":
        return wake_failed(target)
    return messages.expiry(message)


def wake_failed(workspace: Workspace) -> MessageOutcome:
    """The outcome of a message whose agent could not be woken."""
    return messages.failure("wake-failed", f"{workspace.name} could not be woken: {workspace.status_reason}")


def is_bare_message(reply: Completed) -> bool:
    """Return True if the agent answered with a message, or an error, and no task."""
    return reply.agent_task_id is None and reply.task_state == "completed"


def outcome_of(reply: Completed) -> MessageOutcome:
    """Return the outcome that an agent's single answer gives a message."""
    if reply.error is None:
        return MessageOutcome("answered", reply.result, reply.task_state, agent_task_id=reply.agent_task_id)
    error = jsontext.decode(reply.error)
    text = error.get("message") if isinstance(error, dict) else None
    sentence = text if isinstance(text, str) else "the agent answered with an error"
    return messages.failure("skill-failed", sentence, dead_letter=False, agent_error=error)
