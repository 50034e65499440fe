"""Signals inside one process: wake those who wait for news of a run."""

import asyncio

from molecule_skill import clocks


class Signals:
    """Wake-up by topic; what happened is in the store, a signal only says to look again."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}

    def notify(self, topic: str) -> None:
        """Wake everybody who waits for a topic."""
        for one in self._waiting.pop(topic, ()):
            if not one.done():
                one.set_result(None)

    def subscribe(self, topic: str) -> "asyncio.Future[None]":
        """A future for the next signal; look at the store after subscribing, so that none is missed."""
        signal: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(topic, set()).add(signal)
        return signal

    def unsubscribe(self, topic: str, signal: "asyncio.Future[None]") -> None:
        """Stop waiting."""
        waiting = self._waiting.get(topic)
        if waiting is not None:
            waiting.discard(signal)
            if not waiting:
                del self._waiting[topic]

    async def wait(self, topic: str, signal: "asyncio.Future[None]", seconds: float) -> None:
        """Wait for a signal that was subscribed to, at most so long."""
        try:
            await clocks.wait(signal, seconds)
        finally:
            self.unsubscribe(topic, signal)
