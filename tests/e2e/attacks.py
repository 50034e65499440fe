"""What an attacker does to a platform, and somebody else who meanwhile asks whether it is well."""

import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.http_servers import Target
from tests.e2e.platform_process import PlatformProcess

PAUSE_SECONDS = 0.01
MEBIBYTE = 1024 * 1024
STRANGERS_ADDRESS = "127.0.0.2"


@dataclass(repr=False)
class HealthProbe:
    """Asks for /health on a connection of its own, again and again, and notes how long each answer took."""

    port: int
    seconds: list[float] = field(default_factory=list[float])

    def __post_init__(self) -> None:
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "HealthProbe":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        while not self._stopped.wait(PAUSE_SECONDS):
            began = time.perf_counter()
            connection.request("GET", "/health")
            assert connection.getresponse().read()
            self.seconds.append(time.perf_counter() - began)
        connection.close()

    def __repr__(self) -> str:
        figures = f"99 % within {self.within(0.99):.3f} s, all within {self.slowest:.3f} s"
        return f"{len(self.seconds)} answers, {figures}"

    @property
    def slowest(self) -> float:
        return max(self.seconds)

    def within(self, share: float) -> float:
        """The time within which that share of the answers came."""
        return sorted(self.seconds)[min(int(len(self.seconds) * share), len(self.seconds) - 1)]


def resident_bytes(pid: int, name: str = "VmRSS") -> int:
    """The memory of a process: now, or at its highest (`VmHWM`)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name + ":"))


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any
    headers: dict[str, str]


def post(server: PlatformProcess | Target, path: str, body: bytes, token: str, **headers: str) -> Answer:
    """Send a body as it is; a server that refuses it early may close before all of it is sent."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    given = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", **headers}
    try:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.request("POST", path, body, given)
        answer = connection.getresponse()
        text = answer.read()
        named = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, json.loads(text) if text else None, named)
    finally:
        connection.close()


@dataclass(frozen=True)
class Page:
    status: int
    size: int


def get(process: PlatformProcess, path: str, token: str) -> Page:
    """How large an answer is."""
    connection = http.client.HTTPConnection("127.0.0.1", process.port, timeout=120)
    connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
    answer = connection.getresponse()
    size = 0
    while piece := answer.read(MEBIBYTE):
        size += len(piece)
    connection.close()
    return Page(answer.status, size)


def last_event(process: PlatformProcess, target_id: str) -> Any:
    """Send a message as the administrator, and follow its stream to the end."""
    connection = http.client.HTTPConnection("127.0.0.1", process.port, timeout=120)
    message = {"role": "ROLE_USER", "messageId": "m", "parts": [{"text": "go"}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": message}}
    headers = {"Authorization": f"Bearer {process.admin_token()}", "A2A-Version": "1.0"}
    headers["Content-Type"] = "application/json"
    connection.request("POST", f"/agents/{target_id}/", json.dumps(body), headers)
    answer = connection.getresponse()
    last = b""
    while line := answer.readline():
        if line.startswith(b"data:"):
            last = line
    connection.close()
    return json.loads(last[5:])["result"]


def at_once(count: int, work: Callable[[int], Answer]) -> list[Answer]:
    """Do it so often at the same time."""
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, range(count)))


def send_body(parts: bytes, message_id: str) -> bytes:
    """A message/send with these parts."""
    return (
        b'{"jsonrpc":"2.0","id":"1","method":"message/send","params":{"message":{"role":"user","messageId":"%b",'
        b'"parts":[%b]}}}' % (message_id.encode(), parts)
    )


def tiny_parts(size: int) -> bytes:
    return b",".join([b'{"text":""}'] * (size // 12))


def tiny_values(size: int) -> bytes:
    return b'{"kind":"data","data":{"values":[' + b",".join([b"0"] * (size // 2)) + b"]}}"


def long_text(size: int) -> bytes:
    return b'{"kind":"text","text":"' + b"word, " * (size // 6) + b'"}'


def raw_connection(process: PlatformProcess, text: bytes) -> socket.socket:
    """A connection from another address of this machine that has said this much."""
    connection = socket.create_connection(("127.0.0.1", process.port), 60, (STRANGERS_ADDRESS, 0))
    connection.sendall(text)
    return connection
