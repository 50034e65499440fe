"""What a handler gets, and what is made of what it returns."""

import json
from collections.abc import Callable
from typing import Any, TypeAlias, cast

from molecule_agent.a2a_server import web
from molecule_wire import JSON, JSONObject, jsontext
from molecule_wire.a2a import convert, envelopes, parts, text
from molecule_wire.calls import values

Payload: TypeAlias = dict[str, Any]
Respond: TypeAlias = Callable[[Payload, web.Incoming], Any]

_TEXT_KEYS = ("text", "message", "result")


def of_message(asked: envelopes.Request, request: web.Incoming, task_id: str, context_id: str) -> Payload:
    """The payload of an A2A message."""
    message = message_1_0(asked)
    envelope = values.object_of(jsontext.decode(asked.body))
    return {
        "task_id": task_id,
        "sender": values.text_of((request.caller or {}).get("principal") or envelope.get("sender")),
        "message": text.text_of_message(message),
        "idempotency_key": request.header("X-Molecule-Message-Id")
        or values.text_of(envelope.get("idempotency_key")),
        "context_id": context_id,
        "parts": message.get("parts"),
        "caller": request.caller,
        "a2a": asked.params,
    }


def message_1_0(asked: envelopes.Request) -> JSONObject:
    """The message of a send, in 1.0."""
    converter = convert.between(asked.dialect, "1.0")
    message = asked.message or {}
    return converter.message(message) if converter else message


def parts_of(result: Any) -> list[JSON]:
    """What a handler returned, as A2A parts of 1.0; `None` is no part at all."""
    if result is None:
        return []
    if isinstance(result, str):
        return [{"text": result}]
    if isinstance(result, dict):
        return _parts_of_dict(cast(JSONObject, result))
    return [{"data": cast(JSON, result)}]


def json_ready(value: Any) -> Any:
    """The value itself, if it can be sent: a handler's mistake must show in its turn, not in the answer."""
    json.dumps(value, allow_nan=False)
    return value


def _parts_of_dict(result: JSONObject) -> list[JSON]:
    if isinstance(result.get("parts"), list):
        return [parts.from_0_3(part) for part in values.objects_of(result["parts"])]
    said = next((value for key in _TEXT_KEYS if isinstance(value := result.get(key), str)), None)
    return [{"text": said}] if said is not None else [{"data": result}]
