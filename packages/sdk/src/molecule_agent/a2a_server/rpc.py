"""The A2A half of the door: a JSON-RPC request becomes a turn, the turn a task in the caller's dialect."""

import uuid
from collections.abc import Callable, Hashable
from datetime import UTC, datetime
from typing import Any, TypeAlias, cast

from molecule_agent.a2a_server import turns, web
from molecule_wire import JSON, JSONObject, jsontext, times
from molecule_wire.a2a import convert, envelopes, errors, operations, parts, text, versions
from molecule_wire.calls import values

Payload: TypeAlias = dict[str, Any]
Respond: TypeAlias = Callable[[Payload, web.Incoming], Any]

_CAPABILITY_OFF = frozenset(
    {operations.STREAM, operations.SUBSCRIBE, operations.LIST, operations.CANCEL, operations.EXTENDED_CARD}
)
_PUSH = frozenset({operations.PUSH_CREATE, operations.PUSH_GET, operations.PUSH_LIST, operations.PUSH_DELETE})
_TEXT_KEYS = ("text", "message", "result")


class Rpc:
    """Answers the JSON-RPC methods of both dialects that an agent's own door has."""

    def __init__(self, respond: Respond, running: turns.Turns, handler_timeout: float) -> None:
        self._respond = respond
        self._turns = running
        self._timeout = handler_timeout

    def answer(self, request: web.Incoming) -> web.Outgoing:
        """Answer one request; protocol errors are HTTP 200, as the protocol wants."""
        try:
            return self._answer(request)
        except errors.A2AError as error:
            return web.answer(200, envelopes.error_envelope(error.rpc_id, error))

    def _answer(self, request: web.Incoming) -> web.Outgoing:
        if not is_json(request.header("Content-Type")):
            raise errors.protocol_error(errors.CONTENT_TYPE_NOT_SUPPORTED)
        version = versions.named(request.header("A2A-Version"), request.query.get("A2A-Version"))
        asked = envelopes.parse_request(request.body, version=version, lenient=False)
        try:
            result = self._result(asked, request)
        except errors.A2AError as error:
            error.rpc_id = asked.id
            raise
        converter = convert.between("1.0", asked.dialect)
        said = converter.result(asked.operation, result) if converter else result
        return web.answer(200, envelopes.result_envelope(asked.id, said))

    def _result(self, asked: envelopes.Request, request: web.Incoming) -> JSON:
        if asked.operation is operations.SEND:
            return {"task": self._send(asked, request)}
        if asked.operation is operations.GET:
            return self._get(asked)
        if asked.operation in _PUSH:
            raise errors.protocol_error(errors.PUSH_NOTIFICATION_NOT_SUPPORTED)
        if asked.operation in _CAPABILITY_OFF:
            raise errors.protocol_error(errors.UNSUPPORTED_OPERATION)
        raise errors.protocol_error(errors.METHOD_NOT_FOUND)

    def _send(self, asked: envelopes.Request, request: web.Incoming) -> JSONObject:
        if asked.task_id:
            self._refuse_task(asked.task_id)
        task_id, context_id = str(uuid.uuid4()), asked.context_id or str(uuid.uuid4())
        payload = _payload(asked, request, task_id, context_id)
        about: JSONObject = {"id": task_id, "contextId": context_id, "message": _message_1_0(asked)}
        key = redelivery_key(request)
        turn = self._turns.start(task_id, key, lambda: self._respond(payload, request), about)
        if asked.blocking:
            turn.wait(self._timeout)
        return _task(turn, values.object_of(asked.params.get("configuration")))

    def _get(self, asked: envelopes.Request) -> JSON:
        turn = self._turns.find(asked.task_id or "")
        if turn is None or "id" not in turn.about:
            raise errors.protocol_error(errors.TASK_NOT_FOUND)
        return _task(turn, asked.params)

    def _refuse_task(self, task_id: str) -> None:
        """No task of this door waits for another message: it runs, or it has ended."""
        if self._turns.find(task_id) is None:
            raise errors.protocol_error(errors.TASK_NOT_FOUND)
        raise errors.protocol_error(errors.UNSUPPORTED_OPERATION, "This task takes no further message")


def redelivery_key(request: web.Incoming) -> Hashable | None:
    """What is equal on each delivery of one message by the platform."""
    return request.header("X-Molecule-Message-Id") or None


def is_json(content_type: str) -> bool:
    """Whether a content type is JSON; none at all is taken for it."""
    media_type = content_type.partition(";")[0].strip().lower()
    return not media_type or media_type == "application/json" or media_type.endswith("+json")


def parts_of(result: Any) -> list[JSON]:
    """What a handler returned, as A2A parts of 1.0; `None` is no part at all."""
    if result is None:
        return []
    if isinstance(result, str):
        return [{"text": result}]
    if isinstance(result, dict):
        return _parts_of_dict(cast(JSONObject, result))
    return [{"data": cast(JSON, result)}]


def _parts_of_dict(result: JSONObject) -> list[JSON]:
    if isinstance(result.get("parts"), list):
        return [parts.from_0_3(part) for part in values.objects_of(result["parts"])]
    said = next((value for key in _TEXT_KEYS if isinstance(value := result.get(key), str)), None)
    return [{"text": said}] if said is not None else [{"data": result}]


def _payload(asked: envelopes.Request, request: web.Incoming, task_id: str, context_id: str) -> Payload:
    message = _message_1_0(asked)
    envelope = values.object_of(jsontext.decode(request.body))
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


def _message_1_0(asked: envelopes.Request) -> JSONObject:
    converter = convert.between(asked.dialect, "1.0")
    message = asked.message or {}
    return converter.message(message) if converter else message


def _task(turn: turns.Turn, configuration: JSONObject) -> JSONObject:
    context_id = turn.about["contextId"]
    task: JSONObject = {"id": turn.name, "contextId": context_id, "status": _status(turn)}
    history: list[JSON] = [{**values.object_of(turn.about["message"]), "taskId": turn.name}]
    length = configuration.get("historyLength")
    if length != 0:
        task["history"] = history
    return task


def _status(turn: turns.Turn) -> JSONObject:
    now = times.format_time(datetime.now(UTC))
    if not turn.finished:
        return {"state": "TASK_STATE_WORKING", "timestamp": now}
    state = "TASK_STATE_FAILED" if turn.failure else "TASK_STATE_COMPLETED"
    said = [{"text": f"internal error: {turn.failure}"}] if turn.failure else turn.result
    status: JSONObject = {"state": state, "timestamp": now}
    if said:
        status["message"] = {
            "messageId": str(uuid.uuid5(uuid.NAMESPACE_OID, turn.name)),
            "role": "ROLE_AGENT",
            "parts": cast(JSON, said),
            "taskId": turn.name,
            "contextId": turn.about["contextId"],
        }
    return status
