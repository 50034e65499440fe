"""What somebody hands in for delivery, and the receipt for it."""

import itertools
from collections.abc import Callable
from dataclasses import field
from datetime import datetime

from molecule_platform.domain.messages import Message
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.tasks import Task
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.storage import Transaction
from molecule_platform.services.support.outcome_waiters import Waiter
from molecule_wire.a2a.envelopes import A2ARequest
from molecule_wire.values import value

_holders = itertools.count(1)


@value
class NewMessage:
    """A message somebody wants delivered."""

    principal: Principal
    target: Workspace
    request: A2ARequest
    idempotency_key: str | None = None
    timeout_seconds: int | None = None
    hold_seconds: float = 0.0
    never_queue: bool = False
    traceparent: str | None = None
    # Whether that trace is its own: then it goes on with the trace of what it was sent for.
    begins_trace: bool = False
    holder: str = field(default_factory=lambda: f"{next(_holders):x}")
    tenant: str = ""
    extensions: str | None = None
    request_id: str | None = None
    # Whether the same message id and the same body are the same message; else only a key makes them so.
    repeat_by_reference: bool = True
    # The task that the message continues.
    continues: Task | None = None
    # What belongs to the message and is kept in the same transaction, such as who is to be told of its task.
    also: Callable[[Transaction, Message, datetime], None] | None = None

    @property
    def may_repeat(self) -> bool:
        """Whether another request can be the same message as this one."""
        return self.idempotency_key is not None or self.repeat_by_reference


@value
class AcceptedMessage:
    """The message as accepted, and whether an earlier request had already brought it."""

    message: Message
    replayed: bool = False
    # Whom a new message goes to, as it was when the message was accepted.
    target: Workspace | None = None
    # Where the outcome is laid for a caller who waits here.
    slot: Waiter | None = None
