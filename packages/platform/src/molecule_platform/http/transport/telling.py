"""A stream that is told to a client: between two things to say it is nothing but a place to be called at."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from molecule_platform.api.exchange import Stream

if TYPE_CHECKING:
    from molecule_platform.http.transport.connection import Connection
    from molecule_platform.http.transport.request import Request


class Telling:
    """Says what a stream has to say, as fast as the client takes it."""

    __slots__ = ("_again", "_asking", "_connection", "_ended", "_is_busy", "_is_over", "_request", "_stream")

    def __init__(
        self, request: "Request", connection: "Connection", stream: Stream, ended: Callable[[], None]
    ) -> None:
        self._request = request
        self._connection = connection
        self._stream = stream
        self._ended = ended
        self._asking: asyncio.Task[None] | None = None
        self._is_busy = self._is_over = self._again = False

    def begin(self) -> None:
        """Say what there is, and from then on what comes."""
        if self._connection.is_gone:
            self.stop()
            return
        self._stream.begin(self._call)
        self._call()

    def _call(self) -> None:
        self._again = True
        if not self._is_busy and not self._is_over:
            self._is_busy = True
            self._connection.front.loop.call_soon(self.go)

    def go(self) -> None:
        """Say what can be said at once, until there is nothing, or until the client must take it first."""
        if self._asking is not None or self._is_over:
            return
        try:
            while not self._connection.is_stuffed:
                self._again = False
                chunk = self._stream.ready()
                if chunk is None:
                    self._asking = self._connection.front.loop.create_task(self._ask())
                    return
                self._request.say(chunk)
                if not chunk and not self._again:
                    self._is_busy = False
                    return
        except Exception as problem:  # noqa: BLE001 - the client sees that its stream broke off
            self._fail(problem)

    async def _ask(self) -> None:
        try:
            chunk = await self._stream.next()
        except Exception as problem:  # noqa: BLE001 - the client sees that its stream broke off
            self._fail(problem)
            return
        finally:
            self._asking = None
        if chunk is None:
            self.stop()
            self._request.end()
            return
        self._request.say(chunk)
        if not chunk and not self._again:
            self._is_busy = False
        else:
            self.go()

    def _fail(self, problem: Exception) -> None:
        self._connection.front.log.error("a stream failed", exc_info=problem)
        self._connection.transport.abort()

    def stop(self) -> None:
        """Nobody listens any more, or there is nothing more to say. Harmless when repeated."""
        if self._is_over:
            return
        self._is_over = True
        if self._asking is not None:
            self._asking.cancel()
        self._stream.close()
        self._ended()
