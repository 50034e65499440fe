"""JSON as bytes: a strict reader, a compact writer, and edits that leave every other byte as it was.

A text may be as large and as hostile as a door lets in, so whatever is proportional to it runs in C, and
reading a text in order to edit it (`locate`, then `with_members`) decodes it only once.
"""

import gc
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from json import encoder
from typing import Any, NamedTuple, NoReturn, TypeAlias

from molecule_wire import JSON, JSONObject

MAX_DEPTH = 256
"""How deep objects and arrays may nest: what was read can then also be written, on any stack."""

Path: TypeAlias = tuple[str, ...]
"""The names that lead from the outermost object of a text to an object inside it."""

_TOO_DEEP = f"the text is nested more than {MAX_DEPTH} deep"
_SPACE = r"[ \t\n\r]*+"
_NAME = rf'{_SPACE}"((?:[^"\\\x00-\x1f]++|\\.)*+)"{_SPACE}:{_SPACE}'
_BLANK = re.compile(_SPACE)
_FIRST_MEMBER = re.compile(_NAME)
_NEXT_MEMBER = re.compile(f"{_SPACE},{_NAME}")
_CLOSING = re.compile(rf"{_SPACE}\}}")
_COMMA = re.compile(rf"{_SPACE},{_SPACE}")
_PAIR = r"\\u[dD][89abAB]..\\u[dD][c-fC-F].."
_PAIRED = re.compile(rf"(?:[^\\]++|\\[^u]|\\u[^dD]|\\u[dD][0-7]|{_PAIR})*+")


class NotJSON(ValueError):
    """The bytes are no JSON text: send UTF-8 JSON without NaN, Infinity or unpaired surrogates."""


class Place(NamedTuple):
    """Where an object stands in a text: its opening brace, and the members asked for.

    `spans` are the places of their values, `names` is where each of them begins with its name.
    """

    opening: int
    spans: Mapping[str, tuple[int, int]]
    names: Mapping[str, int]
    empty: bool


class Located(NamedTuple):
    """A decoded text that knows the places of some of its objects; `text` is the whole of it."""

    value: JSON
    text: str
    places: Mapping[Path, Place]


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError("a number beyond the range of a double")
    return number


class _NameTwice(ValueError):
    """An object has one name twice."""


def _unique(pairs: list[tuple[str, JSON]]) -> JSONObject:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _NameTwice
    return members


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)
_UNIQUE_DECODER = json.JSONDecoder(
    parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_unique
)


def _prepared(ensure_ascii: bool) -> Callable[[JSON, int], Iterable[str]]:
    """Writes values in pieces of text.

    `JSONEncoder.encode` makes the same object of C for each value anew; that takes half the time of a small
    one. A Python without it writes more slowly.
    """
    whole = json.JSONEncoder(separators=(",", ":"), ensure_ascii=ensure_ascii, allow_nan=False)
    make: Any = getattr(encoder, "c_make_encoder", None)
    if make is None:
        return lambda value, level: whole.iterencode(value)
    quote = encoder.encode_basestring_ascii if ensure_ascii else encoder.encode_basestring
    pieces: Callable[[JSON, int], Iterable[str]] = make(
        None, whole.default, quote, None, ":", ",", False, False, False
    )
    return pieces


_pieces, _ascii_pieces = _prepared(ensure_ascii=False), _prepared(ensure_ascii=True)


def decode(body: bytes) -> JSON:
    """Read one JSON text in UTF-8; integers keep all digits. Raises NotJSON, whatever the bytes are."""
    try:
        text = body.decode()
        return _checked(_value(text), text)
    except (ValueError, RecursionError) as problem:
        raise NotJSON(_sentence(problem)) from problem


def decode_unique(body: bytes) -> JSON:
    """Read like `decode`, and refuse an object with one name twice: readers differ in which one counts."""
    try:
        text = body.decode()
        return _checked(_value(text, _UNIQUE_DECODER), text)
    except (ValueError, RecursionError) as problem:
        raise NotJSON(_sentence(problem)) from problem


def locate(body: bytes, path: Path, names: Collection[str]) -> Located:
    """Read like `decode`, and note the places of the objects along `path` with their members `names`.

    An object on the path that is missing, or is no object, has no place.
    """
    try:
        located = _located(body.decode(), path, names)
        _checked(located.value, located.text)
    except (ValueError, RecursionError) as problem:
        raise NotJSON(_sentence(problem)) from problem
    return located


def with_members(located: Located, edits: Mapping[Path, Mapping[str, JSON]]) -> bytes:
    """The text with members set in objects that have a place; all other bytes stay.

    A name that `locate` was not told of must not be a member yet.
    """
    changes = [
        change for path, members in edits.items() for change in _changes(located.places[path], members)
    ]
    pieces: list[str] = []
    done = 0
    for start, end, replacement in sorted(changes):
        pieces += (located.text[done:start], replacement)
        done = end
    return "".join([*pieces, located.text[done:]]).encode()


def encode(value: JSON) -> bytes:
    """Write a value compactly. Raises ValueError for NaN, and for what is too deep or holds itself."""
    return _written(value).encode()


