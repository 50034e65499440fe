"""JSON values: what a step may return and what a journal holds."""

import math
from typing import Any, cast

from molecule_wire import JSON

MAX_DEPTH = 200


def json_value(value: Any) -> JSON:
    """The value as plain JSON, tuples as lists. Raises TypeError for what JSON cannot say, with its place."""
    return _plain(value, "value", 0)


def _plain(value: Any, place: str, depth: int) -> JSON:
    if depth > MAX_DEPTH:
        raise TypeError(f"{place[:80]} is nested more than {MAX_DEPTH} deep")
    if value is None or isinstance(value, str | bool | int):
        return _text(value, place) if isinstance(value, str) else value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise TypeError(f"{place} is {value}, which is not JSON")
        return value
    if isinstance(value, list | tuple):
        items = cast("list[Any]", value)
        return [_plain(one, f"{place}[{index}]", depth + 1) for index, one in enumerate(items)]
    if isinstance(value, dict):
        members = cast("dict[Any, Any]", value)
        if not all(isinstance(name, str) for name in members):
            raise TypeError(f"{place} has a key that is not a text")
        return {
            _text(name, place): _plain(one, f"{place}[{name!r}]", depth + 1) for name, one in members.items()
        }
    kind = type(value).__name__
    advice = "; return value.model_dump(mode='json')" if hasattr(value, "model_dump") else ""
    raise TypeError(f"{place} is a {kind}, which is not JSON{advice}")


def _text(value: str, place: str) -> str:
    if value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        raise TypeError(f"{place} has an unpaired surrogate, which is not JSON") from None
    return value
