"""Looking at values of unknown shape, as YAML and JSON bring them."""

from typing import cast


def mapping(value: object) -> dict[object, object] | None:
    """The value if it is a mapping."""
    return cast("dict[object, object]", value) if isinstance(value, dict) else None


def items(value: object) -> list[object] | None:
    """The value if it is a list."""
    return cast("list[object]", value) if isinstance(value, list) else None


def named(value: object) -> dict[str, object]:
    """The members of a mapping whose keys are text; of anything else none."""
    return {key: member for key, member in (mapping(value) or {}).items() if isinstance(key, str)}


def texts(value: object) -> tuple[str, ...]:
    """The texts of a list; whatever else is in it, or is no list, is left out."""
    return tuple(item for item in items(value) or [] if isinstance(item, str))


def text(value: object) -> str:
    """The value if it is text, else none."""
    return value if isinstance(value, str) else ""


def is_number(value: object) -> bool:
    """Whether a value is a number; a boolean is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_tier(value: object) -> bool:
    """Whether a value is the tier of a workspace; a boolean is none."""
    return isinstance(value, int) and not isinstance(value, bool) and value in (1, 2, 3)


def type_name(value: object) -> str:
    """What kind of value an author wrote, in the words of Python."""
    return type(value).__name__


def display(value: object) -> str:
    """A wrong value for a message: whole when it is short and plain, else what kind it is."""
    text = repr(value) if isinstance(value, str | float | bool | None) else _integer_or_kind(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def _integer_or_kind(value: object) -> str:
    small = isinstance(value, int) and abs(value) < 10**18  # a huge one cannot be written down
    return str(value) if small else type_name(value)
