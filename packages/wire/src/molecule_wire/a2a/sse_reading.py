"""Reading a server-sent event stream: the data of each event, however its bytes are cut into pieces."""


class StreamTooLarge(ValueError):
    """One event is larger than allowed."""


class Frames:
    """Collects bytes and gives the data of every event that is whole; comments and other fields are left."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._rest = b""
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events that this piece completes. Raises `StreamTooLarge`."""
        text = self._rest + chunk
        if b"\r" in text:
            # A return at the very end may be half of a line break: it waits for what follows.
            held = b"\r" if text.endswith(b"\r") else b""
            text = text[: len(text) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        else:
            held = b""
        *lines, rest = text.split(b"\n")
        self._rest = rest + held
        found = [data for line in lines if (data := self._line(line)) is not None]
        if len(self._rest) + self._size > self._most_bytes:
            raise StreamTooLarge(f"one event is larger than {self._most_bytes} bytes")
        return found

    def _line(self, line: bytes) -> bytes | None:
        if not line:
            data, self._data, self._size = self._data, [], 0
            return b"\n".join(data) if data else None
        if line.startswith(b"data:"):
            value = line[5:].removeprefix(b" ")
            self._data.append(value)
            self._size += len(value)
        return None
