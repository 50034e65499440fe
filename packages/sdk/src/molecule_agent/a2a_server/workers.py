"""A thread pool of daemon threads, which do not keep a program from ending."""

import queue
import threading
from collections.abc import Callable

IDLE_SECONDS = 30.0


class Workers:
    """Runs each job in a thread that no other job holds; starting one costs more than most messages."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0

    def start(self, job: Callable[[], object]) -> None:
        """Run a job in an idle thread, or in a new one."""
        with self._lock:
            if self._idle:
                self._idle -= 1
            else:
                threading.Thread(target=self._work, name="molecule-turn", daemon=True).start()
        self._jobs.put(job)

    def _work(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=IDLE_SECONDS)
            except queue.Empty:
                with self._lock:
                    if self._idle:
                        self._idle -= 1
                        return
                continue  # a job was promised to this thread just now
            job()
            with self._lock:
                self._idle += 1
