"""Cron expressions of five fields: minute, hour, day of month, month, day of week.

A field is `*`, a number, a range `a-b`, either with a step `/n`, or a list of these with commas. Months and
days of the week may be named by their first three letters; Sunday is 0 and 7.
"""

from typing import NamedTuple

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LONGEST = 200
_DAYS_IN_MONTH = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class _Field(NamedTuple):
    name: str
    first: int
    last: int
    words: dict[str, int]


_FIELDS = (
    _Field("minute", 0, 59, {}),
    _Field("hour", 0, 23, {}),
    _Field("day of month", 1, 31, {}),
    _Field("month", 1, 12, {word: number for number, word in enumerate(_MONTHS, 1)}),
    _Field("day of week", 0, 7, {word: number for number, word in enumerate(_DAYS)}),
)


class Cron(NamedTuple):
    """When an expression is due. Where both kinds of day are restricted, either of them suffices."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    every_day: bool
    every_weekday: bool


def parse_cron(text: str) -> Cron:
    """Read an expression; whatever is wrong with it raises ValueError with a sentence."""
    words = text.split() if len(text) <= _LONGEST else []
    if len(words) != len(_FIELDS):
        raise ValueError(f"a cron expression has five fields, as in '0 9 * * 1-5'; got {text[:40]!r}")
    minutes, hours, days, months, weekdays = (
        _values(word, field) for word, field in zip(words, _FIELDS, strict=True)
    )
    cron = Cron(
        minutes,
        hours,
        days,
        months,
        frozenset(day % 7 for day in weekdays),
        words[2].startswith("*"),
        words[4].startswith("*"),
    )
    if cron.every_weekday and not any(min(days) <= _DAYS_IN_MONTH[month - 1] for month in months):
        raise ValueError(f"no month of {words[3]!r} has a day {words[2]!r}")
    return cron


def _values(text: str, field: _Field) -> frozenset[int]:
    return frozenset(value for part in text.split(",") for value in _part(part, field))


def _part(text: str, field: _Field) -> range:
    span, slash, step_text = text.partition("/")
    step = _number(step_text, field._replace(first=1, words={})) if slash else 1
    if span == "*":
        return range(field.first, field.last + 1, step)
    first_text, dash, last_text = span.partition("-")
    first = _number(first_text, field)
    last = _number(last_text, field) if dash else (field.last if slash else first)
    if last < first:
        raise ValueError(f"{field.name}: the range {span!r} runs backwards")
    return range(first, last + 1, step)


def _number(text: str, field: _Field) -> int:
    value = field.words.get(text.lower())
    if value is None and text.isascii() and text.isdecimal() and len(text) <= 4:
        value = int(text)
    if value is None or not field.first <= value <= field.last:
        raise ValueError(f"{field.name}: {text[:20]!r} is not one of {field.first}-{field.last}")
    return value
