"""What serving a card costs the platform's processor, against a bare Starlette echo of a short message."""

import http.client
import json
import socket
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import figure, processes
from scripts import live_platform

ROUNDS = 9
REQUESTS = 6_000
MESSAGE = {
    "jsonrpc": "2.0",
    "id": "1",
    "method": "SendMessage",
    "params": {"message": {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "hello"}]}},
}


@dataclass(frozen=True)
class Target:
    """What to send where, and whose processor time counts."""

    port: int
    pid: int
    request: bytes


def measure() -> figure.Figure:
    """The median ratio of processor time per request, the two measured in turns."""
    with (
        tempfile.TemporaryDirectory() as folder,
        live_platform.running(Path(folder) / "data", "--no-demo", RATE_LIMIT="0") as platform,
        processes.running("benchmarks.bare_echo") as server,
    ):
        ours = Target(platform.port, platform.pid, _card_request(platform))
        bare = Target(server.port, server.pid, _on_the_wire("POST /echo", json.dumps(MESSAGE).encode()))
        for target in (ours, bare):
            _spent(target)
        pairs = [(_spent(ours), _spent(bare)) for _ in range(ROUNDS)]
    ratio = statistics.median(mine / theirs for mine, theirs in pairs)
    mine, theirs = (statistics.median(side) * 1e6 for side in zip(*pairs, strict=True))
    limits = (
        f"{ROUNDS} rounds x {REQUESTS} cards of a private workspace, one connection, SQLite, no rate limit; "
        f"{mine:.0f} us against {theirs:.0f} us of CPU"
    )
    return figure.Figure("card / bare Starlette echo", ratio, "x", figure.Ceiling(1.3), limits)


def _card_request(platform: live_platform.LivePlatform) -> bytes:
    """A request of a registered agent for its own card."""
    connection = http.client.HTTPConnection("127.0.0.1", platform.port)
    made = _post(connection, "/workspaces", {"name": "agent", "external": True}, platform.admin_token())
    token = made["connection"]["auth_token"]
    _post(connection, "/registry/register", {"id": made["id"], "agent_card": {"name": "a"}}, token)
    path = f"/agents/{made['id']}/.well-known/agent-card.json"
    return _on_the_wire(f"GET {path}", b"", f"Authorization: Bearer {token}")


def _post(connection: http.client.HTTPConnection, path: str, body: object, token: str) -> Any:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection.request("POST", path, json.dumps(body), headers)
    answer = connection.getresponse()
    said = answer.read()
    assert answer.status < 300, said
    return json.loads(said)


def _on_the_wire(what: str, body: bytes, *headers: str) -> bytes:
    lines = [f"{what} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def _spent(target: Target) -> float:
    """Seconds of the server's processor for one request."""
    with socket.create_connection(("127.0.0.1", target.port)) as connection:
        before = processes.cpu_seconds(target.pid)
        for _ in range(REQUESTS):
            connection.sendall(target.request)
            _read_ok(connection)
        return (processes.cpu_seconds(target.pid) - before) / REQUESTS


def _read_ok(connection: socket.socket) -> None:
    """One whole answer with status 200."""
    received = connection.recv(65536)
    while b"\r\n\r\n" not in received:
        received += connection.recv(65536)
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), received
    length = int(head.lower().split(b"content-length: ", 1)[1].split(b"\r\n", 1)[0])
    while len(body) < length:
        body += connection.recv(65536)


if __name__ == "__main__":
    print(figure.table([measure()]))
