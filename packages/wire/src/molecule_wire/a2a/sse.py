"""Frames of a server-sent event stream, for JSON-RPC and REST alike."""

from molecule_wire import JSON, jsontext

KEEP_ALIVE = b": keep-alive\n\n"
"""What a stream says when it has nothing to say, every 15 seconds."""

_SPLITTING = (
    ("\x85".encode(), rb"\u0085"),
    ("\u2028".encode(), rb"\u2028"),
    ("\u2029".encode(), rb"\u2029"),
    # Between the tokens of a JSON text; inside its strings they are escaped anyway.
    (b"\n", b" "),
    (b"\r", b" "),
)


def frame(number: int | None, data: JSON) -> bytes:
    """One event; `number` is its number in its task, None for an error, which has none."""
    return frame_of(number, jsontext.encode(data))


def frame_of(number: int | None, text: bytes) -> bytes:
    """One event whose data is a JSON text already."""
    line = b"" if number is None else b"id: %d\n" % number
    return b"%bdata: %b\n\n" % (line, one_line(text))


def one_line(text: bytes) -> bytes:
    """A JSON text that every reader of a stream takes for one line; some split at more than SSE says."""
    for character, instead in _SPLITTING:
        if character in text:
            text = text.replace(character, instead)
    return text
