"""Known values: secrets that the process holds, replaced literally wherever they stand."""

import functools
import json
import re
from collections.abc import Iterable, Mapping

from molecule_wire.redaction.rules import MARKER_TEXT

MIN_LENGTH = 6
"""Shorter values are no secrets: a text would lose every `1` and `true`."""
HEAD = 128
"""A longer value is recognised in a stream by its first 128 characters; its rest is dropped after them."""

_PIECES = re.compile(f"({MARKER_TEXT})")


class KnownValues:
    """A set of values with the mark that replaces each, also where a repr or JSON has escaped them."""

    def __init__(self, marks: Mapping[str, str]) -> None:
        self.marks = {
            form: mark for value, mark in marks.items() if len(value) >= MIN_LENGTH for form in _forms(value)
        }
        # The longest first: a value that contains another is replaced as a whole.
        longest_first = sorted(self.marks, key=lambda value: (-len(value), value))
        self.pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None
        self.by_head: dict[str, list[str]] = {}
        for value in longest_first:
            self.by_head.setdefault(value[:HEAD], []).append(value)
        heads = sorted(self.by_head, key=len, reverse=True)
        self.heads = re.compile("|".join(map(re.escape, heads))) if heads else None
        self.first = re.compile(f"[{''.join({re.escape(head[0]) for head in heads})}]") if heads else None

    def redact(self, text: str) -> str:
        """Return the text with a mark for every value; marks that are there already stay."""
        if self.pattern is None or self.pattern.search(text) is None:
            return text
        pieces = _PIECES.split(text)
        pieces[::2] = [self.pattern.sub(self._mark, piece) for piece in pieces[::2]]
        return "".join(pieces)

    def has_none(self, text: str) -> bool:
        """Return True if the text holds no value, nor the first characters of a long one."""
        return self.heads is None or self.heads.search(text) is None

    def _mark(self, match: re.Match[str]) -> str:
        return self.marks[match[0]]


@functools.lru_cache(maxsize=32)
def known_values(values: tuple[str, ...], mark: str) -> KnownValues:
    """Return the values with one mark for all, kept: every turn and log line needs the same."""
    return KnownValues({value.strip(): mark for value in values})


def _forms(value: str) -> Iterable[str]:
    return {value, repr(value)[1:-1], json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}


class KnownValueStream:
    """Replaces known values in a text that comes in pieces; holds back at most `HEAD - 1` characters."""

    def __init__(self, known: KnownValues) -> None:
        self._known = known
        self._buffer = ""
        self._rest: list[str] = []
        self.found_any = False

    def feed(self, text: str) -> str:
        """Add a piece; return the text that is decided."""
        if self._known.heads is None:
            return text
        self._buffer += text
        return self._scan(self._known.heads, final=False)

    def flush(self) -> str:
        """Return the rest; the next piece begins another text."""
        if self._known.heads is None:
            return ""
        shown = self._scan(self._known.heads, final=True)
        self._rest = []
        return shown

    @property
    def held(self) -> int:
        """Characters held back."""
        return len(self._buffer)

    def _scan(self, heads: re.Pattern[str], *, final: bool) -> str:
        buffer, shown = self._buffer, list[str]()
        limit = len(buffer) if final else self._undecided(buffer)
        position = self._skip_rest(0)
        while found := heads.search(buffer, position):
            if found.start() >= limit:
                break
            values = self._known.by_head[found[0]]
            shown += (buffer[position : found.start()], self._known.marks[values[0]])
            self.found_any = True
            self._rest = [value[HEAD:] for value in values if len(value) > HEAD]
            position = self._skip_rest(found.end())
        end = max(position, limit)
        shown.append(buffer[position:end])
        self._buffer = buffer[end:]
        return "".join(shown)

    def _undecided(self, buffer: str) -> int:
        """Return the first position at which a value may have begun that is not complete."""
        assert self._known.first is not None
        for found in self._known.first.finditer(buffer, max(0, len(buffer) - HEAD + 1)):
            begun = buffer[found.start() :]
            if any(len(head) > len(begun) and head.startswith(begun) for head in self._known.by_head):
                return found.start()
        return len(buffer)

    def _skip_rest(self, position: int) -> int:
        """Skip the rest of a long value; what the buffer lacks is skipped in the next piece."""
        buffer, rest, done = self._buffer, self._rest, 0
        while rest and position < len(buffer):
            rest = [one for one in rest if len(one) > done and one[done] == buffer[position]]
            if rest:
                position, done = position + 1, done + 1
        self._rest = [one[done:] for one in rest]
        return position
