"""Clock, sleep and chance of the links, in one value: tests hand in their own instead of waiting."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


async def wait_for_event(event: asyncio.Event, seconds: float) -> None:
    """Wait until the event is set, at most so long."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass


@dataclass(frozen=True)
class TimeSource:
    """`monotonic` and `time` are in seconds, the latter since the epoch; `chance` is in [0, 1)."""

    monotonic: Callable[[], float] = time.monotonic
    time: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    wait: Callable[[asyncio.Event, float], Awaitable[None]] = wait_for_event
    chance: Callable[[], float] = random.random


SYSTEM_TIME = TimeSource()
"""The real clock."""
