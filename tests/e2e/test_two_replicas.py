"""Two processes on one PostgreSQL and one NATS are one platform, and either may be killed at any moment."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import requests
from websockets.sync.client import connect

from molecule_platform.testing import servers
from tests.e2e.platform_process import PlatformProcess

ADMIN_TOKEN = "the-same-administrator-everywhere"
PATIENCE_SECONDS = 30.0
# A second, and what a busy machine may add.
SOON_SECONDS = 10.0


class Pair(NamedTuple):
    """Two replicas, each with its own files."""

    one: PlatformProcess
    two: PlatformProcess


@pytest.fixture
def pair(tmp_path: Path, postgres_database: str, nats_url: str) -> Iterator[Pair]:
    shared = {
        "DATABASE_URL": postgres_database,
        "NATS_URL": nats_url,
        "ADMIN_TOKEN": ADMIN_TOKEN,
        "SECRETS_ENCRYPTION_KEY": "thirty-two characters, for both!",
        "REMOTE_LIVENESS_STALE_AFTER": "1",
    }
    replicas = Pair(
        *(PlatformProcess(servers.free_port(), tmp_path / name / "data", shared) for name in ("one", "two"))
    )
    for replica in replicas:
        replica.data_dir.parent.mkdir()
        replica.start()
    yield replicas
    for replica in replicas:
        replica.stop()


def call(replica: PlatformProcess, method: str, path: str, token: str = ADMIN_TOKEN, **request: Any) -> Any:
    answer = requests.request(
        method, replica.url + path, headers={"Authorization": f"Bearer {token}"}, timeout=30, **request
    )
    assert answer.status_code < 300, answer.text
    return answer.json()


def wait_until(holds: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> float:
    """How long it took."""
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < seconds, f"waited {seconds} s for it"
        threading.Event().wait(0.02)
    return time.monotonic() - began


def agent(replica: PlatformProcess, name: str) -> tuple[str, str]:
    made = call(replica, "POST", "/workspaces", json={"name": name, "external": True})
    token = made["connection"]["auth_token"]
    body = {"id": made["id"], "agent_card": {"name": name}}
    call(replica, "POST", "/registry/register", token, json=body)
    return made["id"], token


def is_refused(replica: PlatformProcess, path: str, token: str) -> bool:
    answer = requests.get(replica.url + path, headers={"Authorization": f"Bearer {token}"}, timeout=30)
    return answer.status_code == 401


def went_offline(replica: PlatformProcess, workspace_id: str) -> int:
    events = call(replica, "GET", f"/events/{workspace_id}?type=WORKSPACE_OFFLINE")
    return len(events)


@pytest.mark.e2e
@pytest.mark.long  # waits for loops and their leases; a short soak kills replicas too
@pytest.mark.timeout(180)
def test_two_processes_are_one_platform_and_either_may_be_killed(pair: Pair) -> None:
    one, two = pair

    # A token that one revokes is refused by the other soon.
    workspace_id, token = agent(one, "ada")
    state = f"/workspaces/{workspace_id}/state"
    assert not is_refused(two, state, token)
    [row] = call(one, "GET", f"/workspaces/{workspace_id}/tokens")["tokens"]
    call(one, "DELETE", f"/workspaces/{workspace_id}/tokens/{row['id']}")
    assert wait_until(lambda: is_refused(two, state, token)) < SOON_SECONDS

    # What happens at one is seen at the other.
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
    with connect(two.url.replace("http", "ws") + "/ws", additional_headers=headers) as socket:
        made = call(one, "POST", "/workspaces", json={"name": "seen", "external": True})
        while json.loads(socket.recv(timeout=30))["workspace_id"] != made["id"]:
            pass

    # An agent that fell silent is marked once, whoever looks.
    silent, _ = agent(two, "silent")
    wait_until(lambda: went_offline(one, silent) > 0)
    rounds = [ticks(replica) for replica in pair]
    wait_until(lambda: all(ticks(r) != before for r, before in zip(pair, rounds, strict=True)))
    assert went_offline(one, silent) == went_offline(two, silent) == 1

    # Killing either leaves the other serving, loops and all.
    for victim, survivor in ((one, two), (two, one)):
        victim.kill()
        assert call(survivor, "GET", "/ready")["status"] == "ready"
        left_alone, _ = agent(survivor, "left alone")
        wait_until(lambda s=survivor, w=left_alone: went_offline(s, w) == 1)
        victim.start()
        assert call(victim, "GET", f"/workspaces/{left_alone}")["status"] == "offline"


def ticks(replica: PlatformProcess) -> str:
    """When the replica last looked for silent agents, or found that it is the other's turn."""
    return call(replica, "GET", "/admin/liveness")["subsystems"]["liveness"]["last_tick_at"]
