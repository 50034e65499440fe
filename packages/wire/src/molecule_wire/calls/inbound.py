"""What an agent receives: one message, read from a row of the activity log or inbox, or from a push."""

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from molecule_wire import JSON, JSONObject
from molecule_wire.a2a import text
from molecule_wire.calls import values

if TYPE_CHECKING:
    from molecule_wire.calls.conversations import HistoryItem, Sender

InboundSource: TypeAlias = Literal["canvas_user", "peer_agent", "schedule", "channel", "system", "unknown"]

_SOURCES: dict[str, InboundSource] = {
    "canvas_user": "canvas_user",
    "user": "canvas_user",
    "org-token": "canvas_user",
    "peer_agent": "peer_agent",
    "workspace": "peer_agent",
    "schedule": "schedule",
    "channel": "channel",
    "webhook": "channel",
    "system": "system",
}


class ReportNumbers:
    """Numbers of the progress reports under one lease. Thread-safe."""

    def __init__(self) -> None:
        self._sending = threading.Lock()
        self._last = 0

    @contextmanager
    def next(self) -> Generator[int]:
        """Hold the next number while its report is sent, so that reports arrive in order."""
        with self._sending:
            self._last += 1
            yield self._last


@dataclass(frozen=True)
class Lease:
    """The right to settle one message; `expires_at` is in seconds since the epoch."""

    token: str = field(repr=False)
    expires_at: float
    attempt: int
    epoch: int = 0
    reports: ReportNumbers = field(default_factory=ReportNumbers, repr=False, compare=False)


class CancelEvent(threading.Event):
    """An event that also calls those who listen, so that nobody has to look again and again."""

    def __init__(self) -> None:
        super().__init__()
        self._listeners: list[Callable[[], object]] = []

    def set(self) -> None:
        """Set it, and tell each listener; those of earlier calls too, who must bear that."""
        super().set()
        for called in tuple(self._listeners):
            called()

    def listen(self, called: Callable[[], object]) -> None:
        """Call this when it is set; now, if it is."""
        self._listeners.append(called)
        if self.is_set():
            called()

    def forget(self, called: Callable[[], object]) -> None:
        """Call this no longer."""
        self._listeners.remove(called)


@dataclass
class InboundMessage:
    """One message to the agent; `raw` is the row as the platform sent it.

    `caller` is who the platform says that calls, with the members of `molecule_wire.assertions.caller_of`,
    however the message came; the activity log tells neither the organisation nor the delegation context.
    `message_id` is the platform's name for it; `client_message_id`, `extensions` and `reference_task_ids`
    are what its sender named. `cancelled` is set once nobody wants the answer any more.
    """

    activity_id: str
    source: InboundSource
    source_id: str
    text: str
    raw: JSONObject = field(default_factory=dict[str, JSON], repr=False)
    peer_name: str = ""
    peer_role: str = ""
    agent_card_url: str = ""
    message_id: str = ""
    context_id: str = ""
    task_id: str = ""
    parts: list[JSON] = field(default_factory=list[JSON])
    deadline: str | None = None
    lease: Lease | None = None
    caller: JSONObject | None = None
    cancelled: threading.Event = field(default_factory=CancelEvent, repr=False, compare=False)
    client_message_id: str = ""
    extensions: list[str] = field(default_factory=list[str])
    reference_task_ids: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        """Nothing is known of the earlier turns yet."""
        self._earlier: Sequence[HistoryItem] | Callable[[], Sequence[HistoryItem]] | None = None

    @property
    def sender(self) -> "Sender":
        """Who asks."""
        from molecule_wire.calls import conversations

        return conversations.sender_of(self)

    @property
    def history(self) -> "Sequence[HistoryItem]":
        """The earlier turns of this conversation, oldest first; asked for when first looked at."""
        if callable(self._earlier):
            self._earlier = tuple(self._earlier())
        return self._earlier or ()

    def read_history_with(self, read: "Callable[[], Sequence[HistoryItem]]") -> None:
        """Say how the earlier turns are read, unless that is known already."""
        if self._earlier is None:
            self._earlier = read

    @property
    def is_reply(self) -> bool:
        """Whether this is a peer's answer, to which nothing is answered."""
        return self.raw.get("kind") == "reply"


