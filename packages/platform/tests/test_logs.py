"""The log: what libraries say is one sampled line of JSON."""

import asyncio
import json
import logging

import pytest

from molecule_platform import logs
from molecule_platform.web.pipeline.log_sampling import BURST


async def test_exceptions_of_the_event_loop_become_one_sampled_line_of_json(
    capsys: pytest.CaptureFixture[str],
) -> None:
    handler = logs.LibraryLog(logs.to_stderr("production"))
    logger = logging.getLogger("asyncio")
    logger.addHandler(handler)
    try:
        loop = asyncio.get_running_loop()
        for number in range(1000):
            loop.call_soon(_fail, number)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    finally:
        logger.removeHandler(handler)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert BURST <= len(lines) < 100
    assert lines[0]["logger"] == "asyncio"
    assert lines[0]["event"].startswith("Exception in callback")
    assert "ZeroDivisionError" in lines[0]["exception"]


def _fail(number: int) -> float:
    return number / 0
