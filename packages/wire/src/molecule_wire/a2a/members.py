"""Checks of single members of a request; each tells what is wrong with one of them, or nothing."""

from collections.abc import Iterator

from molecule_wire import JSONObject
from molecule_wire.a2a.errors import Violation

MAX_ID_LENGTH = 1024
REQUIRED = "is required"


def named(holder: JSONObject, name: str, prefix: str = "") -> Iterator[Violation]:
    """An id that must be there."""
    value = holder.get(name)
    if value is None or value == "":
        yield Violation(f"{prefix}{name}", REQUIRED)
    elif not isinstance(value, str):
        yield Violation(f"{prefix}{name}", "must be a string")
    elif len(value) > MAX_ID_LENGTH or "\0" in value:
        yield Violation(f"{prefix}{name}", f"must have at most {MAX_ID_LENGTH} characters and no NUL")


def named_if_given(holder: JSONObject, name: str, prefix: str = "") -> Iterator[Violation]:
    """An id that may be missing."""
    if holder.get(name) not in (None, ""):
        yield from named(holder, name, prefix)


def text(holder: JSONObject, name: str, prefix: str = "") -> Iterator[Violation]:
    """A text of any length that must be there."""
    value = holder.get(name)
    if value is None or value == "":
        yield Violation(f"{prefix}{name}", REQUIRED)
    elif not isinstance(value, str):
        yield Violation(f"{prefix}{name}", "must be a string")


def text_if_given(holder: JSONObject, name: str, prefix: str = "") -> Iterator[Violation]:
    """A text that may be missing."""
    if not isinstance(holder.get(name), str | None):
        yield Violation(f"{prefix}{name}", "must be a string")


def texts(holder: JSONObject, name: str, prefix: str = "") -> Iterator[Violation]:
    """A list of texts that may be missing."""
    listed = holder.get(name)
    if listed is not None and not (isinstance(listed, list) and set(map(type, listed)) <= {str}):
        yield Violation(f"{prefix}{name}", "must be a list of strings")


def flag(holder: JSONObject, name: str, prefix: str = "") -> Iterator[Violation]:
    """True or false."""
    if not isinstance(holder.get(name, False), bool):
        yield Violation(f"{prefix}{name}", "must be true or false")


def member_object(holder: JSONObject, name: str, prefix: str = "") -> Iterator[Violation]:
    """An object that may be missing."""
    if not isinstance(holder.get(name), dict | None):
        yield Violation(f"{prefix}{name}", "must be an object")


def whole(
    holder: JSONObject, name: str, least: int, most: int | None, prefix: str = ""
) -> Iterator[Violation]:
    """A whole number within bounds that may be missing."""
    value = holder.get(name)
    if value is None:
        return
    fits = isinstance(value, int) and not isinstance(value, bool) and value >= least
    if not fits or (most is not None and isinstance(value, int) and value > most):
        bounds = f"{least} or more" if most is None else f"from {least} to {most}"
        yield Violation(f"{prefix}{name}", f"must be a whole number, {bounds}")


def history_length(holder: JSONObject, prefix: str = "") -> Iterator[Violation]:
    """How many messages of a task's history are wanted."""
    yield from whole(holder, "historyLength", 0, None, prefix)
