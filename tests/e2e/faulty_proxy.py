"""A proxy that makes trouble: it refuses, hangs up, loses answers and dawdles, as a script tells it."""

import http.client
import http.server
import os
import random
import re
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any, cast

UPSTREAM_SECONDS = 30.0
_SETTLED = re.compile(r"/inbox/([^/]+)/(?:answer|ack)$")
_HOP_BY_HOP = frozenset({"connection", "transfer-encoding", "keep-alive"})


@dataclass(frozen=True)
class Fault:
    """One way to go wrong, and how likely it is to happen to a request."""

    chance: float
    status: int = 0
    retry_after: str = ""
    reset_before: bool = False
    reset_after: bool = False
    delay: float = 0.0


def refusals(*statuses: int, chance: float = 1.0, retry_after: str = "") -> list[Fault]:
    """Answer with these statuses instead of asking the platform."""
    return [Fault(chance / len(statuses), status=status, retry_after=retry_after) for status in statuses]


def storm_until(seconds: float) -> list[Fault]:
    """429 for every request, with a date to come back at."""
    return refusals(429, retry_after=formatdate(time.time() + seconds, usegmt=True))


@dataclass
class Tally:
    """What passed: how many requests, how many went wrong, and which messages are settled for good."""

    requests: int = 0
    faults: Counter[str] = field(default_factory=Counter[str])
    settled: dict[str, float] = field(default_factory=dict[str, float])


class FaultyProxy:
    """Stands between an agent and a platform that may be away; in a calm it only passes on."""

    def __init__(self, upstream_port: int, seed: int) -> None:
        self.upstream_port = upstream_port
        self.tally = Tally()
        self._mix: Sequence[Fault] = ()
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._server = _Server(self)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    def __enter__(self) -> "FaultyProxy":
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def trouble(self, mix: Sequence[Fault]) -> None:
        """From now on each request may meet one of these; an empty mix is calm."""
        self._mix = mix

    def draw(self) -> Fault | None:
        """What happens to the next request."""
        with self._lock:
            self.tally.requests += 1
            drawn = self._random.random()
            for fault in self._mix:
                drawn -= fault.chance
                if drawn < 0:
                    self.tally.faults[_name(fault)] += 1
                    return fault
        return None

    def settled(self, path: str) -> None:
        """Note that the platform has taken the outcome of a message."""
        if found := _SETTLED.search(path):
            self.tally.settled.setdefault(found[1], time.monotonic())


def _name(fault: Fault) -> str:
    if fault.status:
        return str(fault.status)
    return "slow" if fault.delay else "reset"


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, proxy: FaultyProxy) -> None:
        self.proxy = proxy
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        return  # the agent hung up; so it goes


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 60

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        proxy = cast(_Server, self.server).proxy
        fault = proxy.draw() or Fault(0)
        if fault.status:
            self._refuse(fault)
            return
        time.sleep(fault.delay)
        answer = None if fault.reset_before else self._ask(proxy, body)
        if answer is None or fault.reset_after:
            self._reset()
        else:
            self._write(*answer)

    do_GET = do_DELETE = do_POST

    def log_message(self, format: str, *args: Any) -> None:
        return

    def _ask(self, proxy: FaultyProxy, body: bytes) -> tuple[int, dict[str, str], bytes] | None:
        """What the platform says; `None` when it is away."""
        upstream = http.client.HTTPConnection("127.0.0.1", proxy.upstream_port, timeout=UPSTREAM_SECONDS)
        try:
            upstream.request(self.command, self.path, body, dict(self.headers.items()))
            answer = upstream.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException):
            return None
        finally:
            upstream.close()
        if answer.status == 200:
            proxy.settled(self.path)
        return answer.status, dict(answer.headers.items()), content

    def _refuse(self, fault: Fault) -> None:
        headers = {"Date": formatdate(usegmt=True)}
        if fault.retry_after:
            headers["Retry-After"] = fault.retry_after
        self._write(fault.status, headers, b"<html>not JSON, as proxies answer</html>")

    def _reset(self) -> None:
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(self.connection.detach())

    def _write(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in _HOP_BY_HOP | {"content-length"}:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
