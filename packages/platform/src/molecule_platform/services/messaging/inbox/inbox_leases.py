"""The fence of the inbox: whose message it is, and who holds it."""

from datetime import datetime

from molecule_platform.domain import credentials
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.message_access import message_not_found
from molecule_platform.domain.messages import Message, MessageOutcome
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.storage import Transaction
from molecule_platform.services.messaging.messages import settlement
from molecule_platform.services.messaging.tasks import platform_tasks


def addressed(tx: Transaction, workspace: Workspace, name: str) -> Message:
    """The message of that id, or of that activity row, in this workspace's inbox."""
    message = tx.mailbox.get(name) or tx.mailbox.by_activity(name)
    if message is None or message.target_id != workspace.id:
        raise message_not_found(name)
    return message


def check(message: Message, lease_token: str | None) -> None:
    """Let in the holder of the current lease, or anyone of the workspace while nobody holds one."""
    if not message.is_open:
        raise ApiError(
            "lease-lost", f"the message has already ended: {message.status}", status=message.status
        )
    held = message.status == "leased" and message.lease_token_hash is not None
    if lease_token is None:
        if held:
            raise ApiError(
                "lease-lost", "a worker holds this message: show its lease_token", status=message.status
            )
        return
    shown = credentials.digest(lease_token)
    if not held or not credentials.same(shown, message.lease_token_hash or ""):
        raise ApiError(
            "lease-lost", "this lease is over: the message was offered again", status=message.status
        )


def taken(tx: Transaction, message: Message, now: datetime) -> None:
    """The agent has the message: its task and its delegation are being worked on."""
    platform_tasks.work_began(tx, message, now)
    settlement.moved(tx, message, now)


def release_worker(tx: Transaction, workspace: Workspace, worker: str, now: datetime) -> None:
    """Offer again, without counting an attempt, what a worker held that has ended and was replaced."""
    for message in tx.mailbox.list_leased(workspace.id, ("inbox",)):
        if message.worker == worker:
            tx.mailbox.release(message.id, message.lease_epoch, now)
            settlement.moved(tx, message, now)


def settled(tx: Transaction, message: Message, outcome: MessageOutcome, now: datetime) -> Message:
    """End a message whose lease was checked."""
    epoch = message.lease_epoch if message.status == "leased" else None
    ended = settlement.settle(tx, message.id, outcome, now, epoch)
    if ended is None:
        raise ApiError("lease-lost", "this lease is over", status=message.status)
    return ended
