"""What is said to an agent: in which dialect, by which method, in which bytes."""

import functools

from molecule_platform.domain import dispatch, inbox
from molecule_platform.domain.messages import Message
from molecule_platform.domain.workspaces import Workspace
from molecule_wire import JSONObject, ids, jsontext
from molecule_wire.a2a import envelopes, operations, text
from molecule_wire.a2a.operations import Dialect, Operation

_MESSAGE = ("params", "message")
_SEND_FOR = {operations.STREAM.method(dialect): operations.SEND.method(dialect) for dialect in ("1.0", "0.3")}


def dialect_of(target: Workspace, callers: str) -> Dialect:
    """The dialect to speak to an agent: the caller's where the agent has it, else the one that it has."""
    return _dialect(target.spoken, callers)


@functools.lru_cache(maxsize=256)
def _dialect(spoken: frozenset[str], callers: str) -> Dialect:
    modern = any(version.startswith("1.") for version in spoken)
    old = not spoken or any(version.startswith("0.") for version in spoken)
    if callers == "1.0":
        return "1.0" if modern else "0.3"
    return "0.3" if old else "1.0"


def streams(target: Workspace) -> bool:
    """Whether the agent's card says that it streams."""
    capabilities = (target.agent_card or {}).get("capabilities")
    return isinstance(capabilities, dict) and capabilities.get("streaming") is True  # pyright: ignore[reportUnknownMemberType]


def body_for(target: Workspace, message: Message, dialect: Dialect, task_id: str | None = None) -> bytes:
    """The stored bytes, changed only where the agent lacks the dialect or the way to stream.

    An agent of the original SDK also finds the members that its server expects.
    """
    legacy = dispatch.is_legacy(target.url)
    body = message.body if task_id is None else _about(message.body, task_id)
    if dialect != message.dialect:
        version = "1.0" if message.dialect == "1.0" else None
        body = envelopes.body_in(envelopes.parse_request(body, version=version, lenient=True), dialect)
    if message.method in _SEND_FOR and not streams(target):
        body = jsontext.set_members(body, (), {"method": operations.SEND.method(dialect)})
    return jsontext.set_members(body, (), _old_members(message)) if legacy else body


def _about(body: bytes, task_id: str) -> bytes:
    """The request about a task as the agent knows it; the context is then the agent's own, too."""
    renamed = jsontext.set_members(body, _MESSAGE, {"taskId": task_id})
    return jsontext.without_member(renamed, _MESSAGE, "contextId")


def _old_members(message: Message) -> JSONObject:
    return {
        "task_id": message.task_id,
        "sender": message.caller,
        "message": text.text_of_message(inbox.a2a_message_of(message)),
        "idempotency_key": message.id,
    }


def ask(
    operation: Operation, dialect: Dialect, task_id: str, tenant: str, said: JSONObject | None = None
) -> bytes:
    """A question about a task: all that its caller said, with the agent's own name for the task."""
    params: JSONObject = {**(said or {}), "id": task_id}
    if tenant and dialect == "1.0":
        params["tenant"] = tenant
    method = operation.method(dialect)
    return jsontext.encode({"jsonrpc": "2.0", "id": ids.uuid7(), "method": method, "params": params})
