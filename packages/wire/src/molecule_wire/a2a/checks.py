"""What the params of a request must hold, and which fields are wrong when they do not."""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Literal, TypeAlias

from molecule_wire import JSON, JSONObject
from molecule_wire.a2a import member_types, members, operations, parts, task_lists, tenants
from molecule_wire.a2a.errors import Violation

Role: TypeAlias = Literal["user", "agent"]

ROLES: Mapping[str, Role] = MappingProxyType(
    {"user": "user", "agent": "agent", "ROLE_USER": "user", "ROLE_AGENT": "agent"}
)
"""Every spelling of a role, read on every door: what one door lets in, the next must not refuse."""

INLINE_PUSH: Mapping[operations.Dialect, str] = MappingProxyType(
    {"1.0": "taskPushNotificationConfig", "0.3": "pushNotificationConfig"}
)
"""Where the configuration of a send names whom to notify."""

MAX_ID_LENGTH = members.MAX_ID_LENGTH
MAX_VIOLATIONS = 64
"""How many wrong fields one refusal names: enough to mend a request, too few to flood an answer or a log."""

_REQUIRED = members.REQUIRED
_CONTENTS = frozenset(parts.CONTENTS)
_SENDS = (operations.SEND, operations.STREAM)
_PLAIN_MESSAGE = frozenset({"messageId", "role", "parts"})
_PLAIN_MESSAGE_IN_CONTEXT = _PLAIN_MESSAGE | {"contextId"}


def violations(
    operation: operations.Operation,
    dialect: operations.Dialect,
    params: JSONObject,
    *,
    lenient: bool = False,
) -> tuple[Violation, ...]:
    """The fields of the params that are missing or wrong, the first 64 of them."""
    if operation in _SENDS and _is_plain(params):
        return ()
    return tuple(islice(_all_violations(operation, dialect, params, lenient), MAX_VIOLATIONS))


def is_message(message: JSON) -> bool:
    """Whether a message has all that it must: what the answers of agents are held to."""
    return isinstance(message, dict) and _is_made_of(message, is_part)


def _is_made_of(message: JSONObject, is_part: Callable[[JSON], bool]) -> bool:
    """Whether a message has an id, a role, and nothing but such parts."""
    message_id, role, listed = message.get("messageId"), message.get("role"), message.get("parts")
    return (
        isinstance(message_id, str)
        and message_id != ""
        and isinstance(role, str)
        and role in ROLES
        and isinstance(listed, list)
        and len(listed) > 0
        and all(map(is_part, listed))
    )


def _is_plain(params: JSONObject) -> bool:
    """Whether the params of a send are texts and data and nothing else, as most are: then all is right."""
    message = params.get("message")
    if not isinstance(message, dict):
        return False
    if message.keys() == _PLAIN_MESSAGE_IN_CONTEXT:
        if not _is_plain_id(message["contextId"]):
            return False
    elif message.keys() != _PLAIN_MESSAGE:
        return False
    if len(params) > 1 and params != {"message": message, "configuration": {}}:
        return False
    return _is_made_of(message, _is_plain_part) and _is_plain_id(message["messageId"])


def _is_plain_id(named: JSON) -> bool:
    return isinstance(named, str) and 0 < len(named) <= MAX_ID_LENGTH and "\0" not in named


def _is_plain_part(part: JSON) -> bool:
    return isinstance(part, dict) and len(part) == 1 and (isinstance(part.get("text"), str) or "data" in part)


def _all_violations(
    operation: operations.Operation, dialect: operations.Dialect, params: JSONObject, lenient: bool
) -> Iterator[Violation]:
    if operation in _SENDS:
        yield from _message(params.get("message"))
        if not lenient:
            yield from member_types.violations(params)
        if "configuration" in params:
            yield from _configuration(params["configuration"])
    elif operation is operations.LIST:
        yield from task_lists.violations(params)
    else:
        yield from _named(operation.required(dialect), params)
        yield from members.history_length(params)
    if "metadata" in params:
        yield from members.member_object(params, "metadata")
    if dialect == "1.0" and "tenant" in params:
        yield from tenants.violations(params)


def _named(names: tuple[str, ...], params: JSONObject) -> Iterator[Violation]:
    for name in names:
        if name == "url":
            yield from members.text(params, name)
        elif name != "pushNotificationConfig":
            yield from members.named(params, name)
        elif not isinstance(params.get(name), dict):
            yield Violation(name, "must be an object")


def _message(message: JSON) -> Iterator[Violation]:
    if not isinstance(message, dict):
        yield Violation("message", _REQUIRED if message is None else "must be an object")
        return
    yield from members.named(message, "messageId", "message.")
    for name in ("contextId", "taskId"):
        if name in message:
            yield from members.named_if_given(message, name, "message.")
    yield from _role(message.get("role"))
    yield from _parts(message.get("parts"))
    if "referenceTaskIds" in message:
        yield from _references(message["referenceTaskIds"])
    if "metadata" in message:
        yield from members.member_object(message, "metadata", "message.")


def _role(role: JSON) -> Iterator[Violation]:
    if role is None:
        yield Violation("message.role", _REQUIRED)
    elif not isinstance(role, str) or role not in ROLES:
        yield Violation("message.role", "must be ROLE_USER or ROLE_AGENT (0.3: user or agent)")


def _parts(listed: JSON) -> Iterator[Violation]:
    if not isinstance(listed, list) or not listed:
        yield Violation("message.parts", _REQUIRED if listed is None else "must be a list with a part in it")
        return
    for place, part in enumerate(listed):
        if not is_part(part):
            sentence = "must hold exactly one of text, raw, url and data (0.3: a kind and its content)"
            yield Violation(f"message.parts[{place}]", sentence)


def is_part(part: JSON) -> bool:
    """Whether a part holds exactly one content, in either version."""
    if not isinstance(part, dict):
        return False
    contents = part.keys() & _CONTENTS
    if len(contents) != 1 or "file" in part:
        return _is_unusual_part(part)
    name = contents.pop()
    return name == "data" or isinstance(part[name], str)


def _is_unusual_part(part: JSONObject) -> bool:
    """With a 0.3 file, or with more than one content of which all but one may be null."""
    read = parts.from_0_3(part)
    given = [name for name in parts.CONTENTS if read.get(name) is not None]
    if not given:
        return "data" in read
    return len(given) == 1 and (given == ["data"] or isinstance(read[given[0]], str))


def _references(listed: JSON) -> Iterator[Violation]:
    if listed is None:
        return
    if not isinstance(listed, list) or not set(map(type, listed)) <= {str}:
        yield Violation("message.referenceTaskIds", "must be a list of task ids")


def _configuration(configuration: JSON) -> Iterator[Violation]:
    if configuration is None:
        return
    if not isinstance(configuration, dict):
        yield Violation("configuration", "must be an object")
        return
    for name in ("blocking", "returnImmediately"):
        yield from members.flag(configuration, name, "configuration.")
    yield from members.history_length(configuration, "configuration.")
    for name in INLINE_PUSH.values():
        yield from members.member_object(configuration, name, "configuration.")
