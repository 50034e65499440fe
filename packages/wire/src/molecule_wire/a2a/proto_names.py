"""The two names of a field: 1.0 and the HTTP+JSON of 0.3 are ProtoJSON, whose readers take both.

Public clients write `message_id` where the protocol's own text says `messageId`. Metadata and data are the
caller's own and have no other names.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from molecule_wire import JSONObject
from molecule_wire.a2a import errors, operations
from molecule_wire.a2a.operations import Operation

_FIELD_NAME = re.compile(b"_[a-z]")
_SECOND_WORDS = re.compile("_([a-z])")
_NOTHING: Mapping[str, "Shape"] = {}


class Shape(NamedTuple):
    """What an object may hold: JSON names by field names, and the shapes of the objects and lists inside."""

    names: Mapping[str, str]
    inner: Mapping[str, "Shape"] = _NOTHING


def _fields(*names: str) -> Mapping[str, str]:
    """Field names with the JSON names that follow from them."""
    return {name: _SECOND_WORDS.sub(lambda found: found[1].upper(), name) for name in names}


_PART = Shape(_fields("media_type"))
_MESSAGE = Shape(_fields("message_id", "context_id", "task_id", "reference_task_ids"), {"parts": _PART})
_PUSH_CONFIG = Shape(_fields("task_id"))
_CONFIGURATION = Shape(
    _fields("accepted_output_modes", "task_push_notification_config", "history_length", "return_immediately"),
    {"taskPushNotificationConfig": _PUSH_CONFIG},
)
_SEND = Shape({}, {"message": _MESSAGE, "configuration": _CONFIGURATION})
_OF_A_TASK = Shape(_fields("task_id"))

PARAMS: Mapping[Operation, Shape] = MappingProxyType(
    {
        operations.SEND: _SEND,
        operations.STREAM: _SEND,
        operations.GET: Shape(_fields("history_length")),
        operations.LIST: Shape(
            _fields(
                "context_id",
                "page_size",
                "page_token",
                "history_length",
                "status_timestamp_after",
                "include_artifacts",
            )
        ),
        operations.CANCEL: Shape({}),
        operations.SUBSCRIBE: Shape({}),
        operations.PUSH_CREATE: _PUSH_CONFIG,
        operations.PUSH_GET: _OF_A_TASK,
        operations.PUSH_LIST: Shape(_fields("task_id", "page_size", "page_token")),
        operations.PUSH_DELETE: _OF_A_TASK,
        operations.EXTENDED_CARD: Shape({}),
    }
)
"""The params of each operation of 1.0."""

_FILE_0_3 = Shape(_fields("file_with_uri", "file_with_bytes", "mime_type"))
_MESSAGE_0_3 = Shape(
    _fields("message_id", "context_id", "task_id"), {"content": Shape({}, {"file": _FILE_0_3})}
)
_CONFIGURATION_0_3 = Shape(_fields("accepted_output_modes", "push_notification", "history_length"))

SEND_0_3 = Shape({"request": "message"}, {"message": _MESSAGE_0_3, "configuration": _CONFIGURATION_0_3})
"""The body of a send over HTTP+JSON of 0.3."""

PUSH_CREATE_0_3 = Shape(
    _fields("config_id", "push_notification_config"), {"config": Shape(_fields("push_notification_config"))}
)
"""The body of a push config over HTTP+JSON of 0.3."""


def may_stand_in(text: bytes) -> bool:
    """Whether a JSON text can hold a field name, plain or with escapes: a look that costs next to nothing."""
    return _FIELD_NAME.search(text) is not None or b"\\u" in text


def as_json(holder: JSONObject, shape: Shape) -> JSONObject:
    """The object under its JSON names: the very same object where it has no others.

    Raises -32602 for a field that is given under both names, as readers of protocol buffers refuse it.
    """
    return _renamed(holder, shape, "") if _has_other_names(holder, shape) else holder


def _has_other_names(holder: JSONObject, shape: Shape) -> bool:
    """Whether any field goes by its field name."""
    if shape.names and not shape.names.keys().isdisjoint(holder):
        return True
    for name, inner in shape.inner.items():
        value = holder.get(name)
        if isinstance(value, dict):
            if _has_other_names(value, inner):
                return True
        elif isinstance(value, list):
            for one in value:
                if isinstance(one, dict) and _has_other_names(one, inner):
                    return True
    return False


def _renamed(holder: JSONObject, shape: Shape, prefix: str) -> JSONObject:
    named: JSONObject = {}
    for name, value in holder.items():
        json_name = shape.names.get(name, name)
        if json_name != name and json_name in holder:
            sentence = f"is given twice, as {json_name} and as {name}: give one of them"
            raise errors.invalid_params(errors.Violation(f"{prefix}{json_name}", sentence))
        named[json_name] = value
    for name, inner in shape.inner.items():
        value = named.get(name)
        if isinstance(value, dict):
            named[name] = _renamed(value, inner, f"{prefix}{name}.")
        elif isinstance(value, list):
            where = f"{prefix}{name}[]."
            named[name] = [_renamed(one, inner, where) if isinstance(one, dict) else one for one in value]
    return named
