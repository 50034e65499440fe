"""Which handlers a subject reaches inside this process."""

import logging
import re
from collections.abc import Iterator

from molecule_platform.ports import bus

_SUBJECT = re.compile(r"[!-)+-\-/-=?-~]+(\.[!-)+-\-/-=?-~]+)*")
_EVERYTHING_BELOW = ".>"

log = logging.getLogger(__name__)


def check_subject(subject: str) -> None:
    """Refuse what could not be published on every bus."""
    if len(subject) > bus.MAX_SUBJECT_CHARACTERS or not _SUBJECT.fullmatch(subject):
        raise ValueError(
            f"{subject[:64]!r} is no bus subject: write dot-separated parts of visible ASCII "
            f"without '*' and '>', at most {bus.MAX_SUBJECT_CHARACTERS} characters."
        )


def check_pattern(pattern: str) -> None:
    """Refuse what could not be subscribed to on every bus."""
    check_subject(pattern.removesuffix(_EVERYTHING_BELOW))


def check_payload(payload: bytes) -> None:
    """Refuse what is too large for a wake-up."""
    if len(payload) > bus.MAX_PAYLOAD_BYTES:
        raise ValueError(
            f"A bus payload of {len(payload)} bytes is over the limit of {bus.MAX_PAYLOAD_BYTES}: "
            "store it and publish its id."
        )


def patterns_matching(subject: str) -> Iterator[str]:
    """The subject itself, then every `.>` pattern above it, nearest first."""
    yield subject
    end = subject.rfind(".")
    while end > 0:
        yield subject[:end] + _EVERYTHING_BELOW
        end = subject.rfind(".", 0, end)


class Subscriber:
    """One handler under one pattern."""

    def __init__(self, pattern: str, handler: bus.Handler) -> None:
        self.pattern = pattern
        self.handler = handler
        self.taken = True


class Fanout:
    """The handlers of this process by pattern."""

    def __init__(self) -> None:
        self._seats: dict[str, list[Subscriber]] = {}

    @property
    def patterns(self) -> list[str]:
        """Every pattern with at least one handler."""
        return list(self._seats)

    def add(self, pattern: str, handler: bus.Handler) -> Subscriber:
        """Seat a handler."""
        seat = Subscriber(pattern, handler)
        self._seats.setdefault(pattern, []).append(seat)
        return seat

    def remove(self, seat: Subscriber) -> bool:
        """Free a seat; whether it was the last one of its pattern."""
        if not seat.taken:
            return False
        seat.taken = False
        seats = self._seats.get(seat.pattern, [])
        if seat in seats:
            seats.remove(seat)
        if seats:
            return False
        return self._seats.pop(seat.pattern, None) is not None

    def clear(self) -> None:
        """Free every seat."""
        for seats in self._seats.values():
            for seat in seats:
                seat.taken = False
        self._seats.clear()

    def deliver(self, subject: str, payload: bytes) -> None:
        """Call the handlers of every pattern that matches."""
        for pattern in patterns_matching(subject):
            self.deliver_under(pattern, subject, payload)

    def deliver_under(self, pattern: str, subject: str, payload: bytes) -> None:
        """Call the handlers of one pattern."""
        for seat in tuple(self._seats.get(pattern, ())):
            if seat.taken:
                _call(seat, subject, payload)


def _call(seat: Subscriber, subject: str, payload: bytes) -> None:
    try:
        seat.handler(subject, payload)
    except Exception:
        log.exception("A bus handler for %s failed; the others were still called.", seat.pattern)
