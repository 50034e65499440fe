"""Server-sent events of the chat API, read from bytes that come in any pieces."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from molecule_runtime.runtimes.hermes.client import as_object

MAX_LINE_BYTES = 8 * 1024 * 1024
DONE = "[DONE]"


@dataclass(frozen=True)
class StreamEvent:
    """One event; `name` is empty for a plain one. Comments are no events."""

    name: str
    data: str

    def json(self) -> dict[str, Any]:
        """The data as an object; empty when it is none."""
        try:
            decoded: Any = json.loads(self.data)
        except (ValueError, RecursionError):
            return {}
        return as_object(decoded)


async def events(pieces: AsyncIterator[bytes]) -> AsyncIterator[StreamEvent]:
    """The events of a stream. Raises ValueError for a line that is too long.

    Lines end where SSE says, and not at every separator of Unicode, which may stand in a JSON text.
    """
    name, data = "", list[str]()
    async for line in _lines(pieces):
        if not line:
            if data:
                yield StreamEvent(name, "\n".join(data))
            name, data = "", []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "data":
            data.append(value)


async def _lines(pieces: AsyncIterator[bytes]) -> AsyncIterator[str]:
    held = bytearray()
    async for piece in pieces:
        held += piece
        *whole, rest = held.split(b"\n") if b"\n" in piece else [held]
        if len(rest) > MAX_LINE_BYTES:
            raise ValueError("a line of the stream is too long")
        for line in whole:
            yield line.removesuffix(b"\r").decode(errors="replace")
        held = rest
