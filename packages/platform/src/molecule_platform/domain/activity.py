"""How a message shows in the activity log of its receiver."""

from typing import Any

from molecule_platform.domain.log_limits import loggable_error
from molecule_platform.domain.messages import Message

_STATUS_OF = {"answered": "ok", "failed": "error", "expired": "timeout", "cancelled": "error"}


def outcome_of(message: Message) -> dict[str, Any]:
    """The members of its row that follow from how the message stands."""
    if message.is_open or message.finished_at is None:
        return {"status": "pending", "duration_ms": None, "error_detail": ""}
    return {
        "status": _STATUS_OF[message.status],
        "duration_ms": duration_ms(message),
        "error_detail": "" if message.error is None else loggable_error(str(message.error["message"])),
    }


def duration_ms(message: Message) -> int:
    """From when an ended message was accepted to its end."""
    assert message.finished_at is not None
    return int((message.finished_at - message.created_at).total_seconds() * 1000)
