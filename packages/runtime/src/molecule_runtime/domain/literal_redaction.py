"""Streamed redaction of known values: the first stage of output redaction."""

import functools
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from molecule_runtime.domain.secrets import KNOWN_LABEL, marker, usable

HEAD = 128
"""A longer value is known by its first 128 characters; what follows of it is then left out as well."""


class _Compiled(NamedTuple):
    values: Mapping[str, list[str]]
    """The values by their heads."""
    pattern: re.Pattern[str] | None
    first: re.Pattern[str] | None
    """Their first characters."""


@functools.lru_cache(maxsize=16)
def _compiled(known_values: tuple[str, ...]) -> _Compiled:
    """Every turn has redactors of its own, and all of them the same values."""
    values: dict[str, list[str]] = {}
    for value in usable(known_values):
        values.setdefault(value[:HEAD], []).append(value)
    if not values:
        return _Compiled(values, None, None)
    # Of values that begin alike the longest is tried first.
    heads = sorted(values, key=len, reverse=True)
    first = "".join({re.escape(head[0]) for head in heads})
    return _Compiled(values, re.compile("|".join(map(re.escape, heads))), re.compile(f"[{first}]"))


def has_none(text: str, known_values: tuple[str, ...]) -> bool:
    """Whether a whole text has none of the values."""
    pattern = _compiled(known_values).pattern
    return pattern is None or pattern.search(text) is None


class LiteralRedactor:
    """Takes known values out of a text that comes in pieces; holds back at most `HEAD - 1` characters."""

    def __init__(self, known_values: Iterable[str] = ()) -> None:
        self._values, self._pattern, self._first = _compiled(tuple(known_values))
        self._buffer = ""
        self._rest: list[str] = []
        self._found_any = False

    def feed(self, text: str) -> str:
        """What may be shown now."""
        if self._pattern is None:
            return text
        self._buffer += text
        return self._scan(self._pattern, final=False)

    def flush(self) -> str:
        """The rest; the next text begins anew."""
        if self._pattern is None:
            return ""
        shown = self._scan(self._pattern, final=True)
        self._rest = []
        return shown

    @property
    def found_any(self) -> bool:
        """Whether a value was taken out so far."""
        return self._found_any

    def _scan(self, pattern: re.Pattern[str], *, final: bool) -> str:
        buffer, shown = self._buffer, list[str]()
        limit = len(buffer) if final else self._undecided(buffer)
        position = self._skip_rest(0)
        while found := pattern.search(buffer, position):
            if found.start() >= limit:
                break
            shown += (buffer[position : found.start()], marker(KNOWN_LABEL))
            self._found_any = True
            self._rest = [value[HEAD:] for value in self._values[found[0]] if len(value) > HEAD]
            position = self._skip_rest(found.end())
        end = max(position, limit)
        shown.append(buffer[position:end])
        self._buffer = buffer[end:]
        return "".join(shown)

    def _undecided(self, buffer: str) -> int:
        """The first place where a value may have begun that is not over yet."""
        assert self._first is not None
        for found in self._first.finditer(buffer, max(0, len(buffer) - HEAD + 1)):
            begun = buffer[found.start() :]
            if any(len(head) > len(begun) and head.startswith(begun) for head in self._values):
                return found.start()
        return len(buffer)

    def _skip_rest(self, position: int) -> int:
        """Step over what follows of a long value; at the end of the buffer it goes on with the next piece."""
        buffer, rest, done = self._buffer, self._rest, 0
        while rest and position < len(buffer):
            rest = [one for one in rest if len(one) > done and one[done] == buffer[position]]
            if rest:
                position, done = position + 1, done + 1
        self._rest = [one[done:] for one in rest]
        return position
