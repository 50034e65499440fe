"""Asynchronous tests as plain ones, so that authors of adapters need no plugin of pytest."""

import asyncio
import functools
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

LEFT_SECONDS = 2.0
"""How long cancelled tasks may take to end before they are left behind."""

Suite = TypeVar("Suite")


def run_in_loop(
    test: Callable[[Suite, Path], Coroutine[Any, Any, None]],
) -> Callable[[Suite, Path], None]:
    """Run a test method in an event loop of its own.

    `asyncio.run` cancels what is left once, and would wait for ever for an engine that ignores that.
    """

    @functools.wraps(test)
    def run(self: Suite, tmp_path: Path) -> None:
        loop = asyncio.new_event_loop()
        try:
            loop.run_until_complete(test(self, tmp_path))
        finally:
            until = time.monotonic() + LEFT_SECONDS
            while (left := asyncio.all_tasks(loop)) and time.monotonic() < until:
                for task in left:
                    task.cancel()
                loop.run_until_complete(asyncio.wait(left, timeout=0.05))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    return run
