"""Steps: side effects that a run does once."""

import asyncio
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from molecule_skill.json_values import json_value
from molecule_wire import JSON


async def run_step(key: str, fn: Callable[..., Any], args: Sequence[Any]) -> JSON:
    """Run a step and return its value as JSON. Raises TypeError for a value that is not JSON.

    A plain function runs in a thread: it may block without stopping the other runs of the process.
    """
    if inspect.iscoroutinefunction(fn):
        value = await fn(*args)
    else:
        value = await asyncio.to_thread(fn, *args)
        if inspect.isawaitable(value):
            value = await value
    try:
        return json_value(value)
    except TypeError as problem:
        raise TypeError(f"step {key!r} must return JSON: {problem}") from problem
