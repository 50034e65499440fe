"""Those that may keep somebody waiting only so long: one timer for all of them, however many they are."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

# Those that are due almost together are given up together.
TOGETHER_SECONDS = 0.02
# An event loop that runs a timer so late was blocked.
BLOCKED_SECONDS = 0.5

Who = TypeVar("Who")


class DeadlineTimer(Generic[Who]):
    """Remembers since when each keeps us waiting, and gives up those who do so for too long.

    The patience is the same for all, so that whoever came first is due first.
    """

    __slots__ = ("_give_up", "_seconds", "_since", "_timer")

    def __init__(self, seconds: Callable[[], float], give_up: Callable[[Who], None]) -> None:
        self._seconds = seconds
        self._give_up = give_up
        self._since: dict[Who, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._since)

    def begin(self, who: Who) -> None:
        """From now on it keeps us waiting; from now on again, if it did before."""
        loop = asyncio.get_running_loop()
        self._since.pop(who, None)
        self._since[who] = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(self._seconds(), self._look)

    def end(self, who: Who) -> None:
        """It does so no longer. Harmless when it did not."""
        self._since.pop(who, None)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        late = loop.time() - (self._timer.when() if self._timer is not None else loop.time())
        if late > BLOCKED_SECONDS:
            # It was us who kept them waiting: what they sent meanwhile is only read now.
            more = late + min(late, self._seconds())
            self._since = {who: since + more for who, since in self._since.items()}
        latest = loop.time() - self._seconds() + TOGETHER_SECONDS
        due: list[Who] = []
        self._timer = None
        for who, since in self._since.items():
            if since > latest:
                self._timer = loop.call_at(since + self._seconds(), self._look)
                break
            due.append(who)
        for who in due:
            self._since.pop(who, None)
        for who in due:
            self._give_up(who)
