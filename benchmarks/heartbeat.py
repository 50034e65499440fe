"""What one heartbeat costs the platform's processor, against a bare Starlette echo of the same body."""

import http.client
import json
import socket
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import figure, processes
from scripts import live_platform

AGENTS = 4
ROUNDS = 9
REQUESTS = 8_000


@dataclass(frozen=True)
class Target:
    """Where to post, as whom, and whose processor time counts."""

    port: int
    path: str
    pid: int
    requests: Sequence[tuple[bytes, dict[str, str]]]


def measure() -> figure.Figure:
    """The median ratio of processor time per request, the two measured in turns."""
    with (
        tempfile.TemporaryDirectory() as folder,
        live_platform.running(Path(folder) / "data", "--no-demo", RATE_LIMIT="0") as platform,
    ):
        ours = Target(platform.port, "/registry/heartbeat", platform.pid, _agents(platform))
        with processes.running("benchmarks.bare_echo") as server:
            bare = Target(server.port, "/echo", server.pid, ours.requests)
            for target in (ours, bare):
                _spent(target)
            pairs = [(_spent(ours), _spent(bare)) for _ in range(ROUNDS)]
    ratio = statistics.median(mine / theirs for mine, theirs in pairs)
    mine, theirs = (statistics.median(side) * 1e6 for side in zip(*pairs, strict=True))
    limits = (
        f"{ROUNDS} rounds x {REQUESTS} beats of {AGENTS} agents, one connection, SQLite, no rate limit; "
        f"{mine:.0f} us against {theirs:.0f} us of CPU"
    )
    return figure.Figure("heartbeat / bare Starlette echo", ratio, "x", figure.Ceiling(1.0), limits)


def _agents(platform: live_platform.LivePlatform) -> list[tuple[bytes, dict[str, str]]]:
    """The heartbeats of registered agents, each with its own token."""
    beats: list[tuple[bytes, dict[str, str]]] = []
    connection = http.client.HTTPConnection("127.0.0.1", platform.port)
    for number in range(AGENTS):
        made = _post(
            connection,
            "/workspaces",
            {"name": f"agent-{number}", "external": True},
            platform.admin_token(),
        )
        token = made["connection"]["auth_token"]
        _post(connection, "/registry/register", {"id": made["id"], "agent_card": {"name": "a"}}, token)
        beats.append((_beat(made["id"]), _headers(token)))
    return beats


def _beat(workspace_id: str) -> bytes:
    return json.dumps(
        {
            "workspace_id": workspace_id,
            "current_task": "",
            "active_tasks": 0,
            "error_rate": 0.0,
            "sample_error": "",
            "uptime_seconds": 12,
        }
    ).encode()


def _headers(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}


def _post(connection: http.client.HTTPConnection, path: str, body: object, token: str) -> Any:
    connection.request("POST", path, json.dumps(body), _headers(token))
    answer = connection.getresponse()
    said = answer.read()
    assert answer.status < 300, said
    return json.loads(said)


def _spent(target: Target) -> float:
    """Seconds of the server's processor for one request. The client is as light as it can be made."""
    wire = [_on_the_wire(target, body, headers) for body, headers in target.requests]
    with socket.create_connection(("127.0.0.1", target.port)) as connection:
        before = processes.cpu_seconds(target.pid)
        for number in range(REQUESTS):
            connection.sendall(wire[number % len(wire)])
            _read_ok(connection)
        return (processes.cpu_seconds(target.pid) - before) / REQUESTS


def _on_the_wire(target: Target, body: bytes, headers: dict[str, str]) -> bytes:
    lines = [f"POST {target.path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


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
