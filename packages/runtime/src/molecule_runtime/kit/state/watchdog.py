"""Watches over the event loop and the engine: an engine that hangs is wedged, and says so while it hangs."""

import asyncio
import contextlib
import logging
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from molecule_runtime.kit.state import engine_health

STALL_SECONDS = 30.0
POLL_SECONDS = 5.0
HEALTH_SECONDS, HEALTH_TIMEOUT_SECONDS = 30.0, 10.0

log = logging.getLogger("molecule_runtime")


class LoopWatchdog:
    """A thread that asks the event loop for a sign of life; after 30 s without one the engine is wedged.

    `on_stall` is called in the thread then, and again each 30 s until the loop turns: whatever the loop
    would tell the platform has to be told from there.
    """

    def __init__(
        self,
        on_stall: Callable[[], None],
        *,
        stall_seconds: float = STALL_SECONDS,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self._on_stall = on_stall
        self._stall_seconds = stall_seconds
        self._poll_seconds = poll_seconds
        self._stopped = threading.Event()
        self._loop_thread = threading.get_ident()
        self._thread = threading.Thread(target=self._watch, name="loop-watchdog", daemon=True)

    def start(self) -> None:
        """Begin to watch the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._thread.start()

    def stop(self) -> None:
        """End the thread soon."""
        self._stopped.set()

    def _watch(self) -> None:
        while not self._stopped.wait(self._poll_seconds):
            turned = threading.Event()
            with contextlib.suppress(RuntimeError):  # the loop is closed: the process ends
                self._loop.call_soon_threadsafe(turned.set)
            while not turned.wait(self._stall_seconds) and not self._stopped.is_set():
                where = _place(sys._current_frames().get(self._loop_thread))
                reason = f"the event loop was blocked for {self._stall_seconds:g} s{where}"
                log.error("%s", reason)
                engine_health.mark_wedged_by_kit(reason)
                self._on_stall()


def _place(frame: FrameType | None) -> str:
    """The line that blocks, without the path of the machine."""
    return f" in {frame.f_code.co_name} ({frame.f_globals.get('__name__')}:{frame.f_lineno})" if frame else ""


async def watch_health(adapter: Any, seconds: float = HEALTH_SECONDS) -> None:
    """Ask the adapter every 30 s whether its engine works; what it finds is over when it says so."""
    was_well = True
    while True:
        await asyncio.sleep(seconds)
        reason = await health_problem(adapter)
        if reason:
            engine_health.mark_wedged_by_kit(reason)
        elif not was_well:
            engine_health.clear_after_success()
        was_well = not reason


async def health_problem(adapter: Any) -> str:
    """What the adapter says is wrong with its engine; empty when nothing is."""
    try:
        async with asyncio.timeout(HEALTH_TIMEOUT_SECONDS):
            report: dict[str, Any] = await adapter.health()
    except TimeoutError:
        return f"the engine did not say within {HEALTH_TIMEOUT_SECONDS:g} s whether it works"
    except Exception as problem:
        log.warning("the health of the engine cannot be told", exc_info=True)
        return f"the engine's health cannot be told: {type(problem).__name__}"
    return (
        "" if report.get("ok", True) else str(report.get("reason") or "the engine says that it does not work")
    )
