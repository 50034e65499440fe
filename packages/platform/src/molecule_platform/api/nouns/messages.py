"""Messages: sending, looking, and the inbox of an agent."""

from typing import Annotated, Any

from msgspec import Meta, field

from molecule_platform.api.route import Route
from molecule_platform.api.shapes import NewBody, Query, RpcEnvelope, Shape
from molecule_platform.domain.authorisation import ANY, org_with, peer_with, self_with

Wait = Annotated[float, Meta(ge=0, le=60)]


class AwaitMessage(Query):
    """How long to wait for the outcome."""

    wait: Wait = 0


class MessageRow(Shape):
    """A message and, once it has one, its outcome."""

    id: str
    org_id: str
    target_id: str
    caller: str
    caller_name: str
    kind: str
    method: str
    status: str
    task_state: str | None
    task_id: str
    context_id: str
    delegation_id: str | None
    parent_message_id: str | None
    priority: int
    attempts: int
    max_attempts: int
    created_at: str
    deadline_at: str
    leased_at: str | None
    lease_expires_at: str | None
    finished_at: str | None
    delivery_mode: str
    result: Any
    error: dict[str, Any] | None
    dead_letter: bool
    cancel_requested: bool


class PeekInbox(Query):
    """How much to show, and how long to wait for something."""

    limit: Annotated[int, Meta(ge=1, le=100)] = 10
    wait: Wait = 0


class Mail(Shape):
    """Messages with what an agent needs to handle them, and how many more there are."""

    messages: list[dict[str, Any]]
    pending: int
    leased: int
    dead: int


class LeaseInbox(NewBody):
    """How many messages a worker takes, and for how long."""

    limit: int = 10
    wait: float = 0
    lease: float = 60
    kinds: list[str] = field(default_factory=list[str])
    peer_id: str | None = None
    context_id: str | None = None
    worker: str | None = None
    parallel_contexts: bool = False


class AnswerMessage(NewBody):
    """What an agent says to a message."""

    lease_token: str | None = None
    text: str | None = None
    parts: list[dict[str, Any]] | None = None
    message: dict[str, Any] | None = None
    state: str = "completed"
    artifacts: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    evidence: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    usage: dict[str, Any] | None = None


class AckMessage(NewBody):
    """The message was handled, nothing to say."""

    lease_token: str | None = None


class FailMessage(NewBody):
    """The attempt failed."""

    lease_token: str | None = None
    error: str | None = None
    reason: str | None = None
    code: str | None = None
    retryable: bool = True
    delay_seconds: float | None = None


class ReleaseMessage(NewBody):
    """The message goes back unstarted."""

    lease_token: str


class ExtendLease(NewBody):
    """The worker needs more time."""

    lease_token: str
    seconds: float = 60


class Extended(Shape):
    """Until when the lease holds now, and whether the sender wants it to end."""

    expires_at: str
    cancel_requested: bool


class Answered(Shape):
    """The message has its outcome."""

    status: str
    message_id: str


class Failed(Shape):
    """Where the message stands after a failed attempt."""

    status: str
    attempts: int
    next_attempt_at: str | None


class Released(Shape):
    """The message waits again."""

    status: str


def _inbox(name: str, verb: str, body: type[NewBody], reply: type[Shape], summary: str) -> Route:
    path = f"/workspaces/{{id}}/inbox/{{message_id}}/{verb}"
    lost = ("message-not-found", "lease-lost")
    return Route(name, "POST", path, (self_with("ws.inbox"),), summary, body, reply=reply, refusals=lost)


ROUTES = (
    Route(
        "a2a",
        "POST",
        "/workspaces/{id}/a2a",
        (self_with("ws.send"), peer_with("ws.send"), org_with("org.send")),
        "Send a message (JSON-RPC, A2A 0.3 and 1.0).",
        reply=RpcEnvelope,
        status=(200, 202),
        refusals=(
            "invalid-json",
            "invalid-request",
            "budget-exceeded",
            "hierarchy-denied",
            "idempotency-conflict",
            "mailbox-full",
            "peer-busy",
            "peer-unavailable",
            # How the agent's attempt may end while the call is held.
            "peer-unreachable",
            "invalid-agent-response",
            "skill-failed",
            "skill-timeout",
            "agent-busy",
            "deadline-exceeded",
        ),
        errors="jsonrpc",
        a2a_body=True,
        admits_itself=True,
    ),
    Route(
        "message.show",
        "GET",
        "/messages/{message_id}",
        (ANY,),
        "A message and its outcome.",
        query=AwaitMessage,
        reply=MessageRow,
        refusals=("message-not-found",),
    ),
    Route(
        "message.show",
        "GET",
        "/workspaces/{id}/a2a/queue/{message_id}",
        (ANY,),
        "The same as /messages/{message_id}.",
        query=AwaitMessage,
        reply=MessageRow,
        refusals=("message-not-found",),
    ),
    Route(
        "inbox.peek",
        "GET",
        "/workspaces/{id}/inbox",
        (self_with("ws.inbox"), org_with("org.read")),
        "What is open, without any effect.",
        query=PeekInbox,
        reply=Mail,
    ),
    Route(
        "inbox.lease",
        "POST",
        "/workspaces/{id}/inbox/lease",
        (self_with("ws.inbox"),),
        "Claim the next messages.",
        LeaseInbox,
        reply=Mail,
        quiet=True,
    ),
    _inbox("inbox.extend", "extend", ExtendLease, Extended, "Keep a lease longer."),
    _inbox("inbox.answer", "answer", AnswerMessage, Answered, "Answer a message."),
    _inbox("inbox.answer", "reply", AnswerMessage, Answered, "The same as answer."),
    _inbox("inbox.ack", "ack", AckMessage, Answered, "The message was handled, nothing to say."),
    _inbox("inbox.fail", "fail", FailMessage, Failed, "The attempt failed."),
    _inbox("inbox.fail", "nack", FailMessage, Failed, "The same as fail."),
    _inbox("inbox.release", "release", ReleaseMessage, Released, "Give a message back unstarted."),
)
