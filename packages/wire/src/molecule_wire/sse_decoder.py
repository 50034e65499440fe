"""Decoder for server-sent event streams (WHATWG HTML, section 9.2).

Each byte is scanned once, however the network cuts the stream, so the cost of a piece depends on its own size
and not on what came before it.
"""

from typing import NamedTuple

EVENT_MAX_BYTES = 16 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"
_RETRY_MAX_DIGITS = 10


class EventTooLarge(ValueError):
    """One event of a stream is larger than the limit."""


class SSEEvent(NamedTuple):
    """One event: its data, its type, and the last event id of the stream at that point."""

    data: bytes
    type: str = "message"
    id: str = ""

    @property
    def text(self) -> str:
        """The data as text."""
        return self.data.decode("utf-8", "replace")


class SSEDecoder:
    """Turns the bytes of one stream into events.

    `last_id` and `retry_ms` are what the stream has set so far, by a block without data too. An event that is
    not ended by a blank line is never returned, as the standard demands: it may be cut.
    """

    def __init__(self, max_bytes: int = EVENT_MAX_BYTES) -> None:
        self.last_id = ""
        self.retry_ms: int | None = None
        self._max_bytes = max_bytes
        # The line that is not complete yet. A bytearray grows in amortised constant time per byte.
        self._line = bytearray()
        self._is_first_line = True
        # The last piece ended with a carriage return: a line feed at the start of the next belongs to it.
        self._ended_with_cr = False
        self._data: bytearray | bytes | None = None
        self._type = b""
        self._id: bytes | None = None

    def feed(self, piece: bytes) -> list[SSEEvent]:
        """Return the events that this piece completes. Raises `EventTooLarge`."""
        if self._ended_with_cr and piece:
            piece = piece.removeprefix(b"\n")
            self._ended_with_cr = False
        if b"\r" in piece:
            self._ended_with_cr = piece.endswith(b"\r")
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = piece.split(b"\n")
        events: list[SSEEvent] = []
        if lines and self._line:
            self._line += lines.pop(0)
            line, self._line = self._line, bytearray()
            self._read_field(line)
        for line in lines:
            if not line:
                self._end_block(events)
            else:
                self._read_field(line)
        self._line += rest
        self._check_size(len(self._line))
        return events

    def _read_field(self, line: bytes | bytearray) -> None:
        if self._is_first_line:
            self._is_first_line = False
            line = line.removeprefix(_BOM)
        # Nearly every line is data, and may be large: its value is copied once.
        if line.startswith(b"data:"):
            start = 6 if line.startswith(b"data: ") else 5
            self._add_data(bytes(memoryview(line)[start:]))
            return
        name, value = _field(bytes(line))
        if name == b"data":
            self._add_data(value)
        elif name == b"event":
            self._type = value
        elif name == b"id" and b"\0" not in value:
            self._id = value
        elif name == b"retry" and value.isdigit() and len(value) < _RETRY_MAX_DIGITS:
            self.retry_ms = int(value)

    def _add_data(self, value: bytes) -> None:
        self._check_size(len(value))
        data = self._data
        if data is None:
            self._data = value
            return
        if not isinstance(data, bytearray):
            data = self._data = bytearray(data)
        data += b"\n"
        data += value

    def _check_size(self, more: int) -> None:
        if more + (0 if self._data is None else len(self._data)) > self._max_bytes:
            raise EventTooLarge(f"one event of the stream is larger than {self._max_bytes} bytes")

    def _end_block(self, events: list[SSEEvent]) -> None:
        self._is_first_line = False
        if self._id is not None:
            self.last_id, self._id = self._id.decode("utf-8", "replace"), None
        data, self._data = self._data, None
        kind, self._type = self._type, b""
        if data is not None:
            name = kind.decode("utf-8", "replace") if kind else "message"
            events.append(SSEEvent(bytes(data), name, self.last_id))


def _field(line: bytes) -> tuple[bytes, bytes]:
    """Split a line; the name of a comment is empty."""
    name, _colon, value = line.partition(b":")
    return name, value.removeprefix(b" ")
