"""Conversations: the turns of a context between two sides, as one of them remembers them."""

from collections.abc import Iterable
from typing import Any

from molecule_platform.domain import inbox, principals, results
from molecule_platform.domain.messages import Message
from molecule_wire import JSON, jsontext, times
from molecule_wire.a2a import parts as a2a_parts
from molecule_wire.a2a import text

KINDS = ("message", "delegation", "schedule", "channel", "system")
"""What is said to somebody; a reply, or the report of a delegation, repeats the answer of another message."""

MAX_ITEMS = 50
MAX_BYTES = 64 * 1024
MAX_STORED_BYTES = 4 * MAX_BYTES
"""What is read for it: a stored answer holds its text twice, and a request has an envelope."""


def history(message: Message, earlier: Iterable[Message]) -> list[dict[str, Any]]:
    """The newest turns before a message, the oldest first; `earlier` are its messages, oldest first."""
    items = [item for one in earlier for item in _turns(one, message.target_id)]
    kept: list[dict[str, Any]] = []
    size = 0
    for item in reversed(items[-MAX_ITEMS:]):
        size += len(jsontext.encode(item))
        if size > MAX_BYTES:
            break
        kept.append(item)
    return kept[::-1]


def _turns(message: Message, agent_id: str) -> list[dict[str, Any]]:
    """What was said in one message, and what was answered."""
    by_agent = message.caller == principals.workspace_principal(agent_id)
    asked, answered = ("agent", "user") if by_agent else ("user", "agent")
    said = inbox.a2a_message_of(message).get("parts")
    turns = [_item(asked, {"parts": said}, said, message.created_at)]
    if message.status == "answered" and message.result is not None:
        task = results.snapshot(message, "1.0")
        told: Any = task.get("status", {}).get("message") or {}
        made = [part for artifact in task.get("artifacts") or () for part in artifact.get("parts", ())]
        turns.append(_item(answered, task, told.get("parts") or made, message.finished_at))
    return [turn for turn in turns if turn["parts"]]


def _item(role: str, said: Any, parts: JSON, at: Any) -> dict[str, Any]:
    given = parts if isinstance(parts, list) else []
    listed = [a2a_parts.from_0_3(part) for part in given if isinstance(part, dict)]
    return {"role": role, "text": text.text_of(said), "parts": listed, "at": times.format_time(at)}
