"""A program in a terminal of its own, with what it shows there."""

import os
import pty
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

SECONDS = 60.0


class Terminal:
    """Runs a program as a person would, and presses its keys."""

    def __init__(self, command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
        self._screen, inner = pty.openpty()
        # In a session of its own, so that Ctrl-C of this terminal reaches the program and nobody else.
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=inner,
            stdout=inner,
            stderr=inner,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        os.close(inner)
        self.shown = ""

    def until(self, words: str, times: int = 1) -> None:
        """Wait until the program has shown these words so many times."""
        deadline = time.monotonic() + SECONDS
        while self.shown.count(words) < times:
            assert time.monotonic() < deadline, self.shown
            assert self._read() or self.shown.count(words) >= times, self.shown

    def press_ctrl_c(self) -> int:
        """Interrupt the program; its exit code. What it shows in the end is in `shown`."""
        os.write(self._screen, b"\x03")
        code = self.process.wait(SECONDS)
        while self._read():
            pass
        return code

    def close(self) -> None:
        """End it, whatever it does."""
        self.process.kill()
        self.process.wait(SECONDS)
        os.close(self._screen)

    def _read(self) -> bool:
        """Read a little; false when there is nothing more to come."""
        if not select.select([self._screen], [], [], 0.5)[0]:
            return self.process.poll() is None
        try:
            self.shown += os.read(self._screen, 65536).decode()
        except OSError:  # the other end is closed
            return False
        return True


def _take_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
