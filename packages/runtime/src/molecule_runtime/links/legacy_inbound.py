"""The body and the answer of the original push server, `POST /a2a/inbound`."""

from typing import NamedTuple

from molecule_wire import JSONObject, ids, jsontext
from molecule_wire.a2a import text
from molecule_wire.a2a.server.bindings import Response
from molecule_wire.calls import values


class LegacyMessage(NamedTuple):
    """The message as JSON-RPC, and the key under which the same message may come again."""

    rpc: bytes
    key: str


def as_rpc(body: bytes) -> LegacyMessage | Response:
    """`{task_id, sender, message, idempotency_key}` as a `SendMessage`; the refusal of another body.

    The sender is not read: who calls is what the platform signed.
    """
    try:
        request = jsontext.decode(body)
    except jsontext.NotJSON:
        return _refused("the body is not JSON")
    text = request.get("message") if isinstance(request, dict) else None
    if not isinstance(request, dict) or not isinstance(text, str):
        return _refused("message must be a text")
    names = [value for name in ("idempotency_key", "task_id") if isinstance(value := request.get(name), str)]
    key = next(filter(None, names), "")
    message: JSONObject = {"messageId": key or ids.uuid7(), "role": "ROLE_USER", "parts": [{"text": text}]}
    rpc: JSONObject = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    return LegacyMessage(jsontext.encode(rpc), key)


def answered(answer: Response) -> Response:
    """The text of the answer; a refusal stays as it is."""
    if answer.status != 200:
        return answer
    envelope = values.object_of(jsontext.decode(answer.body))
    if "error" in envelope:
        return _refused(values.text_of(values.object_of(envelope["error"]).get("message")))
    return Response(200, jsontext.encode({"status": "ok", "result": text.text_of(envelope.get("result"))}))


def _refused(why: str) -> Response:
    return Response(400, jsontext.encode({"error": f"bad request: {why}"}))
