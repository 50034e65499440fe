"""Reading bodies and queries as strictly as the platform does, with the same words when they are wrong.

A shape says for each field what it may be, in the words of the message that refuses anything else.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple, cast

from molecule_agent.testing.http_messages import RequestRejected, invalid
from molecule_wire import JSON, JSONObject, jsontext


class BodySchema(NamedTuple):
    """The fields of a body; one that is closed takes no others."""

    fields: Mapping[str, str]
    required: tuple[str, ...] = ()
    closed: bool = True


def read(raw: bytes, shape: BodySchema) -> JSONObject:
    """The body, which fits its shape; what is absent stays absent."""
    try:
        body = jsontext.decode(raw or b"{}")
    except jsontext.NotJSON as problem:
        raise RequestRejected("invalid-json", f"the body is not JSON: {problem}") from problem
    if not isinstance(body, dict):
        raise invalid("", f"Expected `object`, got `{_kind(body)}`")
    for name in body:
        _check_member(name, body[name], shape)
    for name in shape.required:
        if name not in body:
            raise invalid(name, f"Object missing required field `{name}`")
    return body


def text(body: JSONObject, name: str) -> str:
    """A text of a body that was read; `""` when it is absent or null."""
    return cast(str, body.get(name) or "")


def number(body: JSONObject, name: str, otherwise: float = 0.0) -> float:
    """A number of a body that was read."""
    value = body.get(name)
    return otherwise if value is None else cast(float, value)


def bounded(name: str, value: float, least: float, most: float) -> float:
    """A number inside its bounds; another one is refused."""
    if not least <= value <= most:
        raise invalid(name, f"{name} is between {least:g} and {most:g}")
    return value


def asked_number(query: Mapping[str, str], name: str, otherwise: float, least: float, most: float) -> float:
    """A number of a query, brought to its bounds."""
    text = query.get(name, "")
    try:
        value = float(text) if text else otherwise
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise invalid(name, f"{name} is a number")
    return min(max(value, least), most)


def asked_choice(query: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    """One of a few words of a query, or nothing."""
    text = query.get(name, "")
    if text and text not in choices:
        raise invalid(name, f"{name}: Invalid enum value '{text}'")
    return text


def _check_member(name: str, value: JSON, shape: BodySchema) -> None:
    expected = shape.fields.get(name)
    if expected is None:
        if shape.closed:
            raise invalid(name, f"Object contains unknown field `{name}`")
        return
    kind, options = _kind(value), expected.split(" | ")
    if kind not in options and not (kind == "int" and "float" in options):
        raise invalid(name, f"Expected `{expected}`, got `{kind}` - at `$.{name}`")


def _kind(value: JSON) -> str:
    return next((name for kind, name in _KINDS if isinstance(value, kind)), "null")


# A boolean is a number too, so it stands before them.
_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "bool"),
    (int, "int"),
    (float, "float"),
    (str, "str"),
    (list, "array"),
    (dict, "object"),
)