def encode_ascii(value: JSON) -> bytes:
    """Write like `encode`, with escapes: also what holds an unpaired surrogate."""
    return _written(value, _ascii_pieces).encode()


def _written(value: JSON, pieces: Callable[[JSON, int], Iterable[str]] = _pieces) -> str:
    try:
        return "".join(pieces(value, 0))
    except RecursionError:
        raise ValueError("the value is nested too deeply, or holds itself") from None


def set_members(body: bytes, path: Path, members: Mapping[str, JSON]) -> bytes:
    """Set members of the object at `path` in a JSON text that `decode` accepted; all other bytes stay."""
    return with_members(_located(body.decode(), path, members), {path: members})


def without_member(body: bytes, path: Path, name: str) -> bytes:
    """Take a member out of the object at `path`, however often it stands there; all other bytes stay."""
    text = body.decode()
    while True:
        place = _located(text, path, (name,)).places.get(path)
        if place is None or name not in place.spans:
            return text.encode()
        start, end = place.names[name], place.spans[name][1]
        following = _COMMA.match(text, end)
        before = text[:start].rstrip(" \t\n\r")
        if following is None and before.endswith(","):
            start = len(before) - 1
        text = text[:start] + text[end if following is None else following.end() :]


def _changes(place: Place, members: Mapping[str, JSON]) -> list[tuple[int, int, str]]:
    changes = [
        (*place.spans[name], _written(value)) for name, value in members.items() if name in place.spans
    ]
    added = {name: value for name, value in members.items() if name not in place.spans}
    if added:
        after = place.opening + 1
        changes.append((after, after, _written(added)[1:-1] + ("" if place.empty else ",")))
    return changes


def _located(text: str, path: Path, names: Collection[str]) -> Located:
    opening = _end_of(_BLANK, text, 0)
    if not text.startswith("{", opening):
        return Located(_value(text), text, {})
    value, end, places = _opened(text, opening, path, names)
    _check_over(text, end)
    return Located(value, text, {path[:steps]: place for steps, place in enumerate(places)})


def _value(text: str, decoder: json.JSONDecoder = _DECODER) -> JSON:
    """Read one text; most begin and end without a space."""
    opening = 0 if text.startswith("{") else _end_of(_BLANK, text, 0)
    value, end = decoder.raw_decode(text, opening)
    if end != len(text):
        _check_over(text, end)
    return value


def _check_over(text: str, end: int) -> None:
    end = _end_of(_BLANK, text, end)
    if end != len(text):
        raise json.JSONDecodeError("Extra data", text, end)


def _opened(
    text: str, opening: int, path: Path, names: Collection[str]
) -> tuple[JSONObject, int, list[Place]]:
    """Decode one object member by member; its place comes first, then those further along the path.

    Of repeated names the last counts, as for `decode`.
    """
    members: JSONObject = {}
    spans: dict[str, tuple[int, int]] = {}
    names_at: dict[str, int] = {}
    further: list[Place] = []
    position, match = opening + 1, _FIRST_MEMBER.match
    while found := match(text, position):
        name, start = found[1], found.end()
        if "\\" in name:
            name, _ = _DECODER.raw_decode(text, found.start(1) - 1)
        if path and name == path[0]:
            members[name], position, further = _stepped(text, start, path[1:], names)
        else:
            members[name], position = _DECODER.raw_decode(text, start)
        if name in names:
            spans[name], names_at[name] = (start, position), found.start(1) - 1
        match = _NEXT_MEMBER.match
    place = Place(opening, spans, names_at, empty=not members)
    return members, _end_of(_CLOSING, text, position), [place, *further]


def _stepped(text: str, start: int, path: Path, names: Collection[str]) -> tuple[JSON, int, list[Place]]:
    if text.startswith("{", start):
        return _opened(text, start, path, names)
    return *_DECODER.raw_decode(text, start), []


def _end_of(pattern: re.Pattern[str], text: str, position: int) -> int:
    found = pattern.match(text, position)
    if found is None:
        raise json.JSONDecodeError("Expecting a member or the end of the object", text, position)
    return found.end()


def _checked(value: JSON, text: str) -> JSON:
    if "\\" in text and ("\\ud" in text or "\\uD" in text) and not _PAIRED.fullmatch(text):
        raise UnicodeError
    if text.count("[") + text.count("{") > MAX_DEPTH and _depth_exceeds(value, MAX_DEPTH):
        raise RecursionError
    return value


def _depth_exceeds(value: JSON, limit: int) -> bool:
    """Walks level by level in C: the collector knows what a container holds."""
    level: list[Any] = [value]
    for _ in range(limit):
        level = gc.get_referents(*level)
        if not level:
            return False
    return any(isinstance(child, dict | list) for child in level)


def _sentence(problem: Exception) -> str:
    if isinstance(problem, json.JSONDecodeError):
        return f"{problem.msg} at line {problem.lineno}, column {problem.colno}"
    if isinstance(problem, UnicodeError):
        return "the text is not UTF-8 or holds an unpaired surrogate"
    if isinstance(problem, RecursionError):
        return _TOO_DEEP
    if isinstance(problem, _NameTwice):
        return "an object in the text has one name twice"
    return "a number in the text is too large or not JSON"
