"""What serving a card costs the platform's processor, against a bare Starlette echo of a short message."""

import http.client
import json
import tempfile
from pathlib import Path

from benchmarks import figure, processes, turns
from scripts import live_platform

REQUESTS = 6_000
MESSAGE = {
    "jsonrpc": "2.0",
    "id": "1",
    "method": "SendMessage",
    "params": {"message": {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "hello"}]}},
}


def measure() -> figure.Figure:
    """The median ratio of processor time per request, the two measured in turns."""
    with (
        tempfile.TemporaryDirectory() as folder,
        live_platform.running(Path(folder) / "data", "--no-demo", RATE_LIMIT="0") as platform,
        processes.running("benchmarks.bare_echo") as server,
    ):
        ours = turns.Target(platform.port, platform.pid, [_card_request(platform)])
        echoed = turns.request("POST /echo", json.dumps(MESSAGE).encode())
        bare = turns.Target(server.port, server.pid, [echoed])
        what = "cards of a private workspace"
        return turns.compare("card / bare Starlette echo", ours, bare, REQUESTS, 1.8, what)


def _card_request(platform: live_platform.LivePlatform) -> bytes:
    """A request of a registered agent for its own card."""
    connection = http.client.HTTPConnection("127.0.0.1", platform.port)
    workspace_id, token = turns.joined(connection, "agent", platform.admin_token())
    return turns.request(f"GET /agents/{workspace_id}/.well-known/agent-card.json", token=token)


if __name__ == "__main__":
    print(figure.table([measure()]))
