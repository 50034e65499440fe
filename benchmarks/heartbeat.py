"""What a heartbeat costs the platform's processor, against a bare Starlette echo of the same body.

Agents beat every 30 s: whatever a beat left in a cache is gone before the next one of its agent. Here each of
many agents beats once in a round, and a round begins only when all that the one before left is out of date.
What the platform does meanwhile, to write down who was heard, is counted; what it does anyway is not.
"""

import http.client
import json
import socket
import tempfile
import time
from pathlib import Path

from benchmarks import figure, processes, turns
from scripts import live_platform

AGENTS = 400
ROUNDS = 8
# Longer than a token or a heartbeat is remembered.
ROUND_SECONDS = 2.0
BOUND = 4.0


def measure() -> figure.Figure:
    """Processor time for each beat, that of an idle platform taken off, against that of an echo."""
    with (
        tempfile.TemporaryDirectory() as folder,
        live_platform.running(Path(folder) / "data", "--no-demo", RATE_LIMIT="0") as platform,
        processes.running("benchmarks.bare_echo") as server,
    ):
        agents = _agents(platform)
        ours = turns.Target(platform.port, platform.pid, _beats(agents, "/registry/heartbeat"))
        bare = turns.Target(server.port, server.pid, _beats(agents, "/echo"))
        for target in (ours, bare):
            _rounds(target, 1)
        idle = _rounds(turns.Target(ours.port, ours.pid, ()), ROUNDS)
        mine, theirs = ((_rounds(ours, ROUNDS) - idle) / AGENTS, _rounds(bare, ROUNDS) / AGENTS)
        limits = (
            f"{ROUNDS} rounds of {AGENTS} agents, one connection, SQLite, no rate limit; "
            f"{mine * 1e6:.0f} us against {theirs * 1e6:.0f} us of CPU, idle {idle * 1e3:.1f} ms a round"
        )
        return figure.Figure(
            "heartbeat of agents that beat seldom / bare Starlette echo",
            mine / theirs,
            "x",
            figure.Ceiling(BOUND),
            limits,
        )


def _rounds(target: turns.Target, many: int) -> float:
    """Seconds of the server's processor in one round, in which each request is made once."""
    before = processes.cpu_seconds(target.pid)
    with socket.create_connection(("127.0.0.1", target.port)) as connection:
        for _ in range(many):
            ends = time.monotonic() + ROUND_SECONDS
            for request in target.requests:
                turns.ask(connection, request)
            time.sleep(max(ends - time.monotonic(), 0))
    return (processes.cpu_seconds(target.pid) - before) / many


def _agents(platform: live_platform.LivePlatform) -> list[tuple[str, str]]:
    """Registered agents, each with its own token."""
    connection = http.client.HTTPConnection("127.0.0.1", platform.port)
    return [turns.joined(connection, f"agent-{n}", platform.admin_token()) for n in range(AGENTS)]


def _beats(agents: list[tuple[str, str]], path: str) -> list[bytes]:
    return [turns.request(f"POST {path}", _beat(agent_id), token) for agent_id, token in agents]


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


if __name__ == "__main__":
    print(figure.table([measure()]))
