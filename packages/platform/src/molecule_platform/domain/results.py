"""What a message's sender sees: its row, the task it stands for, and the result of an answer."""

from typing import Any

from molecule_platform.domain.messages import Message
from molecule_wire import jsontext, times
from molecule_wire.a2a import convert, operations

_TASK_STATE_OF = {
    "accepted": "submitted",
    "leased": "working",
    "answered": "completed",
    "failed": "failed",
    "expired": "failed",
    "cancelled": "canceled",
}


def task_state_of(message: Message) -> str:
    """The A2A task state (0.3 spelling) of a message in the mailbox."""
    if message.status == "answered" and message.task_state:
        return message.task_state
    return _TASK_STATE_OF[message.status]


def answer_task(
    message: Message,
    state: str,
    content: dict[str, Any] | None,
    artifacts: list[Any],
    now: str,
    more: dict[str, Any] | None = None,
) -> bytes:
    """The finished task of an agent that has no task of its own, in the caller's dialect.

    `more` are members of the task beyond these.
    """
    status: dict[str, Any] = {"state": state_1_0(state), "timestamp": now}
    if content is not None:
        status["message"] = content | {"taskId": message.task_id, "contextId": message.context_id}
    named: dict[str, Any] = {"id": message.task_id, "contextId": message.context_id, "status": status}
    task = {**(more or {}), **named}
    if artifacts:
        task["artifacts"] = artifacts
    return jsontext.encode({"task": task} if message.dialect == "1.0" else convert.TO_0_3.task(task))


def answer_message(message: Message, content: dict[str, Any], metadata: dict[str, Any]) -> bytes:
    """A bare message as the answer, in the caller's dialect; `metadata` is added to its own.

    It names the context and no task: nobody needs one to go on talking.
    """
    said = {**content, "contextId": message.context_id}
    if metadata:
        said["metadata"] = {**content.get("metadata", {}), **metadata}
    return jsontext.encode({"message": said} if message.dialect == "1.0" else convert.TO_0_3.message(said))


def agent_message(message_id: str, parts: list[Any]) -> dict[str, Any]:
    """A 1.0 message from an agent."""
    return {"messageId": message_id, "role": "ROLE_AGENT", "parts": parts}


def in_dialect(task: dict[str, Any], dialect: str) -> dict[str, Any]:
    """A 1.0 task in the given dialect."""
    return task if dialect == "1.0" else convert.TO_0_3.task(task)


def snapshot(message: Message, dialect: str) -> dict[str, Any]:
    """The task as it stands, in the given dialect: the agent's own result once there is one."""
    stored = message.result_json()
    task = _task_in(stored, message) if stored is not None else _open_task(message)
    return in_dialect(task, dialect)


def _task_in(stored: dict[str, Any], message: Message) -> dict[str, Any]:
    modern: Any = stored
    if message.dialect == "0.3":
        modern = convert.FROM_0_3.result(operations.SEND, stored)
    if "task" in modern:
        return modern["task"]
    said = modern.get("message", modern)
    return _open_task(message) | {"status": _status(message) | {"message": said}}


def _open_task(message: Message) -> dict[str, Any]:
    return {"id": message.task_id, "contextId": message.context_id, "status": _status(message)}


def _status(message: Message) -> dict[str, Any]:
    at = message.finished_at or message.leased_at or message.created_at
    status: dict[str, Any] = {"state": state_1_0(task_state_of(message)), "timestamp": times.format_time(at)}
    if message.error is not None:
        said = agent_message(f"{message.id}-error", [{"text": message.error["message"]}])
        status["message"] = said | {"metadata": {"code": message.error["code"]}}
    return status


def state_1_0(state: str) -> str:
    """A task state as 1.0 writes it."""
    return "TASK_STATE_" + state.upper().replace("-", "_")


def state_0_3(state: str) -> str:
    """A task state as 0.3, and the store, write it."""
    return state.removeprefix("TASK_STATE_").lower().replace("_", "-")


def message_row(message: Message, delivery_mode: str) -> dict[str, Any]:
    """The message as `/messages/{id}` shows it."""
    return {
        "id": message.id,
        "org_id": message.org_id,
        "target_id": message.target_id,
        "caller": message.caller,
        "caller_name": message.caller_name,
        "kind": message.kind,
        "method": message.method,
        "status": message.status,
        "task_state": task_state_of(message),
        "task_id": message.task_id,
        "context_id": message.context_id,
        "delegation_id": message.delegation_id,
        "parent_message_id": message.parent_message_id,
        "priority": message.priority,
        "attempts": message.attempts,
        "max_attempts": message.max_attempts,
        "created_at": times.format_time(message.created_at),
        "deadline_at": times.format_time(message.deadline_at),
        "leased_at": _time(message.leased_at),
        "lease_expires_at": _time(message.lease_expires_at),
        "finished_at": _time(message.finished_at),
        "delivery_mode": delivery_mode,
        "result": message.result_json(),
        "error": message.error,
        "dead_letter": message.dead_letter,
        "cancel_requested": message.cancel_requested,
    }


def _time(value: Any) -> str | None:
    return None if value is None else times.format_time(value)
