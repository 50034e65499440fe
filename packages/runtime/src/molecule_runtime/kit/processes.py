"""Child processes of an engine: each leads a process group, which ends with the turn that started it."""

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import Process
from contextvars import ContextVar
from typing import Any

_of_turn: ContextVar[list[Process] | None] = ContextVar("molecule_turn_processes", default=None)


async def spawn(program: str, *arguments: str, **options: Any) -> Process:
    """Start a child; when its turn is interrupted, it and everything it started are killed."""
    process = await asyncio.create_subprocess_exec(program, *arguments, start_new_session=True, **options)
    started = _of_turn.get()
    if started is not None:
        started.append(process)
    return process


def follow(started: list[Process]) -> None:
    """From now on, in this context, add what is spawned to a list."""
    _of_turn.set(started)


def kill(started: list[Process]) -> None:
    """Kill what still runs, with its whole group."""
    for process in started:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
