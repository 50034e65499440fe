"""What the figures of the gateway share: the platform with its echo agents, the baselines, and the turns."""

import http.client
import json
import statistics
import tempfile
import uuid
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import figure, load, processes, turns
from scripts import live_platform

CONNECTIONS = 64
CAPACITY = 64
ROUNDS = 15
# The head of a request as the client of the a2a-sdk writes it.
CLIENT_HEAD = {
    "Accept": "*/*",
    "Accept_Encoding": "gzip, deflate",
    "Connection": "keep-alive",
    "User_Agent": "python-httpx/0.28.1",
    "A2A_Version": "1.0",
}
# The echo agents send no heartbeats, however long a figure takes.
SETTINGS = {
    "RATE_LIMIT": "0",
    "RATE_LIMIT_ANON": "0",
    "MOLECULE_MAX_CONNECTIONS": "0",
    "MOLECULE_MAX_OPEN_REQUESTS": "0",
    "MOLECULE_MAX_AGENT_STREAMS": "0",
    "REMOTE_LIVENESS_STALE_AFTER": "3600",
}


@dataclass(frozen=True)
class Side:
    """One server under load: how it is asked, how often in a turn, and into how much the cost is divided."""

    server: processes.Server
    request: Callable[[int], bytes]
    requests: int
    events_each: int = 1
    connections: int = CONNECTIONS

    def turn(self) -> "Cost":
        """Load it once."""
        before = processes.cpu_seconds(self.server.pid)
        done = load.run(self.server.port, self.request, self.requests, self.connections)
        spent = processes.cpu_seconds(self.server.pid) - before
        pieces = self.requests * self.events_each
        if self.events_each > 1:
            assert done.frames == pieces, f"{done.frames} events came, not {pieces}"
        return Cost(spent / pieces, pieces / done.seconds)


@dataclass(frozen=True)
class Cost:
    """Processor seconds of the server for one piece, and how many pieces came in a second."""

    cpu: float
    rate: float


@dataclass(frozen=True)
class Ratio:
    """Ours against a baseline, each median over all turns."""

    ours: Cost
    baseline: Cost

    @property
    def value(self) -> float:
        return self.ours.cpu / self.baseline.cpu

    def figure(
        self, name: str, bound: float, piece: str, connections: int = CONNECTIONS, whose: str = ""
    ) -> figure.Figure:
        """The ratio with the absolute costs beside it."""
        limits = (
            f"{ROUNDS} turns, {whose}{connections} connections, SQLite, no rate limit; CPU "
            f"{self.ours.cpu * 1e6:.0f} us against {self.baseline.cpu * 1e6:.0f} us, "
            f"{self.ours.rate:.0f} against {self.baseline.rate:.0f} {piece}/s"
        )
        return figure.Figure(name, self.value, "x", figure.Ceiling(bound), limits)


def take_turns(sides: Sequence[Side]) -> list[Cost]:
    """The median cost of each side; they take turns, so that a busy machine slows all of them."""
    for side in sides:
        side.turn()
    rounds = [[side.turn() for side in sides] for _ in range(ROUNDS)]
    return [_median(costs) for costs in zip(*rounds, strict=True)]


def _median(costs: Sequence[Cost]) -> Cost:
    return Cost(statistics.median(cost.cpu for cost in costs), statistics.median(cost.rate for cost in costs))


def message(text: str, method: str) -> Callable[[int], bytes]:
    """The bodies of A2A 1.0 requests with that text as the client of the a2a-sdk writes them, each with a
    messageId of its own and equally long.
    """
    marker = "#" * 16
    said = {"messageId": marker, "role": "ROLE_USER", "parts": [{"text": text}]}
    params = {"message": said, "configuration": {}}
    request = {"method": method, "params": params, "id": str(uuid.uuid4()), "jsonrpc": "2.0"}
    before, after = json.dumps(request, separators=(",", ":")).encode().split(marker.encode())
    turns = iter(range(1 << 62))  # every round must say something new: a repeat is not carried again

    def body(_number: int) -> bytes:
        return before + b"%016x" % next(turns) + after

    return body


