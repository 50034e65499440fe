"""Server-sent events: lines become frames, and a stream that was cut goes on where it was."""

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from molecule_platform.cli import client, problems
from molecule_platform.cli.patience import Patience
from molecule_platform.cli.session import Session

RETRY_SECONDS = 2.0
# Three times as long as a healthy stream is silent.
SILENCE_SECONDS = 45.0
SHORTEST_SECONDS = 0.05


@dataclass(frozen=True)
class Frame:
    """One block of a stream. `id` is the last one that was told; without data there is nothing else in it."""

    event: str
    data: str
    id: str
    retry: float | None


def frames(lines: Iterable[str]) -> Iterator[Frame]:
    """The frames in the lines of a stream; what is cut off at its end is none."""
    fields: dict[str, list[str]] = {}
    last_id = ""
    for line in lines:
        if line:
            name, _colon, value = line.partition(":")
            fields.setdefault(name, []).append(value.removeprefix(" "))
            continue
        last_id = fields.get("id", [last_id])[-1]
        retry = fields.get("retry", [""])[-1]
        seconds = int(retry) / 1000 if retry.isascii() and retry.isdigit() else None
        yield Frame(fields.get("event", ["message"])[-1], "\n".join(fields.get("data", ())), last_id, seconds)
        fields = {}


def decoded(frame: Frame) -> dict[str, Any]:
    """The data of a frame that has some."""
    return json.loads(frame.data)


def _endless() -> float:
    return math.inf


def _never() -> bool:
    return False


class Follower:
    """What a stream tells, also over cuts: each event once, in order.

    `left` is how many seconds the reader still waits; `is_over` whether a stream that ended is complete;
    `met` whether the platform has answered before, so that its absence is waited out.
    """

    def __init__(
        self,
        session: Session,
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
        self._patience = Patience(session, met=met)
        self._left = left
        self._is_over = is_over

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (json.loads(frame.data) for frame in self.frames() if frame.data)

    def frames(self) -> Iterator[Frame]:
        """Every frame as it comes, also the empty ones that keep a stream alive."""
        while True:
            try:
                yield from self._read()
            except problems.Problem as problem:
                if self._left() <= 0:
                    return
                self._patience.bear(problem, self._retry)
            else:
                if self._is_over() or self._left() <= 0:
                    return
                time.sleep(self._retry)

    def _read(self) -> Iterator[Frame]:
        headers = {"Accept": "text/event-stream"}
        if self._last_id is not None:
            headers["Last-Event-ID"] = self._last_id
        silence = min(SILENCE_SECONDS, max(self._left(), SHORTEST_SECONDS))
        request = client.Request("GET", self._path, headers=headers, timeout=silence)
        for frame in frames(self._session.client.lines(request)):
            self._patience.met()
            self._retry = frame.retry or self._retry
            self._last_id = frame.id or self._last_id
            if frame.event == "resync":
                self._skip(json.loads(frame.data)["oldest_id"])
            else:
                yield frame

    def _skip(self, oldest: str) -> None:
        self._last_id = oldest
        self._session.remark(f"the events up to {oldest} are no longer kept: going on after them")
