"""Results of delegations: found by polling, kept in a file, and brought to the agent by a wake-up message.

An id counts as seen only after a wake-up that names it was accepted, so a result is not lost when the
platform is away or the process ends in between.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from molecule_runtime.domain import delegation_results as results
from molecule_runtime.links import private_files
from molecule_runtime.links.time_source import SYSTEM_TIME, TimeSource
from molecule_wire import JSON, JSONObject, jsontext, times
from molecule_wire.calls import CallFailed

STATE_NAME = ".delegation_results_state.json"
_MAX_WARNED = 200

log = logging.getLogger("molecule_runtime")


class DelegationPlatform(Protocol):
    """The calls that are needed here; `PlatformClient` has them."""

    workspace_id: str

    async def delegations(self) -> list[JSONObject]:
        """The newest delegations that this workspace gave."""
        ...

    async def notify(self, message: str, attachments: list[JSON] | None = None, type: str = "") -> None:
        """Tell the user something."""
        ...

    async def send_message(
        self, target_id: str, text: str, *, message_id: str = "", wait: bool = True
    ) -> JSONObject:
        """Send a text to a workspace."""
        ...


class DelegationResults:
    """Looks for finished delegations of this workspace; `results_file` gets one JSON line for each.

    `noted` is called when there are new lines in it, before the wake-up is sent.
    """

    def __init__(
        self,
        platform: DelegationPlatform,
        results_file: Path,
        *,
        parent_id: str = "",
        noted: Callable[[], None] = lambda: None,
        time_source: TimeSource = SYSTEM_TIME,
    ) -> None:
        self._platform = platform
        self._results_file = results_file
        self._state_file = results_file.with_name(STATE_NAME)
        self._parent_id = parent_id
        self._noted = noted
        self._time = time_source
        self._log: results.ResultLog | None = None
        self._warned: OrderedDict[str, None] = OrderedDict()
        self._woke_at: float | None = None
        self._lock = asyncio.Lock()

    async def check(self) -> None:
        """Look once: note what is new, and wake the agent up. Raises `CallFailed` or OSError.

        A wake-up is sent at most once a minute; until one is accepted, its results wait for the next look.
        """
        async with self._lock:
            rows = await self._platform.delegations()
            known = await self._known()
            found = known.sort(rows, self._platform.workspace_id)
            self._warn_of(found.foreign)
            if found.new:
                await self._note(known, found.new)
            if known.pending:
                await self._wake(known)

    async def _known(self) -> results.ResultLog:
        if self._log is None:
            text = await asyncio.to_thread(private_files.read, self._state_file)
            self._log = results.ResultLog.read(text or "")
        return self._log

    async def _note(self, known: results.ResultLog, rows: list[JSONObject]) -> None:
        now = times.format_time(datetime.fromtimestamp(self._time.time(), UTC))
        found = [results.result_of(row, now) for row in rows]
        lines = "".join(f"{jsontext.encode(result).decode()}\n" for result in found)
        await asyncio.to_thread(private_files.append, self._results_file, lines)
        self._noted()
        known.add(found)
        await self._save(known)
        for result in found:
            try:
                await self._platform.notify(results.notification(result), type="delegation_result")
            except (CallFailed, OSError) as problem:
                log.warning("nobody could be told of delegation %s: %s", result["delegation_id"], problem)

    async def _wake(self, known: results.ResultLog) -> None:
        now = self._time.monotonic()
        if self._woke_at is not None and now - self._woke_at < results.SELF_MESSAGE_COOLDOWN:
            return
        named = list(known.pending)
        message = results.wake_up(list(known.pending.values()), self._parent_id)
        answer = await self._platform.send_message(
            self._platform.workspace_id, message.text, message_id=message.message_id, wait=False
        )
        if "error" in answer:
            log.warning("the wake-up for %d results was not accepted: %s", len(named), answer["error"])
            return
        self._woke_at = now
        known.settle(named)
        await self._save(known)

    async def _save(self, known: results.ResultLog) -> None:
        await asyncio.to_thread(private_files.write, self._state_file, known.text())

    def _warn_of(self, foreign: list[str]) -> None:
        for delegation_id in foreign:
            if delegation_id not in self._warned:
                log.warning("delegation %s is not of this workspace; its result is skipped", delegation_id)
                self._warned[delegation_id] = None
        while len(self._warned) > _MAX_WARNED:
            self._warned.popitem(last=False)
