"""Side effects of code under test: connections and programs that it starts, child processes that it leaves.

What starts something is told by audit events of Python, so an engine is watched without being changed.
"""

import asyncio
import os
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHILDREN_SECONDS = 2.0
"""How long a child that was killed may take to be gone."""

_EVENTS = frozenset(
    {"socket.connect", "socket.getaddrinfo", "subprocess.Popen", "os.posix_spawn", "os.system", "os.exec"}
)
_recordings: list[list[str]] = []
_is_installed = False


@contextmanager
def recorded() -> Generator[list[str]]:
    """The network and process operations that happen inside, as they happen."""
    global _is_installed
    if not _is_installed:  # an audit hook cannot be removed again
        sys.addaudithook(_note)
        _is_installed = True
    happened: list[str] = []
    _recordings.append(happened)
    try:
        yield happened
    finally:
        _recordings.remove(happened)


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if _recordings and event in _EVENTS:
        subject = arguments[1] if event == "socket.connect" else arguments[0]
        for happened in tuple(_recordings):
            happened.append(f"{event} {subject!r}")


def child_processes() -> dict[int, str]:
    """The children of this process that still run, by id with their command; none where there is no /proc."""
    found: dict[int, str] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # The name of the program, in brackets, may have spaces.
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            if int(parent) == os.getpid() and state != "Z":
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
                found[int(folder.name)] = command.decode(errors="replace").strip()
        except (OSError, ValueError):
            continue  # it has ended meanwhile
    return found


async def check_children_ended(before: Mapping[int, str]) -> None:
    """Raise AssertionError when a child process runs that was not there before."""
    until = time.monotonic() + CHILDREN_SECONDS
    while True:
        left = [command for pid, command in child_processes().items() if pid not in before]
        if not left or time.monotonic() > until:
            break
        await asyncio.sleep(0.02)
    process_list = " ".join(", ".join(left).split())[:200]
    advice = "start programs with the kit's spawn(), or end them in stop() or close()"
    assert not left, f"the workspace has stopped and its programs still run: {process_list}; {advice}"
