"""Limits of the activity log: secrets stay out of it, and so do bodies over 64 KiB."""

from typing import Any

from molecule_wire import jsontext, redaction

MAX_BODY_BYTES = 64 * 1024
MAX_ERROR_CHARACTERS = 4000


def loggable(body: Any) -> Any:
    """Return a body without its secrets, or a note of its size when it is too large."""
    if body is None:
        return None
    size = len(jsontext.encode(body))
    if size > MAX_BODY_BYTES:
        return {"note": f"the body is not kept: it has {size} bytes, a log keeps {MAX_BODY_BYTES}"}
    return redaction.redact_json(body, redaction.LOG)


def loggable_error(text: str) -> str:
    """Return the start of an error text without secrets."""
    return redaction.redact_start(text, MAX_ERROR_CHARACTERS, redaction.LOG)
