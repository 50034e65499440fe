"""The ways to an agent, as delivery uses them."""

from dataclasses import dataclass
from typing import Protocol

from molecule_platform.domain.messages import Message
from molecule_platform.domain.workspaces import Workspace


@dataclass(frozen=True)
class Dispatch:
    """One attempt to hand a message to an agent that has a URL."""

    target: Workspace
    message: Message
    dispatch_secret: str | None
    seconds: float


@dataclass(frozen=True)
class Answered:
    """The agent's answer: JSON bytes of the result in the dialect of the message, or of a JSON-RPC error."""

    result: bytes | None = None
    error: bytes | None = None
    task_state: str = "completed"
    agent_task_id: str | None = None


@dataclass(frozen=True)
class Unanswered:
    """No usable answer came: a code of the shared table, and whether another try makes sense."""

    code: str
    sentence: str
    retryable: bool
    delivery_confirmed: bool = False
    retry_after: float | None = None
    agent_status: int | None = None


class AgentLink(Protocol):
    """A way to reach an agent."""

    async def deliver(self, dispatch: Dispatch) -> Answered | Unanswered:
        """Hand the message over and wait for the outcome, for at most `dispatch.seconds`.

        Every fault of the agent or the network comes back as `Unanswered`; only cancellation is raised. The
        caller's credential is not known here and so cannot be sent.
        """
        ...
