"""What `call_peer` costs over the same POST with bare `requests`: the same peer, the same platform.

Both send a message through the platform to a push agent that answers at once, over one kept connection each.
They take turns message by message, so that a busy machine slows both.
"""

import statistics
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import requests

from benchmarks import figure, gateway
from molecule_agent import RemoteAgentClient

MESSAGES = 400
WARM_UP = 20


def measure() -> figure.Figure:
    """The ratio of the median times of a call."""
    with gateway.running() as ours, tempfile.TemporaryDirectory() as home:
        client, peer = _join(ours, Path(home)), ours.workspaces[0]
        with client:
            with_client, with_requests = _times(_by_client(client, peer), _by_requests(client, peer))
    mine, theirs = (statistics.median(times) for times in (with_client, with_requests))
    limits = f"median of {MESSAGES}, SQLite; {mine * 1e3:.2f} ms against {theirs * 1e3:.2f} ms"
    return figure.Figure("call_peer / bare requests", mine / theirs, "x", figure.Ceiling(1.3), limits)


def _join(ours: gateway.Gateway, home: Path) -> RemoteAgentClient:
    headers = {"Authorization": f"Bearer {ours.token}"}
    body = {"name": "caller", "runtime": "external", "parent_id": ours.lead}
    made = requests.post(f"{ours.platform.url}/workspaces", json=body, headers=headers, timeout=30).json()
    client = RemoteAgentClient(made["id"], ours.platform.url, token_dir=home)
    client.register()
    return client


def _by_client(client: RemoteAgentClient, peer: str) -> Callable[[], object]:
    return lambda: client.call_peer(peer, "hi")["result"]


def _by_requests(client: RemoteAgentClient, peer: str) -> Callable[[], object]:
    session = requests.Session()
    url = client.proxy_url(peer)
    headers = {"Authorization": f"Bearer {client.load_token()}", "X-Workspace-ID": client.workspace_id}

    def send() -> object:
        said = {"role": "user", "messageId": str(uuid.uuid4()), "parts": [{"kind": "text", "text": "hi"}]}
        body = {"jsonrpc": "2.0", "id": str(uuid.uuid4()), "method": "message/send"}
        answer = session.post(url, json={**body, "params": {"message": said}}, headers=headers, timeout=30.0)
        answer.raise_for_status()
        return answer.json()["result"]

    return send


def _times(first: Callable[[], object], second: Callable[[], object]) -> tuple[list[float], list[float]]:
    for _ in range(WARM_UP):
        first()
        second()
    pairs = [(_seconds(first), _seconds(second)) for _ in range(MESSAGES)]
    return [mine for mine, _ in pairs], [theirs for _, theirs in pairs]


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


if __name__ == "__main__":
    print(figure.table([measure()]))
