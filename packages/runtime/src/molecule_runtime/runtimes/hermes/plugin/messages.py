"""Messages that wait for an answer: what was received, and the FIFO of each chat."""

import asyncio
import ipaddress
import json
from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import urlsplit

MAX_BODY_BYTES = 8 * 1024 * 1024
MAX_WAITING = 1000
MAX_REMEMBERED = 10_000

_REQUIRED = ("chat_id", "content", "message_id", "callback_url")
_OPTIONAL = ("peer_id", "peer_name")


class BadRequest(ValueError):
    """The body of a request cannot be used; the text says why."""


@dataclass(eq=False)
class InboundMessage:
    """One message, from its request to its answer."""

    chat_id: str
    content: str
    message_id: str
    callback_url: str
    peer_id: str
    peer_name: str
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the caller got its answer, or wants none any more."""
    is_cancelled: bool = False


def parse_object(data: bytes) -> dict[str, Any]:
    """The JSON object of a body; raises `BadRequest`."""
    try:
        body: Any = json.loads(data)
    except (ValueError, RecursionError):
        raise BadRequest("the body is not JSON") from None
    if not isinstance(body, dict):
        raise BadRequest("the body is not a JSON object")
    return cast("dict[str, Any]", body)


def parse_message(body: dict[str, Any], allowed_hosts: frozenset[str]) -> InboundMessage:
    """The message of a body; raises `BadRequest`."""
    for name in (*_REQUIRED, *_OPTIONAL):
        value = body.get(name)
        if value is None and name in _OPTIONAL:
            continue
        if not isinstance(value, str):
            raise BadRequest(f"{name} must be a string")
        if not value.strip() and name in _REQUIRED:
            raise BadRequest(f"{name} must not be empty")
    check_callback(body["callback_url"], allowed_hosts)
    return InboundMessage(
        chat_id=body["chat_id"],
        content=body["content"],
        message_id=body["message_id"],
        callback_url=body["callback_url"],
        peer_id=body.get("peer_id") or body["chat_id"],
        peer_name=body.get("peer_name") or body["chat_id"],
    )


def check_callback(url: str, allowed_hosts: frozenset[str]) -> None:
    """Refuse an address that is neither on this host nor allowed: answers would leave the host."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise BadRequest("callback_url is no URL") from None
    if parts.scheme != "http" or not host or parts.username is not None:
        raise BadRequest("callback_url must be an http URL without a user")
    if not (_is_loopback(host) or host in allowed_hosts or f"{host}:{port}" in allowed_hosts):
        raise BadRequest("callback_url must be on this host, or its host in MOLECULE_A2A_CALLBACK_ALLOW")


def parse_hosts(text: str) -> frozenset[str]:
    """The hosts of a list with commas or blanks."""
    return frozenset(text.lower().replace(",", " ").split())


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


@dataclass(eq=False)
class Chat:
    """The FIFO of one chat. Hermes has at most one of its messages in hand."""

    waiting: deque[InboundMessage] = field(default_factory=deque[InboundMessage])
    in_hand: InboundMessage | None = None
    worker: "asyncio.Task[None] | None" = None


class Chats:
    """All chats that have a message, and the ids of messages that were accepted lately."""

    def __init__(self) -> None:
        self._chats: dict[str, Chat] = {}
        self._accepted: OrderedDict[str, None] = OrderedDict()

    def accept(self, message: InboundMessage) -> bool:
        """Queue a message; False when one of the same id was accepted before."""
        if message.message_id in self._accepted:
            return False
        self._accepted[message.message_id] = None
        if len(self._accepted) > MAX_REMEMBERED:
            self._accepted.popitem(last=False)
        self.chat(message.chat_id).waiting.append(message)
        return True

    def chat(self, chat_id: str) -> Chat:
        """The chat of this id, made when it is missing."""
        return self._chats.setdefault(chat_id, Chat())

    def in_hand(self, chat_id: str) -> InboundMessage | None:
        """The message of the chat that hermes works on."""
        chat = self._chats.get(chat_id)
        return None if chat is None else chat.in_hand

    def forget(self, chat_id: str) -> None:
        """Drop a chat without messages."""
        self._chats.pop(chat_id, None)

    def find(self, message_id: str) -> tuple[Chat, InboundMessage] | None:
        """An unanswered message and its chat."""
        for chat in self._chats.values():
            for message in _unanswered(chat):
                if message.message_id == message_id:
                    return chat, message
        return None

    def unanswered(self) -> list[InboundMessage]:
        """Every message whose caller still waits."""
        return [message for chat in self._chats.values() for message in _unanswered(chat)]

    def workers(self) -> "list[asyncio.Task[None]]":
        """The tasks that serve the chats."""
        return [chat.worker for chat in self._chats.values() if chat.worker is not None]

    def clear(self) -> None:
        """Forget all chats; the accepted ids stay."""
        self._chats.clear()


def _unanswered(chat: Chat) -> Iterator[InboundMessage]:
    if chat.in_hand is not None:
        yield chat.in_hand
    yield from chat.waiting
