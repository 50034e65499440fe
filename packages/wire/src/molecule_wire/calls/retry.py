"""Retry rule of all calls: whether to send again, and after how long. Clock and chance come from outside."""

import math
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime

from molecule_wire.calls import values


@dataclass(frozen=True)
class RetryPolicy:
    """Which outcomes are tried again, how often, and how long to wait between the tries."""

    max_retries: int = 3
    statuses: frozenset[int] = frozenset({429})
    base: float = 1.0
    cap: float = 30.0
    jitter: float = 0.25
    connection_errors: bool = False

    @classmethod
    def resilient(cls) -> "RetryPolicy":
        """Also ride out restarts and short outages of the platform."""
        return cls(statuses=frozenset({429, 502, 503, 504}), connection_errors=True)


def may_repeat(policy: RetryPolicy, request: values.Request, repeat: int, status: int | None) -> bool:
    """Whether a request is sent again for the `repeat`-th time (from 1).

    `status` is that of the answer, `None` when the connection failed and nobody knows what became of it.
    """
    if not request.repeatable or repeat > policy.max_retries:
        return False
    return policy.connection_errors if status is None else status in policy.statuses


def wait_before(
    policy: RetryPolicy, repeat: int, retry_after: str, date: str = "", *, now: float, chance: float
) -> float:
    """Return the seconds to wait before the `repeat`-th repeat (from 1).

    `retry_after` and `date` are the texts of these headers of the answer, `now` is the time as seconds since
    the epoch, `chance` in [0, 1).
    """
    # A date to come back at is one of the platform's clock, which ours need not agree with.
    there = moment_of(date)
    told = seconds_of(retry_after, now=now if there is None else there)
    if told is not None:
        return min(policy.cap, float(math.ceil(told)))
    spread = 1 + policy.jitter * (2 * chance - 1)
    return min(policy.cap, policy.base * 2 ** (repeat - 1) * spread)


def seconds_of(retry_after: str, *, now: float | None = None) -> float | None:
    """Read a `Retry-After` header: seconds, or (when `now` is given) a date. Rubbish is `None`."""
    try:
        seconds = float(retry_after)
    except ValueError:
        return None if now is None else _seconds_until(retry_after, now)
    return max(0.0, seconds) if math.isfinite(seconds) else None


def moment_of(date: str) -> float | None:
    """Read the date of an HTTP header as seconds since the epoch; rubbish is `None`."""
    try:
        moment = parsedate_to_datetime(date)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _seconds_until(date: str, now: float) -> float | None:
    moment = moment_of(date)
    return None if moment is None else max(0.0, moment - now)