def bare_echo(
    server: processes.Server,
    body: Callable[[int], bytes],
    requests: int,
    connections: int = CONNECTIONS,
) -> Side:
    """The same request, its body said back by Starlette."""
    return Side(server, lambda number: post("/echo", body(number)), requests, connections=connections)


def sdk(server: processes.Server, body: Callable[[int], bytes], requests: int, events_each: int = 1) -> Side:
    """The reference server, asked directly."""
    return Side(server, lambda number: post("/rpc", body(number)), requests, events_each)


def post(path: str, body: bytes, token: str = "x" * 43) -> bytes:
    """The one request of all sides as it goes over the wire; the baselines do not look at the token."""
    return load.post(path, body, **CLIENT_HEAD, Authorization=f"Bearer {token}")


@dataclass(frozen=True)
class Gateway:
    """The platform with workspaces whose agent is the echo agent."""

    platform: live_platform.LivePlatform
    token: str
    # The workspace above all others.
    lead: str
    workspaces: Sequence[str]
    # The tokens of agents that send, if any do.
    senders: Sequence[str] = ()

    def between_agents(self, body: Callable[[int], bytes], requests: int, connections: int) -> Side:
        """The platform, asked by each sender in turn for each agent in turn."""
        server = processes.Server(self.platform.port, self.platform.pid)

        def request(number: int) -> bytes:
            door = door_of(self.workspaces[number % len(self.workspaces)])
            return post(door, body(number), self.senders[number % len(self.senders)])

        return Side(server, request, requests, connections=connections)

    def side(self, body: Callable[[int], bytes], requests: int, events_each: int = 1) -> Side:
        """The platform, asked for its first agent."""
        server = processes.Server(self.platform.port, self.platform.pid)
        return Side(server, lambda number: self.request(0, body(number)), requests, events_each)

    def request(self, workspace: int, body: bytes) -> bytes:
        """A request for an agent as it goes over the wire."""
        return post(door_of(self.workspaces[workspace]), body, self.token)


def door_of(workspace_id: str) -> str:
    """Where an agent is reached by the standard."""
    return f"/agents/{workspace_id}/"


@contextmanager
def running(
    workspaces: int = 1, capacity: int = CAPACITY, senders: int = 0, **settings: str
) -> Generator[Gateway]:
    """The platform and its echo agent, each in a process of its own, and agents that only send.

    All of them stand below one workspace, as in an organisation.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        processes.running("benchmarks.echo_agent") as agent,
        live_platform.running(Path(folder) / "data", "--no-demo", **SETTINGS, **settings) as platform,
    ):
        url = f"http://127.0.0.1:{agent.port}/"
        admin_token = platform.admin_token()
        connection = http.client.HTTPConnection("127.0.0.1", platform.port, timeout=30)
        lead, _ = turns.joined(connection, "lead", admin_token)
        joined = [
            _join(connection, admin_token, f"echo-{number}", lead, url, capacity)
            for number in range(workspaces)
        ]
        sending = [
            turns.joined(connection, f"sender-{number}", admin_token, lead) for number in range(senders)
        ]
        connection.close()
        yield Gateway(platform, admin_token, lead, joined, [token for _id, token in sending])


def _join(
    connection: http.client.HTTPConnection,
    admin_token: str,
    name: str,
    parent_id: str,
    url: str,
    capacity: int,
) -> str:
    body = {"name": name, "runtime": "external", "max_concurrent_tasks": capacity, "parent_id": parent_id}
    made = turns.post(connection, "/workspaces", body, admin_token)
    card = {
        "name": name,
        "description": "Says hello",
        "version": "1.0.0",
        "supportedInterfaces": [{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        "capabilities": {"streaming": True},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "echo", "name": "Echo", "description": "Says hello", "tags": ["demo"]}],
    }
    register = {"id": made["id"], "url": url, "agent_card": card}
    turns.post(connection, "/registry/register", register, made["connection"]["auth_token"])
    return made["id"]
