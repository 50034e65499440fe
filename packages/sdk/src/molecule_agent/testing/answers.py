"""What an agent says to a message over the inbox, in either dialect of A2A, read as 1.0."""

from typing import cast

from molecule_agent.testing import request_bodies
from molecule_agent.testing.http_messages import invalid, object_in
from molecule_agent.testing.mailbox import state_1_0
from molecule_agent.testing.records import Message
from molecule_wire import JSON, JSONObject, ids
from molecule_wire.a2a import convert

STATES = ("completed", "rejected", "input-required", "auth-required")
TASK_STATES = (*STATES, "failed", "canceled")
CONTENTS = ("text", "parts", "message", "task")


def check_state(state: str, allowed: tuple[str, ...]) -> None:
    """Refuse a state in which nothing has been answered."""
    if state not in allowed:
        raise invalid("state", f"state is one of {', '.join(allowed)}; what goes on is progress")


def check_artifact(artifact: JSONObject) -> None:
    """Refuse an artifact without a name or without parts."""
    if not isinstance(artifact.get("artifactId"), str) or not artifact["artifactId"]:
        raise invalid("artifact", "an artifact has an artifactId, the same for each piece of it")
    if not isinstance(artifact.get("parts"), list):
        raise invalid("artifact", "an artifact has a list of parts")


def answer_of(body: JSONObject, task: JSONObject | None) -> tuple[JSONObject | None, str]:
    """What the agent says at the end, as a 1.0 message, and the state it leaves its task in."""
    if sum(body.get(name) is not None for name in CONTENTS) != 1:
        raise invalid("text", "an answer has exactly one of text, parts, message and task")
    state = request_bodies.text(body, "state")
    if task is not None:
        status = object_in(task.get("status"))
        named = str(status.get("state", "")).removeprefix("TASK_STATE_").lower().replace("_", "-")
        message = status.get("message")
        return None if message is None else _message_in(object_in(message)), state or named
    if body.get("message") is not None:
        return _message_in(object_in(body["message"])), state or "completed"
    parts = [{"text": body["text"]}] if body.get("parts") is None else body["parts"]
    return _message_in({"parts": cast(JSON, parts)}), state or "completed"


def _message_in(body: JSONObject) -> JSONObject:
    parts = body.get("parts")
    if not isinstance(parts, list):
        raise invalid("message", "a message has a list of parts")
    if not isinstance(body.get("metadata"), dict | None):
        raise invalid("message", "the metadata of a message is an object")
    rest = {name: value for name, value in body.items() if name not in ("taskId", "contextId", "kind")}
    return rest | message_of(
        [convert.FROM_0_3.part(object_in(part)) for part in parts], body.get("messageId")
    )


def message_of(parts: list[JSON], message_id: JSON = None) -> JSONObject:
    """A 1.0 message from the agent."""
    return {"messageId": message_id or ids.uuid7(), "role": "ROLE_AGENT", "parts": parts}


def artifacts_of(body: JSONObject, task: JSONObject | None) -> list[JSONObject]:
    """The artifacts that come with an answer, each with a name."""
    artifacts = [*_list(body.get("artifacts")), *_list((task or {}).get("artifacts"))]
    named = [
        {"artifactId": f"artifact-{number}", **object_in(one)}
        for number, one in enumerate(artifacts, start=1)
    ]
    for artifact in named:
        check_artifact(artifact)
    return named


def more_of(body: JSONObject, task: JSONObject | None) -> JSONObject:
    """Members of the task beside those that every answer has."""
    named = ("id", "contextId", "status", "artifacts", "kind")
    more = {name: value for name, value in (task or {}).items() if name not in named}
    if body.get("usage"):
        more["metadata"] = {**object_in(more.get("metadata")), "usage": body["usage"]}
    return more


def _list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []


def stays_message(message: Message, body: JSONObject, state: str) -> bool:
    """Whether an answer stays a bare message: it was given as one, and no task must say more."""
    artifacts = body.get("artifacts") or message.task.get("artifacts")
    return body.get("message") is not None and state == "completed" and not artifacts


def is_same(message: Message, reply: JSONObject | None, state: str, *, bare: bool) -> bool:
    """Whether the message was answered with this very content."""
    result = object_in(message.result)
    if message.status != "answered" or bare != (result.get("kind") == "message"):
        return False
    if bare:
        return convert.FROM_0_3.message(result).get("parts") == (reply or {}).get("parts")
    status = object_in(convert.FROM_0_3.task(result).get("status"))
    before = object_in(status.get("message")).get("parts")
    return status.get("state") == state_1_0(state) and before == (reply or {}).get("parts")
