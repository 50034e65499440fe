"""What agents answer, in all the forms they do, read into one."""

from collections.abc import Mapping

import msgspec

from molecule_platform.agents import event_parser, response_shape
from molecule_platform.agents.response_shape import ResponseShape
from molecule_platform.domain.messages import Message
from molecule_platform.ports.agents import RETRY_REQUESTED, AgentEvent, Completed, DeliveryFailed, InProgress
from molecule_wire import JSON, JSONObject, ids, jsontext
from molecule_wire.a2a import checks, convert, errors, operations, tasks, text
from molecule_wire.a2a.operations import Dialect

RETRIED_STATUSES = frozenset({429, 503})
OPEN_STATES = frozenset({"submitted", "working"})
MAX_RETRY_AFTER_SECONDS = 300.0


def read(
    status: int, headers: Mapping[str, str], body: bytes, message: Message, dialect: Dialect
) -> Completed | InProgress | DeliveryFailed | AgentEvent:
    """An agent's HTTP answer as the outcome of a dispatch; a task that is not done is said, not answered."""
    try:
        value = _decoded(body)
    except jsontext.NotJSON as problem:
        if status < 300 and not _may_be_words(headers):
            sentence = f"the agent's answer cannot be read: {problem}"
            return DeliveryFailed("invalid-agent-response", sentence, False, delivery_confirmed=True)
        value = body.decode("utf-8", "replace") if status < 300 else None
    error = value.get("error") if isinstance(value, dict) else None
    if isinstance(error, dict) and isinstance(error.get("code"), int):
        return Completed(error=jsontext.encode(error))
    if status == 503 and isinstance(value, dict) and value.get("redeliver") is True:
        sentence = "the agent failed and asks for the message again (HTTP 503)"
        later = _retry_after(headers)
        return DeliveryFailed("peer-unavailable", sentence, True, retry_after=later, agent_status=status)
    if status in RETRIED_STATUSES:
        sentence = f"the agent is busy (HTTP {status})"
        return DeliveryFailed(
            "peer-busy", sentence, True, retry_after=_retry_after(headers), agent_status=status
        )
    if status == 401:
        return DeliveryFailed(
            "invalid-agent-response", "the agent refused the caller (HTTP 401)", False, agent_status=401
        )
    if status >= 300:
        sentence = f"the agent answered HTTP {status}"
        return DeliveryFailed(
            "invalid-agent-response", sentence, status >= 500, status < 500, agent_status=status
        )
    if status == 202 and not _names_a_task(value, dialect):
        return InProgress(None)
    return _result(value, body, message, dialect)


def _decoded(body: bytes) -> JSON:
    """The answer, None if it is empty. Raises `NotJSON`.

    Two readers agree on what is JSON and what it says. The quick one does not mind how deep it goes, and the
    other can say what is wrong.
    """
    if body.count(b"[") + body.count(b"{") > jsontext.MAX_DEPTH:
        return jsontext.decode(body)
    try:
        return msgspec.json.decode(body)
    except ValueError:
        return jsontext.decode(body) if body.strip() else None


def _may_be_words(headers: Mapping[str, str]) -> bool:
    """Whether an answer that is no JSON may be plain words: not if it says that it is something else."""
    media = headers.get("content-type", "").partition(";")[0].strip().lower()
    return media in ("", "text/plain", "text/markdown")


def _names_a_task(value: JSON, dialect: Dialect) -> bool:
    form = response_shape.of(value.get("result"), dialect) if isinstance(value, dict) else None
    return form is not None and form.kind == "task"


def _result(
    value: JSON, body: bytes, message: Message, asked: Dialect
) -> Completed | InProgress | DeliveryFailed | AgentEvent:
    is_framed = isinstance(value, dict) and "result" in value
    result = value["result"] if isinstance(value, dict) and is_framed else value
    form = response_shape.of(result, asked)
    if form is None:
        return Completed(_for_caller({"message": _said(result, message)}, message))
    if form.kind == "task":
        return _task_answer(form, message)
    whole = _whole(form)
    if whole is None:
        sentence = "the agent's answer is no valid Message: it needs a messageId, a role and parts"
        return DeliveryFailed("invalid-agent-response", sentence, False, delivery_confirmed=True)
    if is_framed and whole is result and form.dialect == message.dialect:
        return Completed(event_parser.frame(body).result)
    return Completed(_stored(whole, form.dialect, message))


def _task_answer(form: ResponseShape, message: Message) -> Completed | DeliveryFailed | AgentEvent:
    try:
        said = event_parser.read(jsontext.encode(form.result), form.dialect)
    except tasks.EventRefused as refused:
        return DeliveryFailed("invalid-agent-response", refused.sentence, False, delivery_confirmed=True)
    if said.state in OPEN_STATES:
        return said
    if said.asks_again:
        return RETRY_REQUESTED
    stored = _stored(form.result, form.dialect, message)
    return Completed(stored, None, said.state or "completed", said.task_id)


def _whole(form: ResponseShape) -> JSONObject | None:
    """The answer with its Message: as it came, or filled in where an agent of 0.3 forgot what it needs.

    None for an agent of 1.0 that forgot.
    """
    if form.dialect == "1.0":
        return form.result if checks.is_message(form.result["message"]) else None
    said = form.result
    if "kind" in said and checks.is_message(said):
        return said
    named, listed = said.get("messageId"), said.get("parts")
    return {
        "role": "agent",
        **said,
        "kind": "message",
        "messageId": named if isinstance(named, str) and named else ids.uuid7(),
        "parts": listed
        if isinstance(listed, list) and listed
        else [{"kind": "text", "text": text.text_of(said)}],
    }


def failed(error: bytes) -> Completed:
    """An agent that ended its stream with an error."""
    return Completed(error=error)


def refused(error: bytes | None) -> DeliveryFailed:
    """An agent that answered a question about its task with an error."""
    problem = errors.from_object(jsontext.decode(error)) if error is not None else None
    sentence = problem.message if problem is not None else "the agent answered with nothing"
    forgotten = problem is not None and problem.code == errors.TASK_NOT_FOUND.code
    return DeliveryFailed("invalid-agent-response", sentence, True, True, forgotten=forgotten)


def _stored(result: JSONObject, dialect: Dialect, message: Message) -> bytes:
    if dialect == message.dialect:
        return jsontext.encode(result)
    converter = convert.TO_0_3 if dialect == "1.0" else convert.FROM_0_3
    return jsontext.encode(converter.event(result))


def _for_caller(modern: JSONObject, message: Message) -> bytes:
    if message.dialect == "1.0":
        return jsontext.encode(modern)
    return jsontext.encode(convert.TO_0_3.result(operations.SEND, modern))


def _said(result: JSON, message: Message) -> JSONObject:
    """The message that an answer in no form of A2A stands for; nothing at all is a message without words."""
    words = text.text_of(result)
    is_data = not words and result not in (None, "", {}, [])
    return {
        "messageId": ids.uuid7(),
        "role": "ROLE_AGENT",
        "parts": [{"data": result} if is_data else {"text": words}],
        "contextId": message.context_id,
    }


def _retry_after(headers: Mapping[str, str]) -> float | None:
    given = headers.get("retry-after", "")
    return min(float(given), MAX_RETRY_AFTER_SECONDS) if given.isdecimal() else None
