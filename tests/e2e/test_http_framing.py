"""No client can make a server of ours lose count of its requests, or wait for bytes that never come."""

import asyncio
import contextlib
import re
import time
from collections.abc import Iterator

import pytest

from tests.e2e import http_servers
from tests.e2e.framing_cases import CASES, Case
from tests.e2e.http_servers import Target

pytestmark = pytest.mark.slow  # three processes, and deadlines that run out

# Every deadline of the servers is over by then; the rest is for a machine that does something else.
LATEST_SECONDS = 20.0
REFUSALS = {400, 401, 404, 405, 408, 411, 413, 414, 417, 421, 426, 431, 501, 505}
_STATUS_LINE = re.compile(rb"HTTP/1\.1 (\d{3}) ")


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Target]]:
    with http_servers.all_targets(tmp_path_factory.mktemp("framing")) as targets:
        yield targets


async def send(target: Target, case: Case) -> tuple[list[int], float]:
    """Send a case and an honest request behind it; return the final statuses and the seconds it took."""
    host = f"127.0.0.1:{target.port}".encode()
    health = target.health.encode()
    honest = b"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    # An unfinished request is followed by nothing.
    whole = case.payload if "nfinished" in case.name or "never" in case.name else case.payload + honest
    began = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", target.port)
    received = b""
    async with asyncio.timeout(LATEST_SECONDS):
        with contextlib.suppress(ConnectionError):
            writer.write(whole.replace(b"{path}", health).replace(b"{host}", host))
            await writer.drain()
            while chunk := await reader.read(65536):
                received += chunk
    writer.close()
    statuses = [int(status) for status in _STATUS_LINE.findall(received)]
    return [status for status in statuses if status != 100], time.monotonic() - began


def fault(case: Case, statuses: list[int]) -> str | None:
    """Return what is wrong with the responses to a case."""
    is_served = len(statuses) == case.requests + 1 and statuses[-1] == 200
    is_refused = len(statuses) <= case.requests and (not statuses or statuses[-1] in REFUSALS | {200})
    if case.outcome == "refused":
        is_refused = is_refused and (not statuses or statuses[-1] in REFUSALS)
    right = {"served": is_served, "refused": is_refused, "either": is_served or is_refused}[case.outcome]
    return None if right and 500 not in statuses else f"{case.name}: {statuses}, expected {case.outcome}"


def test_the_corpus_has_150_cases_with_names_of_their_own() -> None:
    assert len(CASES) >= 150
    assert len({case.name for case in CASES}) == len(CASES)


async def test_no_framing_confuses_a_server_and_every_case_ends_in_time(targets: list[Target]) -> None:
    for target in targets:
        results = await asyncio.gather(*(send(target, case) for case in CASES))
        faults = [fault(case, statuses) for case, (statuses, _) in zip(CASES, results, strict=True)]
        assert not any(faults), f"{target.name}: {[text for text in faults if text]}"
        assert max(seconds for _, seconds in results) < LATEST_SECONDS
