"""Signals inside one process: wake those who wait for news of a run."""

import asyncio


class Signals:
    """Wake-up by topic; what happened is in the store, a signal only says to look again."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}

    def notify(self, topic: str) -> None:
        """Wake everybody who waits for a topic."""
        for one in self._waiting.pop(topic, ()):
            if not one.done():
                one.set_result(None)

    def subscribe(self, topic: str) -> "asyncio.Future[None]":
        """A future for the next signal; look at the run after subscribing, so that none is missed."""
        signal: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.get(topic)
        if waiting is None:
            self._waiting[topic] = [signal]
        else:
            waiting.append(signal)
        return signal

    def unsubscribe(self, topic: str, signal: "asyncio.Future[None]") -> None:
        """Stop waiting; harmless once the signal came."""
        waiting = self._waiting.get(topic)
        if waiting is not None and signal in waiting:
            waiting.remove(signal)
            if not waiting:
                del self._waiting[topic]
