"""The two names of a field: HTTP+JSON of 0.3 is the JSON of protocol buffers, whose readers take both.

Public clients of 0.3 write `message_id` where the protocol's own text says `messageId`.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple, cast

from molecule_wire import JSON, JSONObject

_SECOND_WORDS = re.compile("_([a-z])")
_NOTHING: Mapping[str, "Shape"] = {}


class Shape(NamedTuple):
    """What an object may hold: JSON names by field names, and the shapes of the objects and lists inside."""

    names: Mapping[str, str]
    inner: Mapping[str, "Shape"] = _NOTHING


def _fields(*names: str) -> Mapping[str, str]:
    """Field names with the JSON names that follow from them."""
    return {name: _SECOND_WORDS.sub(lambda found: found[1].upper(), name) for name in names}


_FILE = Shape(_fields("file_with_uri", "file_with_bytes", "mime_type"))
_PART = Shape({}, {"file": _FILE})
_MESSAGE = Shape(_fields("message_id", "context_id", "task_id"), {"content": _PART})
_CONFIGURATION = Shape(_fields("accepted_output_modes", "push_notification", "history_length"))
_TASK_CONFIG = Shape(_fields("push_notification_config"))

SEND = Shape({"request": "message"}, {"message": _MESSAGE, "configuration": _CONFIGURATION})
"""The body of a send."""

PUSH_CREATE = Shape(_fields("config_id", "push_notification_config"), {"config": _TASK_CONFIG})
"""The body of a push config."""


def as_json(body: JSONObject, shape: Shape) -> JSONObject:
    """The object under its JSON names; where both names stand, the JSON name counts."""
    named = {shape.names.get(name, name): value for name, value in body.items()}
    named |= {name: body[name] for name in shape.names.values() if name in body}
    for name, inner in shape.inner.items():
        if name in named:
            named[name] = _inside(named[name], inner)
    return named


def _inside(value: JSON, shape: Shape) -> JSON:
    if isinstance(value, list):
        return [_inside(one, shape) for one in value]
    return as_json(cast("JSONObject", value), shape) if isinstance(value, dict) else value
