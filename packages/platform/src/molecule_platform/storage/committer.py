"""The thread that waits for the disk, so that the event loop need not."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from queue import SimpleQueue

Commit = Callable[[], None]
Done = Callable[[Exception | None], None]


class Committer:
    """Commits one batch after another, and tells the loop how each ended.

    An executor would do the same with three futures, two locks and a condition for each batch; a message that
    comes alone waits for two of them.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._asked: SimpleQueue[tuple[Commit, Done] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def commit(self, commit: Commit, done: Done) -> None:
        """Do that; then the loop calls `done` with what went wrong, or None."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="sqlite-commit", daemon=True)
            self._thread.start()
        self._asked.put((commit, done))

    def stop(self) -> None:
        """Finish what was asked for."""
        if self._thread is not None:
            self._asked.put(None)
            self._thread.join()

    def _work(self) -> None:
        while (asked := self._asked.get()) is not None:
            commit, done = asked
            # A loop that has ended has nobody left to tell.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(done, _problem_of(commit))


def _problem_of(commit: Commit) -> Exception | None:
    try:
        commit()
    except Exception as problem:  # noqa: BLE001 - it belongs to those whose batch this is
        return problem
    return None
