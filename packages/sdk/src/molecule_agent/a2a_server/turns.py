"""Turns: each run of the handler, remembered for a while, so that a redelivery gets the first result."""

import contextvars
import logging
import math
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeAlias

from molecule_agent.a2a_server.task_log import TaskLog

REMEMBER_SECONDS = 600.0
REMEMBER_COUNT = 1000
REMEMBER_BYTES = 64 * 1024 * 1024

Run: TypeAlias = Callable[[], Any]

log = logging.getLogger("molecule_agent")

cancelled: contextvars.ContextVar[threading.Event | None] = contextvars.ContextVar(
    "molecule_cancelled", default=None
)
"""Set, in the thread of a handler, once nobody wants its result any more."""


class AgentBusy(Exception):
    """As many handlers run as may."""


class AgentStopping(Exception):
    """The server is being stopped."""


class KeyReused(Exception):
    """Another message was sent under the same key; the text is the name of its turn."""


class Turn:
    """One run of the handler. `failure` is what others may know of an exception: class and reference.

    A turn of A2A tells its task how it ends; one that takes longer than `seconds` has failed, whatever it
    still says.
    """

    def __init__(
        self, name: str, task: TaskLog | None = None, seconds: float = math.inf, size: int = 0
    ) -> None:
        self.name = name
        self.task = task
        self.size = size
        self.result: Any = None
        self.failure = ""
        self.timed_out = False
        self.called_off = False
        self.started_at = time.monotonic()
        self.cancelled = threading.Event()
        self._seconds = seconds
        self._lock = threading.Lock()
        self._done = threading.Event()

    @property
    def finished(self) -> bool:
        """Whether the result is there."""
        return self._done.is_set()

    def time_left(self) -> float:
        """Seconds until it has failed; one whose time is over fails by this."""
        left = self.started_at + self._seconds - time.monotonic()
        if left <= 0 and not self.finished:
            self._time_out()
        return max(left, 0.0)

    def wait(self, seconds: float = math.inf) -> None:
        """Wait for the result; one that does not come in time is a failure."""
        left = min(seconds, self.time_left())
        if not self._done.wait(None if left == math.inf else left):
            self._time_out()

    def cancel(self) -> None:
        """End the turn without a result; its handler may learn that nobody waits for it."""
        self.cancelled.set()
        self._finish("CANCELED")

    def run(self, run: Run) -> None:
        """Run the handler to its end."""
        cancelled.set(self.cancelled)
        if self.task is not None:
            self.task.tell("WORKING")
        try:
            self._finish("COMPLETED", result=run())
        except Exception as error:
            failure = _reference(type(error).__name__)
            log.error("the handler failed on %s: %s", self.name, failure, exc_info=error)
            self._finish("FAILED", failure=failure)

    def _time_out(self) -> None:
        self.timed_out = True
        self._finish("FAILED", failure=_reference("TimeoutError"))
        self.cancelled.set()

    def _finish(self, state: str, result: Any = None, failure: str = "") -> None:
        with self._lock:
            if self._done.is_set():
                return
            self.called_off = state == "CANCELED"
            self.result, self.failure = result, failure
            if self.task is not None:
                self.task.tell(state, [{"text": f"internal error: {failure}"}] if failure else result)
            self._done.set()


class Turns:
    """Starts turns, at most so many at once, and finds them again by the key of their message."""

    def __init__(self, max_concurrency: int, seconds: float = math.inf) -> None:
        self._max = max_concurrency
        self._seconds = seconds
        self._condition = threading.Condition()
        self._running = 0
        self._stopping = False
        self._known: OrderedDict[Hashable, tuple[Turn, str]] = OrderedDict()

    def start(
        self,
        name: str,
        key: Hashable | None,
        run: Run,
        task: TaskLog | None = None,
        fingerprint: str = "",
        size: int = 0,
    ) -> Turn:
        """Start a turn, or attach to the one that has this key; `size` is how many bytes its message has.

        One that was called off is no answer to a message that comes again. Raises AgentBusy, AgentStopping,
        or KeyReused when the turn with that key has another fingerprint.
        """
        with self._condition:
            self._forget_old()
            if key in self._known and not self._known[key][0].called_off:
                return self._attached(key, fingerprint)
            self._take_place()
            turn = Turn(name, task, self._seconds, size)
            self._known[key if key is not None else turn] = (turn, fingerprint)
        context = contextvars.copy_context()
        arguments = (self._run, turn, run)
        threading.Thread(target=context.run, args=arguments, name="molecule-turn", daemon=True).start()
        return turn

    def find(self, name: str) -> Turn | None:
        """The turn of this name, while it is remembered."""
        return next((turn for turn in self.remembered() if turn.name == name), None)

    def of_message(self, key: Hashable | None) -> Turn | None:
        """The turn of the message that has this key, while it is remembered."""
        with self._condition:
            turn, _ = self._known.get(key, (None, ""))
            return turn

    def remembered(self) -> list[Turn]:
        """Every turn that is not forgotten yet."""
        with self._condition:
            self._forget_old()
            return [turn for turn, _ in self._known.values()]

    def forget(self, key: Hashable | None) -> None:
        """Let the next delivery of a message run again."""
        with self._condition:
            self._known.pop(key, None)

    def drain(self, seconds: float) -> None:
        """Start nothing more and wait for what runs."""
        with self._condition:
            self._stopping = True
            self._condition.wait_for(lambda: self._running == 0, seconds)

    def _attached(self, key: Hashable, fingerprint: str) -> Turn:
        turn, before = self._known[key]
        if before != fingerprint:
            raise KeyReused(turn.name)
        return turn

    def _take_place(self) -> None:
        if self._stopping:
            raise AgentStopping
        if self._running >= self._max:
            raise AgentBusy
        self._running += 1

    def _run(self, turn: Turn, run: Run) -> None:
        try:
            turn.run(run)
        finally:
            with self._condition:
                self._running -= 1
                self._condition.notify_all()

    def _forget_old(self) -> None:
        oldest, size = time.monotonic() - REMEMBER_SECONDS, 0
        for newer, (key, (turn, _)) in enumerate(reversed(list(self._known.items()))):
            size += turn.size
            too_much = newer >= REMEMBER_COUNT or size > REMEMBER_BYTES
            if turn.finished and (turn.started_at < oldest or too_much):
                del self._known[key]


def _reference(name: str) -> str:
    return f"{name} (ref {os.urandom(4).hex()})"
