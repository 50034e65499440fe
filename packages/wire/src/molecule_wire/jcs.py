"""RFC 8785: the one way to write a JSON value, so that a signature over its bytes can be checked anywhere."""

import json
import math

from molecule_wire import JSON

# Up to here every whole number is one of its own for readers that use doubles.
LARGEST_WHOLE = 2**53 - 1
SMALLEST_WITH_EXPONENT = 10**21

_quoted = json.JSONEncoder(ensure_ascii=False).encode


def canonical(value: JSON) -> bytes:
    """The canonical bytes. Raises `ValueError` for a number or a text that JSON cannot say everywhere."""
    return _written(value).encode()


def _written(value: JSON) -> str:
    if isinstance(value, dict):
        members = sorted(value.items(), key=_by_utf16)
        return "{" + ",".join(f"{_quoted(name)}:{_written(member)}" for name, member in members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_written, value)) + "]"
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return _quoted(value)
    return _whole(value) if isinstance(value, int) else _number(value)


def _by_utf16(member: tuple[str, JSON]) -> bytes:
    return member[0].encode("utf-16-be")


def _whole(value: int) -> str:
    if abs(value) <= LARGEST_WHOLE:
        return str(value)
    text = _number(float(value)) if abs(value) < SMALLEST_WITH_EXPONENT else ""
    if text != str(value):
        raise ValueError("a whole number is larger than a JSON number can say exactly")
    return text


def _number(value: float) -> str:
    """As ECMAScript writes it: the shortest digits, with an exponent only for the very large and small."""
    if not math.isfinite(value):
        raise ValueError("this is no JSON number")
    if value == 0:
        return "0"
    sign, digits, point = _digits(value)
    if len(digits) <= point <= 21:
        return sign + digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{fraction}e{point - 1:+d}"


def _digits(value: float) -> tuple[str, str, int]:
    """The sign, the shortest digits that read back as the same number, and where their point stands."""
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = fraction.rstrip("0")
    digits = (whole + fraction).lstrip("0")
    leading = len(whole + fraction) - len(digits)
    point = len(whole) - leading + int(exponent or 0)
    return "-" if value < 0 else "", digits.rstrip("0"), point
