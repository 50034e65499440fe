"""What one heartbeat costs the platform's processor, against a bare Starlette echo of the same body."""

import http.client
import json
import tempfile
from pathlib import Path

from benchmarks import figure, processes, turns
from scripts import live_platform

AGENTS = 4
REQUESTS = 8_000


def measure() -> figure.Figure:
    """The median ratio of processor time per request, the two measured in turns."""
    with (
        tempfile.TemporaryDirectory() as folder,
        live_platform.running(Path(folder) / "data", "--no-demo", RATE_LIMIT="0") as platform,
        processes.running("benchmarks.bare_echo") as server,
    ):
        agents = _agents(platform)
        ours = turns.Target(platform.port, platform.pid, _beats(agents, "/registry/heartbeat"))
        bare = turns.Target(server.port, server.pid, _beats(agents, "/echo"))
        what = f"beats of {AGENTS} agents"
        return turns.compare("heartbeat / bare Starlette echo", ours, bare, REQUESTS, 1.0, what)


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
