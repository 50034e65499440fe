"""What a handler gets, and what is made of what it returns."""

import json
from collections.abc import Callable
from typing import Any, TypeAlias, cast

from molecule_agent.a2a_server import http_messages
from molecule_wire import JSON, JSONObject, jsontext
from molecule_wire.a2a import envelopes, parts, text
from molecule_wire.a2a.server.turns import Turn
from molecule_wire.calls import values

Payload: TypeAlias = dict[str, Any]
Respond: TypeAlias = Callable[[Payload, http_messages.ServerRequest], Any]

# What handlers of the first generation read, who got the envelope as it came.
_ENVELOPE = ("jsonrpc", "id", "method", "params")
_TEXT_KEYS = ("text", "message", "result")


def of_message(rpc: envelopes.A2ARequest, request: http_messages.ServerRequest, turn: Turn) -> Payload:
    """The payload of an A2A message."""
    message = turn.message
    envelope = values.object_of(jsontext.decode(rpc.body))
    return {
        **{name: envelope[name] for name in _ENVELOPE if name in envelope},
        "task_id": turn.log.id,
        "sender": request.principal or values.text_of(envelope.get("sender")),
        "message": text.text_of_message(message),
        "idempotency_key": request.header("X-Molecule-Message-Id")
        or values.text_of(envelope.get("idempotency_key")),
        "context_id": turn.log.context_id,
        "parts": message.get("parts"),
        "caller": request.caller,
        "a2a": rpc.params,
    }


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
    text = next((value for key in _TEXT_KEYS if isinstance(value := result.get(key), str)), None)
    return [{"text": text}] if text is not None else [{"data": result}]
