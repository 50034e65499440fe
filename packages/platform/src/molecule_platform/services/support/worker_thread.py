"""A worker thread for work that would block the event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

LARGE_BYTES = 256 * 1024
Result = TypeVar("Result")
# A single thread: decoding holds the interpreter lock, so a second one would only delay the event loop twice.
_EXECUTOR = ThreadPoolExecutor(1, "large-bodies")


async def run_in_thread_if_large(size: int, work: Callable[[], Result]) -> Result:
    """Run `work` in the worker thread if it reads more than `LARGE_BYTES`, otherwise at once."""
    if size <= LARGE_BYTES:
        return work()
    return await asyncio.get_running_loop().run_in_executor(_EXECUTOR, work)
