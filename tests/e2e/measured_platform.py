"""The platform's command, with a probe on its event loop that writes the loop's lag to a file."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

from molecule_platform.app import Platform

PAUSE_SECONDS = 0.005
LAG_FILE = "MEASURED_LAG_FILE"

_open = Platform.open


async def sample(path: Path) -> None:
    """Append the lag of each tick in seconds: how late it was, without what other processes took.

    A tick cannot be later by its own process than that process used the processor meanwhile.
    """
    loop = asyncio.get_running_loop()
    with path.open("a", buffering=1) as file:
        while True:
            due, used = loop.time() + PAUSE_SECONDS, time.process_time()
            await asyncio.sleep(PAUSE_SECONDS)
            late = min(loop.time() - due, time.process_time() - used)
            file.write(f"{time.time():.3f} {max(late, 0.0):.4f}\n")


async def _open_measured(*args: Any, **more: Any) -> Platform:
    platform = await _open(*args, **more)
    _probes.add(asyncio.create_task(sample(Path(os.environ[LAG_FILE]))))
    return platform


_probes: set[asyncio.Task[None]] = set()


def install() -> None:
    """Measure every platform that this process opens."""
    Platform.open = _open_measured  # pyright: ignore[reportAttributeAccessIssue]
