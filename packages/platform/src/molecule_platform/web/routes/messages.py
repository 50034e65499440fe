"""Messages, as their senders and operators look at them."""

from datetime import datetime
from typing import Annotated, Any, Literal, Protocol

from msgspec import UNSET, Meta, UnsetType

from molecule_platform.domain import results
from molecule_platform.domain.authorisation import org_with, peer_with, self_with
from molecule_platform.domain.message_access import READERS, STEERERS
from molecule_platform.domain.messages import STATUSES, Message
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import invalid
from molecule_platform.ports.mailbox import MailFilter
from molecule_platform.services.messaging.messages.message_queries import MessageQueries
from molecule_platform.services.messaging.messages.message_service import MessageService
from molecule_platform.services.messaging.messages.message_trees import MessageTrees
from molecule_platform.services.workspaces.directory import Directory
from molecule_platform.web.pipeline.calls import Call, Handler, Response
from molecule_platform.web.pipeline.paging import next_cursor
from molecule_platform.web.pipeline.query_parser import names
from molecule_platform.web.pipeline.route import EVENT_STREAM, Route
from molecule_platform.web.pipeline.schemas import NewBody, Query, RpcEnvelope, Schema
from molecule_wire import times

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


MAX_REASON_LENGTH = 1000


class Cancels(Protocol):
    """Somebody who calls messages off."""

    async def cancel_message(self, principal: Principal, message_id: str, reason: str | None) -> Message:
        """End the message for whoever may; raises 404, 403 or 409."""
        ...


class MessageHandlers:
    """Serves /messages and /workspaces/{id}/messages."""

    def __init__(
        self,
        delivery: MessageService,
        directory: Directory,
        messages: MessageQueries,
        trees: MessageTrees,
        cancellation: Cancels,
    ) -> None:
        self._delivery = delivery
        self._directory = directory
        self._messages = messages
        self._trees = trees
        self._cancellation = cancellation

    def handlers(self) -> dict[str, Handler]:
        """The handlers by route."""
        return {
            "message.show": self.show,
            "message.tree": self.tree,
            "message.list": self.listing,
            "message.cancel": self.cancel,
        }

    async def tree(self, call: Call) -> Response:
        """Who asked whom."""
        asked: ShowTree = call.query_params
        return Response(await self._trees.tree(call.principal, call.path["message_id"], asked.limit))

    async def show(self, call: Call) -> Response:
        """A message; with a wait, as soon as it has ended."""
        message = await self._delivery.visible(call.principal, call.path["message_id"])
        asked: AwaitMessage = call.query_params
        if message.is_open and asked.wait > 0:
            message = await self._delivery.outcome(message.id, asked.wait)
        row = await self._row(message)
        if asked.include == "history":
            row |= {"history": await self._messages.history(call.principal, message)}
        return Response(row)

    async def listing(self, call: Call) -> Response:
        """What a workspace received and sent, newest first."""
        asked: ListMessages = call.query_params
        wanted = MailFilter(
            call.workspace.id,
            asked.direction,
            _statuses(asked.status),
            None if asked.peer_id is None else asked.peer_id.lower(),
            asked.context_id,
            asked.delegation_id,
            _time(asked.since),
        )
        rows, cursor = await self._messages.page(wanted, asked.limit, asked.cursor)
        return Response({"messages": rows, "next_cursor": cursor}, headers=next_cursor(cursor))

    async def cancel(self, call: Call) -> Response:
        """Call a message off."""
        body: CancelMessage = call.body
        reason = None if body.reason is None else body.reason[:MAX_REASON_LENGTH]
        message = await self._cancellation.cancel_message(call.principal, call.path["message_id"], reason)
        return Response(await self._row(message))

    async def _row(self, message: Message) -> dict[str, object]:
        return results.message_row(message, await self._directory.delivery_mode(message.target_id))


def _statuses(given: str | None) -> frozenset[str]:
    asked = names(given)
    if not asked <= set(STATUSES):
        raise invalid("status", f"status is one of {', '.join(STATUSES)}, or several separated by commas")
    return asked


def _time(given: str | None) -> datetime | None:
    try:
        return None if given is None else times.parse_time(given)
    except ValueError as problem:
        raise invalid("since", str(problem)) from problem
