"""A gateway that would outlive its supervisor: the kernel ends it, where it can.

Elsewhere it is noted with its start time, and ended before the next one starts. Without this a runtime that
was killed would find its ports taken by its own gateway for ever.
"""

import contextlib
import json
import logging
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from molecule_runtime.kit.files.atomic_files import read_limited, write_private

NOTE = "molecule-gateway.json"
MAX_NOTE_BYTES = 4096

log = logging.getLogger(__name__)


# Run before the program itself, for uvloop starts no child with a umask. On Linux it asks for SIGTERM at the
# death of the parent (PR_SET_PDEATHSIG is 1), unless that one is dead already.
_WRAPPER = """
import ctypes, os, sys
os.umask(0o077)
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 15)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""


def ended_with_us(*command: str) -> tuple[str, ...]:
    """The command, its files for the owner alone; the kernel ends it with the thread that starts it."""
    return (sys.executable, "-I", "-S", "-c", _WRAPPER, str(os.getpid()), *command)


def note(home: Path, pid: int) -> None:
    """Write down which process was started."""
    row = {"gateway": [pid, _start_time(pid)], "supervisor": [os.getpid(), _start_time(os.getpid())]}
    with contextlib.suppress(OSError):
        write_private(home / NOTE, json.dumps(row).encode())


def forget(home: Path) -> None:
    """The process was ended in order."""
    with contextlib.suppress(OSError):
        (home / NOTE).unlink(missing_ok=True)


def end(home: Path, patience: float) -> None:
    """End the noted gateway and its group, when it still runs and its supervisor does not."""
    try:
        noted: Any = json.loads(read_limited(home / NOTE, MAX_NOTE_BYTES))
        (pid, started), (supervisor, began) = noted["gateway"], noted["supervisor"]
    except (OSError, ValueError, KeyError, TypeError):
        return
    if not (isinstance(pid, int) and isinstance(started, str) and isinstance(supervisor, int)):
        return
    if _start_time(supervisor) == began:
        return
    if _start_time(pid) == started:
        log.warning("a hermes gateway with pid %d is left from an earlier run; it is ended", pid)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGTERM)
        until = time.monotonic() + patience
        while _start_time(pid) == started and time.monotonic() < until:
            time.sleep(0.05)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
    forget(home)


def _start_time(pid: int) -> str | None:
    """When a process started, in the kernel's ticks; None when it is gone, or nothing tells."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]
