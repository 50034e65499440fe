"""What agents answer, in all the forms they do, read into one."""

from collections.abc import Mapping
from typing import TypeGuard

from molecule_platform.domain.messages import Message
from molecule_platform.gateway.links import events
from molecule_platform.ports.links import Answered, Said, Unanswered, Working
from molecule_wire import JSON, JSONObject, ids, jsontext
from molecule_wire.a2a import convert, errors, operations, tasks, text
from molecule_wire.a2a.operations import Dialect

RETRIED_STATUSES = frozenset({429, 503})
OPEN_STATES = frozenset({"submitted", "working"})
RETRY_AFTER_LONGEST = 300.0
TASK_ID_LONGEST = 512


def read(
    status: int, headers: Mapping[str, str], body: bytes, message: Message, dialect: Dialect
) -> Answered | Working | Unanswered | Said:
    """An agent's HTTP answer as the outcome of a dispatch; a task that is not done is said, not answered."""
    try:
        value: JSON = jsontext.decode(body) if body.strip() else None
    except jsontext.NotJSON as problem:
        if status < 300 and not _may_be_words(headers):
            sentence = f"the agent's answer cannot be read: {problem}"
            return Unanswered("invalid-agent-response", sentence, False, delivery_confirmed=True)
        value = body.decode("utf-8", "replace") if status < 300 else None
    error = value.get("error") if isinstance(value, dict) else None
    if isinstance(error, dict) and isinstance(error.get("code"), int):
        return Answered(error=jsontext.encode(error))
    if status in RETRIED_STATUSES:
        sentence = f"the agent is busy (HTTP {status})"
        return Unanswered("peer-busy", sentence, True, retry_after=_retry_after(headers), agent_status=status)
    if status == 401:
        return Unanswered(
            "invalid-agent-response", "the agent refused the caller (HTTP 401)", False, agent_status=401
        )
    if status >= 300:
        sentence = f"the agent answered HTTP {status}"
        return Unanswered(
            "invalid-agent-response", sentence, status >= 500, status < 500, agent_status=status
        )
    if status == 202 and not _names_a_task(value):
        return Working(None)
    return _result(value, body, message, dialect)


def _may_be_words(headers: Mapping[str, str]) -> bool:
    """Whether an answer that is no JSON may be plain words: not if it says that it is something else."""
    media = headers.get("content-type", "").partition(";")[0].strip().lower()
    return media in ("", "text/plain", "text/markdown")


def _names_a_task(value: JSON) -> bool:
    result = value.get("result") if isinstance(value, dict) else None
    return isinstance(result, dict) and ("status" in result or "task" in result)


def _result(
    value: JSON, body: bytes, message: Message, dialect: Dialect
) -> Answered | Working | Unanswered | Said:
    is_framed = isinstance(value, dict) and "result" in value
    result = value["result"] if isinstance(value, dict) and is_framed else value
    converter = convert.between(dialect, "1.0")
    modern: JSON = converter.result(operations.SEND, result) if converter is not None else result
    known = modern if isinstance(modern, dict) else {}
    task, said = known.get("task"), known.get("message")
    if isinstance(task, dict):
        return _task_answer(result, task, _stored(result, known, message, dialect), dialect)
    if isinstance(said, dict):
        if is_framed and dialect == message.dialect:
            return Answered(events.frame(body).result)
        return Answered(_stored(result, known, message, dialect))
    return Answered(_for_caller({"message": _said(result, message)}, message))


def _task_answer(
    result: JSON, task: JSONObject, stored: bytes, dialect: Dialect
) -> Answered | Working | Unanswered | Said:
    state, task_id = _state_of(task), task.get("id")
    if not _is_task_id(task_id):
        return Working(None) if state in OPEN_STATES else Answered(stored, None, state)
    if state not in OPEN_STATES:
        return Answered(stored, None, state, task_id)
    try:
        return events.read(jsontext.encode(result), dialect)
    except tasks.EventRefused as refused:
        return Unanswered("invalid-agent-response", refused.message, False, delivery_confirmed=True)


def failed(error: bytes) -> Answered:
    """An agent that ended its stream with an error."""
    return Answered(error=error)


def refused(error: bytes | None) -> Unanswered:
    """An agent that answered a question about its task with an error."""
    problem = errors.from_object(jsontext.decode(error)) if error is not None else None
    sentence = problem.message if problem is not None else "the agent answered with nothing"
    forgotten = problem is not None and problem.code == errors.TASK_NOT_FOUND.code
    return Unanswered("invalid-agent-response", sentence, True, True, forgotten=forgotten)


def _is_task_id(value: JSON) -> TypeGuard[str]:
    return isinstance(value, str) and len(value) <= TASK_ID_LONGEST and "\0" not in value


def _stored(result: JSON, modern: JSONObject, message: Message, dialect: Dialect) -> bytes:
    return jsontext.encode(result) if dialect == message.dialect else _for_caller(modern, message)


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


def _state_of(task: JSONObject) -> str:
    try:
        return tasks.state_of(task).value.removeprefix("TASK_STATE_").lower().replace("_", "-")
    except tasks.EventRefused:
        return "completed"


def _retry_after(headers: Mapping[str, str]) -> float | None:
    given = headers.get("retry-after", "")
    return min(float(given), RETRY_AFTER_LONGEST) if given.isdecimal() else None
