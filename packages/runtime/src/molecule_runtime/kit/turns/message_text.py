"""Reading messages of any A2A SDK version, or of none: objects with parts, and plain dictionaries."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

MAX_HISTORY_ITEMS = 1000


def text_of_parts(parts: object) -> str:
    """The text of every part, joined by one space: `.text`, else `.root.text`, else the member `text`."""
    if isinstance(parts, str | bytes | Mapping) or not isinstance(parts, Iterable):
        return ""
    texts = (_part_text(part) for part in cast("Iterable[object]", parts))
    return " ".join(text for text in texts if text).strip()


def text_of_message(message: object) -> str:
    """The text of a message."""
    return text_of_parts(member(message, "parts"))


def history_of(context: object) -> list[tuple[str, str]]:
    """The earlier words of a conversation as `("human"|"ai", text)`, from `metadata.history`.

    The metadata of the message wins over that of the request; what cannot be understood is left out.
    """
    message = member(context, "message")
    for source in (member(message, "metadata"), member(context, "metadata")):
        history = member(source, "history")
        if isinstance(history, Iterable) and not isinstance(history, str | bytes | Mapping):
            items = list(cast("Iterable[object]", history))[-MAX_HISTORY_ITEMS:]
            return [entry for item in items if (entry := _history_item(item)) is not None]
    return []


def member(value: object, name: str) -> Any:
    """A member of a mapping or an attribute of an object; `None` when there is none."""
    if isinstance(value, Mapping):
        mapping = cast("Mapping[str, object]", value)
        return mapping[name] if name in mapping else None  # noqa: SIM401 - a protobuf Struct has no get
    return getattr(value, name, None)


def _part_text(part: object) -> str:
    for holder in (part, member(part, "root")):
        text = member(holder, "text")
        if isinstance(text, str) and text:
            return text
    return ""


def _history_item(item: object) -> tuple[str, str] | None:
    if isinstance(item, tuple | list):
        pair = list(cast("Iterable[object]", item))
        role, text = pair if len(pair) == 2 else (None, None)
    else:
        role = member(item, "role")
        text = member(item, "text") or member(item, "content") or text_of_parts(member(item, "parts"))
    if not isinstance(text, str) or not text.strip():
        return None
    is_human = str(role).lower().removeprefix("role_") in ("user", "human")
    return ("human" if is_human else "ai", text)
