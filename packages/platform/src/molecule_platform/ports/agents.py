"""The ways to an agent, as delivery uses them."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from molecule_platform.domain.messages import Message
from molecule_platform.domain.tasks import EventKind
from molecule_platform.domain.workspaces import Workspace
from molecule_wire import JSONObject
from molecule_wire.a2a.operations import Dialect
from molecule_wire.values import value


@value
class Delivery:
    """One attempt to hand a message to an agent that has a URL."""

    target: Workspace
    message: Message
    dispatch_secret: str | None
    seconds: float
    # The agent's name for the task that the message goes on with, where its sender knows it by another.
    task_id: str | None = None


@value
class AgentEvent:
    """One event of a task as its agent said it, and what of it decides anything."""

    kind: EventKind
    payload: bytes
    dialect: Dialect
    task_id: str | None = None
    context_id: str | None = None
    state: str | None = None
    artifact_ids: tuple[str, ...] = ()
    append: bool = False
    asks_again: bool = False
    """Whether the agent has failed and asks to be given the message again."""
    renamed: bytes | None = None
    """The payload under the ids that the sender knows, where that was written already."""


Tell = Callable[[Sequence[AgentEvent]], Awaitable[None]]
"""Takes what the agent said, in order; returns when it is on disk. What it raises ends the reading."""


@value
class Completed:
    """The agent's answer: JSON bytes of the result in the dialect of the message, or of a JSON-RPC error.

    With neither, the answer is what was told as events.
    """

    result: bytes | None = None
    error: bytes | None = None
    task_state: str = "completed"
    agent_task_id: str | None = None


@value
class InProgress:
    """The agent took the work and is not done: it must be asked, by the id of its task if it gave one."""

    task_id: str | None


@value
class DeliveryFailed:
    """No usable answer came: a code of the shared table, and whether another try makes sense.

    `forgotten` is an agent that does not know the task it was asked about.
    """

    code: str
    sentence: str
    retryable: bool
    delivery_confirmed: bool = False
    retry_after: float | None = None
    agent_status: int | None = None
    forgotten: bool = False

    @property
    def came_after_delivery(self) -> bool:
        """Whether the agent had the message: it said more to it, by whatever status, than that it is busy."""
        return self.delivery_confirmed or (self.agent_status is not None and self.code != "peer-busy")


RETRY_REQUESTED = DeliveryFailed(
    "peer-unavailable",
    "the agent failed and asks for the message again",
    retryable=True,
    delivery_confirmed=True,
    forgotten=True,
)


class RetryRequested(Exception):
    """The agent has failed and asks for the message again: the end of its task is not told as an answer."""


class ResponseTooLarge(Exception):
    """An agent said more than one answer may hold. The message ends: a second stream would say the same."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence


class AgentClient(Protocol):
    """A way to reach an agent.

    Every fault of the agent or the network comes back as `Unanswered`; only cancellation, `AnswerTooLong` and
    what `tell` raises, is raised. The caller's credential is not known here and so cannot be sent.
    """

    async def deliver(self, dispatch: Delivery, tell: Tell) -> Completed | InProgress | DeliveryFailed:
        """Hand the message over and wait for the outcome, for at most `dispatch.seconds`."""
        ...

    async def follow(
        self, dispatch: Delivery, task_id: str, tell: Tell
    ) -> Completed | InProgress | DeliveryFailed:
        """Go on hearing a task that the agent works on: the task as it stands first, then what is new."""
        ...

    async def look(self, dispatch: Delivery, task_id: str) -> AgentEvent | DeliveryFailed:
        """Ask how a task does."""
        ...

    async def cancel(self, dispatch: Delivery, task_id: str, said: JSONObject | None = None) -> Any:
        """Ask the agent to stop, in the words of whoever wants it. What it answers decides nothing."""
        ...


class PassthroughClient(Protocol):
    """A way to ask an agent what only it understands."""

    async def relay(self, dispatch: Delivery) -> Completed | DeliveryFailed:
        """Ask in the caller's own bytes."""
        ...
