"""Follow a stream of the platform; one that was cut is resumed after its last event."""

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from molecule_platform.cli import client, problems
from molecule_platform.cli.reconnect import ReconnectPolicy
from molecule_platform.cli.session import ApiSession
from molecule_wire.sse_decoder import EventTooLarge, SSEDecoder, SSEEvent

RETRY_SECONDS = 2.0
# Three times as long as a healthy stream is silent.
SILENCE_SECONDS = 45.0
MIN_SECONDS = 0.05


def _endless() -> float:
    return math.inf


def _never() -> bool:
    return False


class EventFollower:
    """What a stream tells, also over cuts: each event once, in order.

    `left` is how many seconds the reader still waits; `is_over` whether a stream that ended is complete;
    `met` whether the platform has answered before, so that its absence is waited out.
    """

    def __init__(
        self,
        session: ApiSession,
        path: str,
        query: Mapping[str, str],
        since: str | None,
        *,
        left: Callable[[], float] = _endless,
        is_over: Callable[[], bool] = _never,
        met: bool = False,
    ) -> None:
        self._session = session
        self._path = f"{path}?{urlencode(query)}" if query else path
        self._last_id = since
        self._retry = RETRY_SECONDS
        self._watchdog = ReconnectPolicy(session, met=met)
        self._left = left
        self._is_over = is_over

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (json.loads(event.data) for event in self.events() if event is not None)

    def events(self) -> Iterator[SSEEvent | None]:
        """Yield every event as it comes, and None for a sign of life without one."""
        while True:
            try:
                yield from self._read()
            except problems.Problem as problem:
                if self._left() <= 0:
                    return
                self._watchdog.bear(problem, self._retry)
            else:
                if self._is_over() or self._left() <= 0:
                    return
                time.sleep(self._retry)

    def _read(self) -> Iterator[SSEEvent | None]:
        headers = {"Accept": "text/event-stream"}
        if self._last_id is not None:
            headers["Last-Event-ID"] = self._last_id
        silence = min(SILENCE_SECONDS, max(self._left(), MIN_SECONDS))
        request = client.ApiRequest("GET", self._path, headers=headers, timeout=silence)
        decoder = SSEDecoder()
        try:
            for piece in self._session.client.pieces(request):
                self._watchdog.met()
                seen = decoder.last_id
                events = decoder.feed(piece)
                if decoder.retry_ms:
                    self._retry = decoder.retry_ms / 1000
                # A block without data, too, moves the place where the stream is resumed.
                if decoder.last_id != seen:
                    self._last_id = decoder.last_id
                yield from self._each(events)
                if not events:
                    yield None
        except EventTooLarge as problem:
            raise problems.Problem(str(problem), "answer-too-large") from problem

    def _each(self, events: list[SSEEvent]) -> Iterator[SSEEvent]:
        for event in events:
            self._last_id = event.id or self._last_id
            if event.type == "resync":
                self._skip(json.loads(event.data)["oldest_id"])
            else:
                yield event

    def _skip(self, oldest: str) -> None:
        self._last_id = oldest
        self._session.remark(f"the events up to {oldest} are no longer kept: going on after them")
