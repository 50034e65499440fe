"""A turn: one message that an agent handles, from what came in to what went out."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from molecule_wire import JSON, JSONObject
from molecule_wire.values import value

NO_RESPONSE = "(no response generated)"
NO_TEXT = "Error: message contained no text content."

ResultState: TypeAlias = Literal["completed", "input-required", "rejected", "failed"]
RESULT_STATES: tuple[ResultState, ...] = get_args(ResultState)
EndState: TypeAlias = Literal["completed", "input-required", "rejected", "failed", "canceled"]


@dataclass(frozen=True)
class Attachment:
    """A file that came with a message, or goes with its answer."""

    name: str
    mime_type: str
    path: Path
    size: int = 0


@value
class HistoryItem:
    """One earlier word of a conversation."""

    role: Literal["user", "assistant"]
    text: str


@value
class Caller:
    """Who sent the message; only what the platform signed, or its inbox says, makes one `verified`."""

    principal: str
    name: str = ""
    org: str = ""
    verified: bool = False


@dataclass(frozen=True)
class Delegation:
    """The delegation that the message belongs to."""

    delegation_id: str = ""
    parent_task_id: str = ""
    source_workspace_id: str = ""


@dataclass(frozen=True)
class Usage:
    """What a model call cost."""

    model: str
    input_tokens: int
    output_tokens: int
    cost_usd: float | None = None


@value
class TurnRequest:
    """A message as its link delivered it.

    `message_id` is the platform's name for it where the platform sent it; `deadline` is in seconds of the
    monotonic clock. `as_task` asks for a task with events instead of one message as the answer.
    """

    message_id: str
    task_id: str
    context_id: str
    parts: list[JSON]
    attempt: int = 1
    metadata: JSONObject = field(default_factory=dict[str, JSON])
    caller: Caller | None = None
    delegation: Delegation | None = None
    traceparent: str = ""
    deadline: float | None = None
    as_task: bool = False
    continues: JSONObject | None = None
    """The task that the message goes on with, in 1.0."""


@dataclass
class TurnResult:
    """What an engine answers with."""

    text: str = ""
    attachments: list[Any] = field(default_factory=list[Any])
    state: ResultState = "completed"
    usage: Usage | None = None
    session_id: str | None = None
    metadata: JSONObject = field(default_factory=dict[str, JSON])


@value
class TurnOutcome:
    """How a turn ended, as its caller is told: `parts` are 1.0 parts, `code` names what went wrong."""

    state: EndState
    text: str
    parts: list[JSON] = field(default_factory=list[JSON])
    code: str = ""
    reference: str = ""
    retryable: bool = False
    metadata: JSONObject = field(default_factory=dict[str, JSON])


@value
class TurnEvent:
    """What happened in a turn, for counters and the audit ledger; calls are told when the turn is over.

    `text` is what was asked at the start and what was answered at the end.
    """

    operation: Literal["task_start", "llm_call", "tool_call", "task_end"]
    request: TurnRequest
    text: str = ""
    tool: str = ""
    usage: Usage | None = None
    outcome: TurnOutcome | None = None
    seconds: float = 0.0


class TurnError(Exception):
    """A failure that an adapter knows: `public_text` is told to the caller as it is.

    `reference` names the failure in the log, where the text has one.
    """

    def __init__(self, code: str, public_text: str, retryable: bool = False, reference: str = "") -> None:
        self.code = code
        self.public_text = public_text
        self.retryable = retryable
        self.reference = reference
        super().__init__(f"{code}: {public_text}")


def failure_metadata(outcome: TurnOutcome) -> JSONObject:
    """What is said of an outcome that is no plain answer."""
    if outcome.state == "completed":
        return {}
    payload: JSONObject = {
        "state": outcome.state,
        "code": outcome.code,
        "correlation_id": outcome.reference,
        "retryable": outcome.retryable,
    }
    return {"molecule": payload}
