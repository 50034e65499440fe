"""A cap on the open requests of one principal or address: streams, sockets, long polls and all others."""

from collections import Counter
from collections.abc import Mapping

from molecule_platform.domain.errors import ApiError

RETRY_AFTER_SECONDS = 5


class ConcurrencySlot:
    """A place among the open requests. Harmless when it is left twice."""

    __slots__ = ("_keys", "_open")

    def __init__(self, open_requests: "ConcurrencyLimiter", keys: tuple[str, ...]) -> None:
        self._open = open_requests
        self._keys = keys

    def open_stream(self, caller: str, agent_id: str, maximum: int) -> None:
        """Count this request among the caller's streams to one agent. Raises 429 beyond the maximum."""
        facts = {"limit": "agent-streams", "maximum": maximum}
        sentence = f"you have {maximum} open streams to this agent: let some of them end first"
        self._keys += self._open.count((f"{caller} streams {agent_id}",), maximum, sentence, facts)

    def release(self) -> None:
        """The request is answered, or its stream is over."""
        keys, self._keys = self._keys, ()
        for key in keys:
            self._open.release(key)


class ConcurrencyLimiter:
    """Counts the open requests of this process."""

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._counts: Counter[str] = Counter()

    def acquire(self, *keys: str) -> ConcurrencySlot:
        """One more, of each of these. Raises 429 when one of them has too many."""
        sentence = f"you have {self._maximum} open requests: let some of them end first"
        facts = {"limit": "open-requests", "maximum": self._maximum}
        return ConcurrencySlot(self, self.count(keys, self._maximum, sentence, facts))

    def count(
        self, keys: tuple[str, ...], maximum: int, sentence: str, facts: Mapping[str, str | int]
    ) -> tuple[str, ...]:
        """Count one more of each key, or of none of them. Raises 429 beyond the maximum; 0 means none."""
        counts = self._counts
        for key in keys:
            if 0 < maximum <= counts[key]:
                raise ApiError("rate-limited", sentence, retry_after=RETRY_AFTER_SECONDS, **facts)
        for key in keys:
            counts[key] += 1
        return keys

    def release(self, key: str) -> None:
        """One less."""
        self._counts[key] -= 1
        if self._counts[key] <= 0:
            del self._counts[key]
