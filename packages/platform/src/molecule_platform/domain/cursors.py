"""Cursors: where a page ended, as a text that callers hand back unread."""

import base64
import json
from typing import cast

from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.workspaces import invalid

MAX_LENGTH = 8192


def written(*parts: str) -> str:
    """The cursor of a place that these parts name."""
    packed = json.dumps(parts, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def read(cursor: str, count: int) -> list[str]:
    """The parts of a cursor; refuses what no page gave."""
    if len(cursor) > MAX_LENGTH or "=" in cursor:
        raise unknown()
    try:
        packed = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        parts = json.loads(packed)
    except (ValueError, RecursionError) as problem:
        raise unknown() from problem
    if not isinstance(parts, list) or len(parts) != count:  # pyright: ignore[reportUnknownArgumentType]
        raise unknown()
    return [_text(part) for part in cast("list[object]", parts)]


def _text(part: object) -> str:
    """A part as databases keep texts: no NUL, no half of a character."""
    if not isinstance(part, str) or "\0" in part or any("\ud800" <= sign <= "\udfff" for sign in part):
        raise unknown()
    return part


def unknown() -> ApiError:
    """The cursor is none of ours."""
    return invalid("cursor", "cursor is not one that a page gave: begin again without it")
