"""Messages: sending them, and looking at what became of them."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from molecule_platform.domain.authorisation import org_with, peer_with, self_with
from molecule_platform.domain.message_access import READERS, STEERERS
from molecule_platform.web.pipeline.route import EVENT_STREAM, Route
from molecule_platform.web.pipeline.schemas import NewBody, Query, RpcEnvelope, Schema

Wait = Annotated[float, Meta(ge=0, le=60)]


class AwaitMessage(Query):
    """How long to wait for the outcome; `include=history` adds the conversation before the message."""

    wait: Wait = 0
    include: Literal["history"] | None = None


class ConversationTurn(Schema):
    """What was said earlier in the conversation: by the one who asks (`user`), or by the agent."""

    role: Literal["user", "agent"]
    text: str
    parts: list[Any]
    at: str


class MessageRow(Schema):
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
    history: list[ConversationTurn] | UnsetType = UNSET


class TreeMessage(Schema):
    """A message in the tree of those who asked each other; `error` says why it failed."""

    id: str
    parent_message_id: str | None
    caller: str
    caller_name: str
    target_id: str
    target_name: str
    kind: str
    status: str
    delegation_id: str | None
    created_at: str
    leased_at: str | None
    finished_at: str | None
    waited_ms: int
    worked_ms: int | None
    attempts: int
    error: dict[str, Any] | None


class MessageTree(Schema):
    """What a message was sent for, up to the first one, and everything sent below that; parents first."""

    root: str
    messages: list[TreeMessage]
    truncated: bool


class ShowTree(Query):
    """How many messages at most."""

    limit: Annotated[int, Meta(ge=1, le=1000)] = 200


class ListMessages(Query):
    """Which messages, newest first; several statuses are separated by commas."""

    direction: Literal["in", "out"] | None = None
    status: str | None = None
    peer_id: str | None = None
    context_id: str | None = None
    delegation_id: str | None = None
    since: str | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    cursor: str | None = None


class MessagePage(Schema):
    """A page of messages."""

    messages: list[MessageRow]
    next_cursor: str | None


class CancelMessage(NewBody):
    """Why it is called off."""

    reason: str | None = None


class FollowMessage(Query):
    """The number of the last A2A event seen; the header Last-Event-ID says the same."""

    since: str | None = None


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
            "delegation-limit",
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
        limit="a2a",
        admits_itself=True,
        quiet=True,
    ),
    Route(
        "message.show",
        "GET",
        "/messages/{message_id}",
        READERS,
        "A message and its outcome.",
        query=AwaitMessage,
        reply=MessageRow,
        refusals=("message-not-found",),
    ),
    Route(
        "message.show",
        "GET",
        "/workspaces/{id}/a2a/queue/{message_id}",
        READERS,
        "The same as /messages/{message_id}.",
        query=AwaitMessage,
        reply=MessageRow,
        refusals=("message-not-found",),
    ),
    Route(
        "message.tree",
        "GET",
        "/messages/{message_id}/tree",
        READERS,
        "Who asked whom: the messages that lead to this one and that follow from it.",
        query=ShowTree,
        reply=MessageTree,
        refusals=("message-not-found",),
    ),
    Route(
        "message.list",
        "GET",
        "/workspaces/{id}/messages",
        (self_with("ws.inbox"), org_with("org.read")),
        "What a workspace received and sent, newest first.",
        query=ListMessages,
        reply=MessagePage,
        removed_too=True,
    ),
    Route(
        "message.cancel",
        "POST",
        "/messages/{message_id}/cancel",
        STEERERS,
        "Call a message off.",
        CancelMessage,
        reply=MessageRow,
        refusals=("message-not-found", "not-cancelable"),
    ),
    Route(
        "message.events",
        "GET",
        "/messages/{message_id}/events",
        READERS,
        "What happens to a message, as server-sent events.",
        query=FollowMessage,
        reply=str,
        refusals=("message-not-found",),
        media=EVENT_STREAM,
        stream=True,
    ),
    Route(
        "task.events",
        "GET",
        "/workspaces/{id}/tasks/{task_id}/events",
        READERS,
        "The A2A events of a task, as server-sent events.",
        query=FollowMessage,
        reply=str,
        refusals=("not-found",),
        media=EVENT_STREAM,
        stream=True,
    ),
)