def parse_row(row: JSONObject) -> InboundMessage | None:
    """Read one row; a row without an id is `None`."""
    activity_id = values.text_of(row.get("id"))
    if not activity_id:
        return None
    data = values.object_of(row.get("data"))
    source_id = _first(row.get("source_id"), data.get("source_id"))
    return InboundMessage(
        activity_id=activity_id,
        source=_source(_first(data.get("source"), row.get("source")), source_id),
        source_id=source_id,
        text=_first(data.get("text"), data.get("message")) or _request_text(row),
        raw=row,
        peer_name=values.text_of(data.get("peer_name")),
        peer_role=values.text_of(data.get("peer_role")),
        agent_card_url=values.text_of(data.get("agent_card_url")),
        message_id=values.text_of(data.get("message_id")),
        context_id=values.text_of(data.get("context_id")),
        task_id=values.text_of(data.get("task_id")),
        parts=_parts(row),
        deadline=values.text_of(row.get("deadline_at")) or None,
        caller=_caller(row, data),
        client_message_id=values.text_of(row.get("client_message_id")),
        extensions=values.texts_of(row.get("extensions")),
        reference_task_ids=values.texts_of(row.get("reference_task_ids")),
    )


def parse_leased(row: JSONObject) -> InboundMessage | None:
    """Read one item of a lease answer; without an id or a lease it is `None`."""
    message = parse_row(row)
    lease = _lease(values.object_of(row.get("lease")))
    if message is None or lease is None:
        return None
    message.lease = lease
    message.message_id = _first(row.get("message_id"), message.message_id, message.activity_id)
    message.source_id = message.source_id or values.text_of(row.get("peer_id"))
    message.text = message.text or values.text_of(row.get("text"))
    for name in ("peer_name", "peer_role", "agent_card_url", "context_id", "task_id"):
        setattr(message, name, _first(getattr(message, name), row.get(name)))
    return message


def parse_push(payload: JSONObject) -> InboundMessage:
    """Read the payload of a message that was delivered to the agent's own server."""
    sender = values.text_of(payload.get("sender"))
    kind, _, name = sender.partition(":")
    source = _SOURCES.get(kind, "unknown") if name else _source("", sender)
    caller = values.object_of(payload.get("caller"))
    key = values.text_of(payload.get("idempotency_key"))
    parts = payload.get("parts")
    sent = values.object_of(values.object_of(payload.get("a2a")).get("message"))
    return InboundMessage(
        activity_id=_first(key, payload.get("task_id")),
        source=source,
        source_id=name or sender if source == "peer_agent" else "",
        text=_first(payload.get("message"), payload.get("text")),
        raw=payload,
        peer_name=values.text_of(caller.get("name")) if source == "peer_agent" else "",
        message_id=key,
        context_id=values.text_of(payload.get("context_id")),
        task_id=values.text_of(payload.get("task_id")),
        parts=parts if isinstance(parts, list) else [],
        caller=caller or None,
        client_message_id=values.text_of(sent.get("messageId")),
        extensions=values.texts_of(sent.get("extensions")),
        reference_task_ids=values.texts_of(sent.get("referenceTaskIds")),
    )


def is_own_echo(message: InboundMessage, workspace_id: str) -> bool:
    """Whether a row only shows what the workspace itself said; handling it would be a loop."""
    if message.raw.get("method") == "notify":
        return True
    return message.source_id == workspace_id and _request_message(message.raw).get("role") in (
        "agent",
        "ROLE_AGENT",
    )


def _first(*candidates: JSON) -> str:
    return next((text for text in map(values.text_of, candidates) if text), "")


def _source(named: str, source_id: str) -> InboundSource:
    if named in _SOURCES:
        return _SOURCES[named]
    if source_id == "user":
        return "canvas_user"
    return "peer_agent" if source_id else "unknown"


def _caller(row: JSONObject, data: JSONObject) -> JSONObject | None:
    """The caller as an assertion would name it; the connection to the platform vouches for a row."""
    principal = values.text_of(row.get("caller"))
    if not principal:
        return None
    return {
        "principal": principal,
        "name": _first(row.get("caller_name"), row.get("peer_name"), data.get("peer_name")) or None,
        "org": values.text_of(row.get("org_id")) or None,
        "message_id": values.text_of(row.get("client_message_id")) or None,
        "row": _first(row.get("message_id"), data.get("message_id")) or None,
        "context_id": _first(row.get("context_id"), data.get("context_id")) or None,
        "delegation": values.object_of(row.get("delegation_context")) or None,
    }


def _request_message(row: JSONObject) -> JSONObject:
    params = values.object_of(values.object_of(row.get("request_body")).get("params"))
    return values.object_of(params.get("message"))


def _request_text(row: JSONObject) -> str:
    return text.text_of_message(_request_message(row))


def _parts(row: JSONObject) -> list[JSON]:
    given = row.get("parts") or _request_message(row).get("parts")
    return cast("list[JSON]", given) if isinstance(given, list) else []


def _lease(lease: JSONObject) -> Lease | None:
    token = values.text_of(lease.get("token"))
    if not token:
        return None
    return Lease(
        token=token,
        expires_at=values.moment_of(lease.get("expires_at")),
        attempt=int(values.number_of(lease.get("attempt")) or 1),
        epoch=int(values.number_of(lease.get("epoch")) or 0),
    )
