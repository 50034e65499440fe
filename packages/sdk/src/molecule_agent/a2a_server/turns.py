"""Turns: each run of the handler, remembered for a while, so that a redelivery gets the first result."""

import contextvars
import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeAlias

from molecule_wire import JSONObject

REMEMBER_SECONDS = 600.0
REMEMBER_COUNT = 1000

Run: TypeAlias = Callable[[], Any]

log = logging.getLogger("molecule_agent")


class AgentBusy(Exception):
    """As many handlers run as may."""


class AgentStopping(Exception):
    """The server is being stopped."""


class Turn:
    """One run of the handler. `failure` is what others may know of an exception: class and reference."""

    def __init__(self, name: str, about: JSONObject) -> None:
        self.name = name
        self.about = about
        self.result: Any = None
        self.failure = ""
        self.timed_out = False
        self.started_at = time.monotonic()
        self._lock = threading.Lock()
        self._done = threading.Event()

    @property
    def finished(self) -> bool:
        """Whether the result is there."""
        return self._done.is_set()

    def wait(self, seconds: float) -> None:
        """Wait for the result; a handler that takes longer has failed, whatever it still says."""
        if not self._done.wait(seconds):
            self.timed_out = True
            self._finish(failure=_reference("TimeoutError"))

    def run(self, run: Run) -> None:
        """Run the handler to its end."""
        try:
            self._finish(result=run())
        except Exception as error:
            failure = _reference(type(error).__name__)
            log.error("the handler failed on %s: %s", self.name, failure, exc_info=error)
            self._finish(failure=failure)

    def _finish(self, result: Any = None, failure: str = "") -> None:
        with self._lock:
            if not self._done.is_set():
                self.result, self.failure = result, failure
                self._done.set()


class Turns:
    """Starts turns, at most so many at once, and finds them again by the key of their message."""

    def __init__(self, max_concurrency: int) -> None:
        self._max = max_concurrency
        self._condition = threading.Condition()
        self._running = 0
        self._stopping = False
        self._known: OrderedDict[Hashable, Turn] = OrderedDict()

    def start(self, name: str, key: Hashable | None, run: Run, about: JSONObject | None = None) -> Turn:
        """Start a turn, or attach to the one that has this key; raises AgentBusy or AgentStopping."""
        with self._condition:
            self._forget_old()
            if key is not None and key in self._known:
                return self._known[key]
            self._take_place()
            turn = Turn(name, about or {})
            self._known[key if key is not None else turn] = turn
        context = contextvars.copy_context()
        arguments = (self._run, turn, run)
        threading.Thread(target=context.run, args=arguments, name="molecule-turn", daemon=True).start()
        return turn

    def find(self, name: str) -> Turn | None:
        """The turn of this name, while it is remembered."""
        with self._condition:
            return next((turn for turn in self._known.values() if turn.name == name), None)

    def forget(self, key: Hashable | None) -> None:
        """Let the next delivery of a message run again."""
        with self._condition:
            self._known.pop(key, None)

    def drain(self, seconds: float) -> None:
        """Start nothing more and wait for what runs."""
        with self._condition:
            self._stopping = True
            self._condition.wait_for(lambda: self._running == 0, seconds)

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
        oldest = time.monotonic() - REMEMBER_SECONDS
        old = [
            key
            for index, (key, turn) in enumerate(self._known.items())
            if turn.finished and (turn.started_at < oldest or index < len(self._known) - REMEMBER_COUNT)
        ]
        for key in old:
            del self._known[key]


def _reference(name: str) -> str:
    return f"{name} (ref {os.urandom(4).hex()})"
