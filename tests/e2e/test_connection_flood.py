"""One address cannot take the connections of everyone else."""

import contextlib
import http.client
import json
import socket
import time
from collections.abc import Iterator

import pytest

from molecule_platform.testing import servers
from tests.e2e.framing_cases import UPGRADE
from tests.e2e.platform_process import PlatformProcess

pytestmark = pytest.mark.slow  # thousands of connections

LOW_FILE_LIMIT = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))"
CONNECTIONS = 4_000
SERVED_SECONDS = 1.0
HONEST_ADDRESS = "127.0.0.2"
HALF_A_HEAD = b"GET /health HTTP/1.1\r\nHost: x"
LONG_HANDSHAKE = b"\r\n".join(
    [b"GET /ws?a=" + b"b" * 9_000 + b" HTTP/1.1", b"Host: localhost", *UPGRADE, b"", b""]
)
HANDSHAKE_AND_MORE = b"\r\n".join([b"GET /ws HTTP/1.1", b"Host: localhost", *UPGRADE, b"", b"x"])
HALF_A_BODY = b"POST /auth/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"
SILENCE = b""


@pytest.fixture
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlatformProcess]:
    data = tmp_path_factory.mktemp("flood") / "data"
    process = PlatformProcess(servers.free_port(), data, preamble=LOW_FILE_LIMIT)
    process.start()
    yield process
    process.stop()


def honest_seconds(port: int) -> float:
    """Return how long an honest client of another address waits for a response on a new connection."""
    began = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10, source_address=(HONEST_ADDRESS, 0))
    connection.request("GET", "/health")
    assert connection.getresponse().status == 200
    connection.close()
    return time.monotonic() - began


def test_four_thousand_hostile_connections_of_one_address_lock_nobody_else_out(
    process: PlatformProcess,
) -> None:
    kinds = (SILENCE, HALF_A_HEAD, LONG_HANDSHAKE, HANDSHAKE_AND_MORE, HALF_A_BODY)
    waits = [honest_seconds(process.port)]
    with contextlib.ExitStack() as open_sockets:
        for number in range(CONNECTIONS):
            hostile = open_sockets.enter_context(socket.create_connection(("127.0.0.1", process.port), 10))
            with contextlib.suppress(ConnectionError):
                hostile.sendall(kinds[number % len(kinds)])
            if number % 100 == 0:
                waits.append(honest_seconds(process.port))
        for _ in range(20):
            waits.append(honest_seconds(process.port))
            time.sleep(0.05)
    assert max(waits) < SERVED_SECONDS
    lines = process.log.read_text().splitlines()
    assert len(lines) < 100, "a refused connection costs no log line"
    assert all(json.loads(line) for line in lines if line.startswith("{"))
