"""Two servers asked in turns over one connection each: what a request costs ours, against a baseline."""

import http.client
import json
import socket
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks import figure, processes

ROUNDS = 9


@dataclass(frozen=True)
class Target:
    """Requests as they go over the wire, where to send them, and whose processor time counts."""

    port: int
    pid: int
    requests: Sequence[bytes]


def compare(name: str, ours: Target, bare: Target, many: int, bound: float, what: str) -> figure.Figure:
    """The median ratio of processor time per request; `many` requests make a turn."""
    for target in (ours, bare):
        _spent(target, many)
    pairs = [(_spent(ours, many), _spent(bare, many)) for _ in range(ROUNDS)]
    ratio = statistics.median(mine / theirs for mine, theirs in pairs)
    mine, theirs = (statistics.median(side) * 1e6 for side in zip(*pairs, strict=True))
    limits = (
        f"{ROUNDS} rounds x {many} {what}, one connection, SQLite, no rate limit; "
        f"{mine:.0f} us against {theirs:.0f} us of CPU"
    )
    return figure.Figure(name, ratio, "x", figure.Ceiling(bound), limits)


def request(what: str, body: bytes = b"", token: str | None = None) -> bytes:
    """A request on the wire; `what` is its method and path."""
    lines = [f"{what} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}"]
    lines += [] if token is None else [f"Authorization: Bearer {token}"]
    return "\r\n".join([*lines, "Content-Type: application/json", "", ""]).encode() + body


def joined(
    connection: http.client.HTTPConnection, name: str, admin_token: str, parent_id: str | None = None
) -> tuple[str, str]:
    """A workspace whose agent has registered: its id and its token."""
    body = {"name": name, "external": True, "parent_id": parent_id}
    made = post(connection, "/workspaces", body, admin_token)
    token = made["connection"]["auth_token"]
    post(connection, "/registry/register", {"id": made["id"], "agent_card": {"name": "a"}}, token)
    return made["id"], token


def post(connection: http.client.HTTPConnection, path: str, body: object, token: str) -> Any:
    """What the platform answers to a request that must succeed."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection.request("POST", path, json.dumps(body), headers)
    answer = connection.getresponse()
    said = answer.read()
    assert answer.status < 300, said
    return json.loads(said)


def _spent(target: Target, many: int) -> float:
    """Seconds of the server's processor for one request. The client is as light as it can be made."""
    wire = target.requests
    with socket.create_connection(("127.0.0.1", target.port)) as connection:
        before = processes.cpu_seconds(target.pid)
        for number in range(many):
            ask(connection, wire[number % len(wire)])
        return (processes.cpu_seconds(target.pid) - before) / many


def ask(connection: socket.socket, wire: bytes) -> None:
    """Send a request and read its answer, which must be a 200."""
    connection.sendall(wire)
    _read_ok(connection)


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
