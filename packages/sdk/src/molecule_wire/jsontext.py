"""JSON as bytes: a strict reader, a compact writer, and edits that leave every other byte as it was."""

import json
import math
from collections.abc import Iterable, Mapping
from typing import NoReturn

from molecule_wire import JSON

MAX_DEPTH = 256
"""How deep objects and arrays may nest: what was read can then also be written, on any stack."""

_TOO_DEEP = f"the text is nested more than {MAX_DEPTH} deep"
_WHITESPACE = " \t\n\r"


class NotJSON(ValueError):
    """The bytes are no JSON text: send UTF-8 JSON without NaN, Infinity or unpaired surrogates."""


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError("a number beyond the range of a double")
    return number


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)
_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def decode(body: bytes) -> JSON:
    """Read one JSON text in UTF-8; integers keep all digits. Raises NotJSON, whatever the bytes are."""
    try:
        text = body.decode()
        value: JSON = _DECODER.decode(text)
        if "\\ud" in text or "\\uD" in text:
            encode(value)
    except (ValueError, RecursionError) as problem:
        raise NotJSON(_sentence(problem)) from problem
    if text.count("[") + text.count("{") > MAX_DEPTH and _depth_exceeds(value, MAX_DEPTH):
        raise NotJSON(_TOO_DEEP)
    return value


def encode(value: JSON) -> bytes:
    """Write a value compactly."""
    return _ENCODER.encode(value).encode()


def set_members(body: bytes, path: tuple[str, ...], members: Mapping[str, JSON]) -> bytes:
    """Set members of the object at `path` in a JSON text that `decode` accepted; all other bytes stay."""
    text = body.decode()
    opening = _object_at(text, path)
    spans = _spans(text, opening)
    added = {name: value for name, value in members.items() if name not in spans}
    replaced = [(spans[name], members[name]) for name in members if name in spans]
    for (start, end), value in sorted(replaced, key=lambda edit: edit[0], reverse=True):
        text = text[:start] + encode(value).decode() + text[end:]
    if added:
        separator = "," if spans else ""
        text = text[: opening + 1] + encode(added).decode()[1:-1] + separator + text[opening + 1 :]
    return text.encode()


def _object_at(text: str, path: tuple[str, ...]) -> int:
    opening = _skip_whitespace(text, 0)
    for name in path:
        opening = _spans(text, opening)[name][0]
    return opening


def _spans(text: str, opening: int) -> dict[str, tuple[int, int]]:
    """Where each member's value begins and ends; of repeated names the last counts, as for `decode`."""
    spans: dict[str, tuple[int, int]] = {}
    position = _skip_whitespace(text, opening + 1)
    while text[position] != "}":
        name, position = _DECODER.raw_decode(text, position)
        start = _skip_whitespace(text, _skip_whitespace(text, position) + 1)
        _, end = _DECODER.raw_decode(text, start)
        spans[name] = (start, end)
        position = _skip_whitespace(text, end)
        if text[position] == ",":
            position = _skip_whitespace(text, position + 1)
    return spans


def _skip_whitespace(text: str, position: int) -> int:
    while text[position] in _WHITESPACE:
        position += 1
    return position


def _depth_exceeds(value: JSON, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [child for container in level for child in _children(container)]
        if not level:
            return False
    return any(isinstance(value, dict | list) for value in level)


def _children(value: JSON) -> Iterable[JSON]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _sentence(problem: Exception) -> str:
    if isinstance(problem, json.JSONDecodeError):
        return f"{problem.msg} at line {problem.lineno}, column {problem.colno}"
    if isinstance(problem, UnicodeError):
        return "the text is not UTF-8 or holds an unpaired surrogate"
    if isinstance(problem, RecursionError):
        return _TOO_DEEP
    return "a number in the text is too large or not JSON"
