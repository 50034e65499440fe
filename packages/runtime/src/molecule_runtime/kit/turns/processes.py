"""Child processes of an engine: each leads a process group, which ends with the turn that started it."""

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import Process
from typing import Any

from molecule_runtime.kit.turns import turn_context


async def spawn(program: str, *arguments: str, **options: Any) -> Process:
    """Start a child; when its turn is interrupted, it and everything it started are killed."""
    process = await asyncio.create_subprocess_exec(program, *arguments, start_new_session=True, **options)
    started = turn_context.get_children()
    if started is not None:
        started.append(process)
    return process


def kill(started: list[Process]) -> None:
    """Kill what still runs, with its whole group."""
    for process in started:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
