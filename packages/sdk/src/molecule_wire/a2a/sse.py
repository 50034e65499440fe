"""Frames of a server-sent event stream, for JSON-RPC and REST alike."""

from molecule_wire import JSON, jsontext

KEEP_ALIVE = b": keep-alive\n\n"
"""What a stream says when it has nothing to say, every 15 seconds."""

_LINE_BREAKS = {"\x85": rb"\u0085", "\u2028": rb"\u2028", "\u2029": rb"\u2029"}


def frame(number: int | None, data: JSON) -> bytes:
    """One event; `number` is its number in its task, None for an error, which has none."""
    line = b"" if number is None else b"id: %d\n" % number
    return line + b"data: " + _one_line(jsontext.encode(data)) + b"\n\n"


def _one_line(text: bytes) -> bytes:
    """JSON escapes the breaks that SSE knows; some readers split at these three as well."""
    for character, escaped in _LINE_BREAKS.items():
        text = text.replace(character.encode(), escaped)
    return text
