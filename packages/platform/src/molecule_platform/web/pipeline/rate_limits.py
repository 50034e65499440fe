"""Rate limits: a bucket of tokens for each principal, and for each address that shows no credential."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

from molecule_platform.domain.errors import ApiError

FAILED_LOGIN_COSTS = 5
MAX_BUCKETS = 50_000


@dataclass(frozen=True)
class RateLimit:
    """So many requests in so many seconds, of which `burst` may come at once."""

    count: float
    seconds: float
    burst: float


@dataclass(frozen=True)
class RateBudget:
    """What is left after a request; `retry_after` is None while there is something."""

    limit: int
    remaining: int
    reset: int
    retry_after: int | None = None

    def headers(self) -> dict[str, str]:
        """The figures as every response carries them."""
        return {
            "x-ratelimit-limit": str(self.limit),
            "x-ratelimit-remaining": str(self.remaining),
            "x-ratelimit-reset": str(self.reset),
        }

    def check(self) -> None:
        """Refuse what is over the limit."""
        if self.retry_after is not None:
            sentence = f"too many requests: try again in {self.retry_after} s"
            raise ApiError("rate-limited", sentence, retry_after=self.retry_after)


class RateLimiter:
    """Token buckets of this process. Each replica gives its share of the limit."""

    def __init__(
        self,
        per_minute: int,
        anonymous_per_minute: int,
        replicas: Callable[[], int],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._rates = {True: _per_minute(per_minute), False: _per_minute(anonymous_per_minute)}
        self._replicas = replicas
        self._now = now
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(
        self, key: str, *, known: bool, cost: float = 1, own: RateLimit | None = None
    ) -> RateBudget | None:
        """Spend from a bucket; None when this kind of caller is not limited."""
        general = self._rates[known]
        if general is None:
            return None
        return self._spend(key, own or general, cost)

    def _spend(self, key: str, rate: RateLimit, cost: float) -> RateBudget:
        share = max(self._replicas(), 1)
        count, burst = max(rate.count / share, 1.0), max(rate.burst / share, 1.0)
        per_second = count / rate.seconds
        now = self._now()
        level, at = self._buckets.get(key, (burst, now))
        level = min(burst, level + max(now - at, 0.0) * per_second)
        missing = min(cost, burst) - level
        retry_after = None if missing <= 0 else max(ceil(missing / per_second), 1)
        left = level if missing > 0 else max(level - cost, 0.0)
        self._keep(key, left, now, burst)
        reset = ceil(now + (burst - left) / per_second)
        return RateBudget(int(count), int(left), reset, retry_after)

    def _keep(self, key: str, level: float, now: float, burst: float) -> None:
        if len(self._buckets) >= MAX_BUCKETS and key not in self._buckets:
            self._forget_idle(now)
        self._buckets[key] = (level, now)

    def _forget_idle(self, now: float) -> None:
        """A bucket that nobody touched for an hour is full again; if that is not enough, the oldest go."""
        kept = {key: bucket for key, bucket in self._buckets.items() if now - bucket[1] < 3600}
        newest = sorted(kept.items(), key=lambda item: item[1][1])[-MAX_BUCKETS // 2 :]
        self._buckets = dict(newest)


def _per_minute(count: int) -> RateLimit | None:
    return RateLimit(count, 60.0, count / 4) if count > 0 else None
