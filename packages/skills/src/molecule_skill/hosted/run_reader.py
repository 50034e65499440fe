"""Reader of one run for one caller: from memory while this process runs it, else from the store."""

import asyncio
from collections.abc import AsyncIterator

from molecule_skill import clocks
from molecule_skill.errors import RunRefused
from molecule_skill.hosted.host import Host
from molecule_skill.hosted.live_runs import LiveRun
from molecule_skill.hosted.runs import Runs
from molecule_skill.store.records import (
    FINAL,
    ArtifactRecord,
    RequestRecord,
    RequestState,
    RunRecord,
    RunState,
    StoredEvent,
)

MAX_PAGE = 1000


class RunReader:
    """Shows a run to its caller. It raises RunRefused with `not-found` to a stranger as for an unknown id."""

    def __init__(self, host: Host, runs: Runs, run_id: str, principal: str | None) -> None:
        self._host, self._runs = host, runs
        self._run_id, self._principal = run_id, principal
        active = runs.active.get(run_id)
        live = None if active is None else active.ctx._live
        self._live = live if live is not None and principal in (None, live.new.principal) else None

    async def record(self) -> RunRecord:
        """The run as it is now."""
        live = self._current()
        if live is not None:
            return live.record
        kept = self._runs.unrecorded.get(self._run_id)
        return self._check(kept or await self._host.store.run(self._run_id))

    async def wait(self, timeout: float | None = None) -> RunRecord:
        """The run as soon as it is final or waits for a person, or as it is after `timeout` seconds."""
        signals, clock = self._host.state_signals, clocks.CURRENT.get()
        until = None if timeout is None else clock.monotonic() + timeout
        while True:
            signal = signals.subscribe(self._run_id)
            try:
                record = await self.record()
                left = None if until is None else until - clock.monotonic()
                if record.state in FINAL or (left is not None and left <= 0) or await self._asks(record):
                    return record
                await self._news(signal, left)
            finally:
                signals.unsubscribe(self._run_id, signal)

    async def events(
        self, after: int = 0, limit: int = MAX_PAGE, wait: float | None = 0.0
    ) -> list[StoredEvent]:
        """Events later than `after`; with none there yet, wait so many seconds for one, or until the end.

        Raises RunRefused with `cursor-ahead` for a number beyond the newest event.
        """
        signals, clock = self._host.event_signals, clocks.CURRENT.get()
        limit = min(limit, MAX_PAGE)
        until = None if wait is None else clock.monotonic() + wait
        while True:
            live = self._current()
            if live is not None and (found := live.events(after, limit)):
                return found
            signal = signals.subscribe(self._run_id)
            try:
                record = await self.record()
                found = await self._page(record, after, limit)
                left = None if until is None else until - clock.monotonic()
                if found or record.state in FINAL or (left is not None and left <= 0):
                    return found
                await self._news(signal, left)
            finally:
                signals.unsubscribe(self._run_id, signal)

    async def follow(self, after: int = 0) -> AsyncIterator[StoredEvent]:
        """Every event later than `after`, live, until the run is final."""
        while True:
            found = await self.events(after, wait=None)
            for event in found:
                after = event.seq
                yield event
            live = self._current() or await self.record()
            if live.state in FINAL and after >= live.last_seq:
                return

    async def artifacts(self) -> list[ArtifactRecord]:
        """The files of the run's current attempt."""
        live = self._current()
        if live is not None and not live.has_artifacts:
            return []
        return await self._host.store.artifacts(self._run_id, (await self.record()).attempt)

    async def interactions(self) -> list[RequestRecord]:
        """The interactions of the run, oldest first; the pending one is what it waits for."""
        await self.record()
        return await self._host.store.requests(self._run_id)

    # Inside

    def _current(self) -> LiveRun | None:
        live = self._live
        return live if live is not None and live.is_current else None

    def _check(self, record: RunRecord | None) -> RunRecord:
        is_theirs = record is not None and self._principal in (None, record.new.principal)
        if record is None or not is_theirs or record.new.agent != self._host.agent.name:
            raise not_found("run", self._run_id)
        return record

    async def _asks(self, record: RunRecord) -> bool:
        """Whether a person is asked; between an answer and its handler's next step nobody is."""
        if record.state is not RunState.WAITING:
            return False
        rows = await self._host.store.requests(self._run_id)
        return any(row.state is RequestState.PENDING for row in rows)

    async def _page(self, record: RunRecord, after: int, limit: int) -> list[StoredEvent]:
        if after > record.last_seq:
            sentence = f"the run has {record.last_seq} events, there is none after {after} to continue from"
            raise RunRefused("cursor-ahead", sentence)
        live = self._current()
        found = None if live is None else live.events(after, limit)
        return (
            await self._host.store.events(self._run_id, after=after, limit=limit) if found is None else found
        )

    async def _news(self, signal: "asyncio.Future[None]", left: float | None) -> None:
        """Wait until the run has news, at most so long; what other processes write is looked for."""
        if left is None and self._current() is not None:
            await signal
            return
        poll = self._host.settings.poll_seconds
        await clocks.wait(signal, poll if left is None else min(poll, left))


def not_found(what: str, name: str) -> RunRefused:
    """The refusal of a name that is unknown or somebody else's."""
    return RunRefused("not-found", f"there is no {what} {name!r} here")
