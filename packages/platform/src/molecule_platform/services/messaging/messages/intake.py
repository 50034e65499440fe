"""A new message in the mailbox: the row, its place in the log, and a ring for whoever takes it."""

from dataclasses import replace
from datetime import datetime

from molecule_platform.domain import inbox
from molecule_platform.domain.messages import Message
from molecule_platform.ports.activity import ActivityRow
from molecule_platform.ports.storage import Transaction
from molecule_platform.services.events import activity_writer
from molecule_platform.services.support import signals
from molecule_platform.services.support.last_seen import LastSeenWriter
from molecule_wire import ids


def enqueue(
    tx: Transaction,
    message: Message,
    now: datetime,
    said: str | None = None,
    received: LastSeenWriter | None = None,
) -> Message:
    """Write a new message with its activity row, and ring for its target.

    Who has read the words already, or knows when its target last got something, spares us to do so.
    """
    numbered = tx.mailbox.insert(message)
    words = text_of(message) if said is None else said
    tx.activity.insert(
        _row(numbered, "a2a_receive", "pending", activity_writer.beginning(words), now, message.id)
    )
    if received is None:
        tx.workspaces.touch(message.target_id, last_activity_at=now)
    else:
        received.note(tx, message.target_id, now)
    if message.status == "accepted":
        tx.signal(signals.mail(message.target_id))
    tx.signal(signals.EVENTS)
    return numbered


def log_refused(tx: Transaction, message: Message, sentence: str, now: datetime) -> None:
    """Leave a trace of a message that was not accepted."""
    numbered = message.but(seq=tx.activity.next_seq())
    row = _row(numbered, "error", "error", activity_writer.beginning(text_of(message)), now, None, sentence)
    tx.activity.insert(row)


def log_failed(tx: Transaction, message: Message, now: datetime) -> None:
    """Tell a workspace in its own activity that what it sent has failed for good, when no call of it waits.

    A client that was told "queued" and never asks for the message finds it there.
    """
    sender = inbox.peer_of(message.caller)
    is_waited_for = message.held_until is not None and message.held_until > now
    if not sender or message.kind != "message" or is_waited_for:
        return
    words = activity_writer.beginning(text_of(message))
    row = _row(message, "a2a_send", "error", words, now, message.id)
    row = replace(row, id=ids.uuid7(), seq=tx.activity.next_seq(), workspace_id=sender)
    tx.activity.insert(row)
    tx.signal(signals.mail(sender))


def _row(
    message: Message,
    kind: str,
    status: str,
    summary: str,
    now: datetime,
    message_id: str | None,
    detail: str = "",
) -> ActivityRow:
    return ActivityRow(
        id=message.activity_id,
        org_id=message.org_id,
        seq=message.seq,
        workspace_id=message.target_id,
        activity_type=kind,
        caller=message.caller,
        created_at=now,
        source_id=inbox.peer_of(message.caller),
        target_id=message.target_id,
        method=message.method,
        summary=summary,
        status=status,
        error_detail=detail,
        message_id=message_id,
    )


def text_of(message: Message) -> str:
    """The words of a stored message, as far as a log keeps them."""
    return inbox.read_stored(message).text
