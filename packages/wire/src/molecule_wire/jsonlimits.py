"""Limits on a JSON text that are checked on its bytes, before anything decodes it.

Decoding costs by the value, not by the byte: 15 MB of tiny values take a hundred times as long and as much
memory as 15 MB of text. An ordinary text passes on two counts of bytes; only one that could be over a limit
is scanned, a piece at a time, so that a thread that scans lets others run, and no further than the limit.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

PIECE_BYTES = 256 * 1024

Limit = Literal["json-values", "json-depth", "parts"]

_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_SPACE = b" \t\n\r"
_UNITS: dict[Limit, str] = {"json-values": "values", "json-depth": "levels", "parts": "parts in one list"}


class TooMuch(ValueError):
    """A JSON text is over one of its limits."""

    def __init__(self, limit: Limit, maximum: int) -> None:
        super().__init__(f"the JSON text has more than {maximum} {_UNITS[limit]}")
        self.limit: Limit = limit
        self.maximum = maximum


class JSONLimits(NamedTuple):
    """How many values a text may have, how deep they may nest, and how many parts a message may have."""

    max_values: int = 100_000
    max_depth: int = 64
    max_parts: int = 1_000

    def needs_scan(self, body: bytes) -> bool:
        """Whether a text could be over a limit: no value takes less than two bytes."""
        return len(body) > 2 * self.max_values or body.count(b"[") + body.count(b"{") > self.max_depth

    def scan(self, body: bytes) -> None:
        """Count values and levels. Raises TooMuch; whether the text is JSON is for a decoder to say."""
        values, last, brackets = 1, b"", bytearray()
        for piece in _outside_strings(body):
            opened = piece.count(b"[") + piece.count(b"{")
            joint = last + piece
            empty = joint.count(b"[]") + joint.count(b"{}")
            values += piece.count(b",") + opened - empty
            # A list that this piece leaves open may still turn out to be empty.
            if values - 1 > self.max_values:
                raise TooMuch("json-values", self.max_values)
            brackets += piece.translate(_BRACKETS, _NO_BRACKETS)
            last = piece[-1:] or last
        if values > self.max_values:
            raise TooMuch("json-values", self.max_values)
        nested = bytes(brackets)
        # Each round takes the innermost level away.
        for _ in range(self.max_depth):
            if not nested:
                return
            nested = nested.replace(b"[]", b"")
        if b"[]" in nested or nested.count(b"[") > self.max_depth:
            raise TooMuch("json-depth", self.max_depth)

    def check_parts(self, count: int) -> None:
        """Refuse a message with too many parts. Raises TooMuch."""
        if count > self.max_parts:
            raise TooMuch("parts", self.max_parts)


DEFAULT_LIMITS = JSONLimits()


def _outside_strings(body: bytes) -> Iterator[bytes]:
    """The text without its white space, and with a 0 for each string; piece by piece."""
    start, inside = 0, 0
    while start < len(body):
        end = min(start + PIECE_BYTES, len(body))
        piece = body[start:end]
        if piece.endswith(b"\\"):
            # It does not end between a backslash and what that escapes.
            end += (len(piece) - len(piece.rstrip(b"\\"))) % 2
            piece = body[start:end]
        start = end
        if b"\\" in piece:
            piece = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        texts = piece.split(b'"')
        outside = b"0" * inside + b"0".join(texts[inside::2])
        inside = (inside + len(texts) - 1) % 2
        yield outside.translate(None, _SPACE)
