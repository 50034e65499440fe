"""What became of an ended message, as others are told of it."""

from typing import Any

from molecule_platform.domain import activity
from molecule_platform.domain.events import RESPONSE, Event, parties_of
from molecule_platform.domain.messages import Message
from molecule_wire import errors as platform_errors
from molecule_wire.a2a import envelopes, errors

MAX_SHOWN_BYTES = 64 * 1024

# What the sender is told of an error beside its code and its sentence; texts, as the protocol has them.
_TOLD_TOO = ("agent_status",)


def event(message: Message, number: int, said: Any) -> Event:
    """The event that tells how a message ended; `said` is its `body`."""
    assert message.finished_at is not None
    payload = {
        "message_id": message.id,
        "response_body": said,
        "method": message.method,
        "duration_ms": activity.duration_ms(message),
    }
    parties = parties_of(message.caller, message.target_id)
    return Event(RESPONSE, message.org_id, message.target_id, payload, message.finished_at, number, parties)


def body(message: Message) -> dict[str, Any] | None:
    """The answer as a JSON-RPC envelope; None while there is none, or when it is too large for a log."""
    if message.is_open or len(message.result or b"") > MAX_SHOWN_BYTES:
        return None
    if message.error is not None:
        return envelopes.error_envelope(message.message_ref, error_of(message))
    return envelopes.result_envelope(message.message_ref, message.result_json())


def error_of(message: Message) -> errors.A2AError:
    """The error that a message ended with: the agent's own where it gave one, else the platform's."""
    error = message.error or {}
    if "agent_error" in error:
        return errors.from_object(error["agent_error"])
    code = str(error["code"])
    facts = {name: str(error[name]) for name in _TOLD_TOO if name in error}
    return errors.gateway_error(
        code if platform_errors.is_known(code) else "internal", str(error["message"]), **facts
    )
