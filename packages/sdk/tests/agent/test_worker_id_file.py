"""Which worker an agent's process replaces: a dead one of its directory, never one that lives."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from molecule_agent import InboxDelivery, RemoteAgentClient
from molecule_agent.testing import FakePlatform
from molecule_wire import JSONObject
from molecule_wire.calls import values

AGENT = """
import sys
from molecule_agent import InboxDelivery, RemoteAgentClient
client = RemoteAgentClient.from_connection(sys.argv[1], token_dir=sys.argv[2])
client.register()
delivery = InboxDelivery(client, wait=0)
def handle(message):
    print("has it", flush=True)
    sys.stdin.read()
delivery.run_once(handle)
"""


@pytest.fixture
def platform() -> FakePlatform:
    return FakePlatform()


def bodies(platform: FakePlatform, place: str) -> list[JSONObject]:
    return [values.object_of(body) for _, path, _, body in platform.requests if path.endswith(place)]


def registrations(platform: FakePlatform) -> list[str]:
    return [str(body.get("replaces_worker", "")) for body in bodies(platform, "/registry/register")]


def test_who_starts_after_a_kill_gets_the_message_of_the_dead_at_once(
    platform: FakePlatform, tmp_path: Path
) -> None:
    workspace_id = platform.create_workspace("agent")
    with platform.serve() as url:
        connection = platform.connection(workspace_id)
        assert connection["platform_url"] == url
        message_id = platform.send_user_message(workspace_id, "hello")
        command = [sys.executable, "-c", AGENT, json.dumps(connection), str(tmp_path / "tokens")]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as agent:
            assert agent.stdout is not None
            assert agent.stdout.readline() == "has it\n"
            with RemoteAgentClient.from_connection(connection, token_dir=tmp_path / "tokens") as beside:
                beside.register()  # the first one lives: its message is left to it
                assert InboxDelivery(beside, wait=0).run_once(lambda message: "mine") == 0
            os.kill(agent.pid, signal.SIGKILL)
        dead = (tmp_path / "tokens" / ".worker").read_text()
        with RemoteAgentClient.from_connection(connection, token_dir=tmp_path / "tokens") as after:
            after.register()
            assert InboxDelivery(after, wait=0).run_once(lambda message: "answered") == 1
            after.register()
        assert registrations(platform) == ["", "", dead, ""]
        assert (tmp_path / "tokens" / ".worker").stat().st_mode & 0o777 == 0o600
        outcome = platform.outcome(message_id)
        assert "answered" in str(outcome)


def test_an_agent_that_never_leased_replaces_nobody(platform: FakePlatform, tmp_path: Path) -> None:
    workspace_id = platform.create_workspace("agent")
    for _ in range(2):
        connection = platform.connection(workspace_id)
        folder = tmp_path / "tokens"
        with RemoteAgentClient.from_connection(
            connection, token_dir=folder, session=platform.session()
        ) as client:
            client.register()
    assert registrations(platform) == ["", ""]
    assert not (tmp_path / "tokens" / ".worker").exists()


def test_two_deliveries_of_one_client_are_two_workers(platform: FakePlatform, tmp_path: Path) -> None:
    workspace_id = platform.create_workspace("agent")
    connection = platform.connection(workspace_id)
    with RemoteAgentClient.from_connection(
        connection, token_dir=tmp_path, session=platform.session()
    ) as client:
        for _ in range(2):
            InboxDelivery(client, wait=0).run_once(lambda message: None)
    names = {str(body["worker"]) for body in bodies(platform, "/inbox/lease")}
    assert len(names) == 2
    assert (tmp_path / ".worker").read_text() in names


@pytest.mark.parametrize("content", ["", "rubbish", "x" * 100])
def test_a_file_that_names_nobody_is_no_predecessor(
    content: str, platform: FakePlatform, tmp_path: Path
) -> None:
    connection = platform.connection(platform.create_workspace("agent"))
    (tmp_path / ".worker").write_text(content)
    with RemoteAgentClient.from_connection(
        connection, token_dir=tmp_path, session=platform.session()
    ) as client:
        client.register()
    assert registrations(platform) == [""]


def test_a_directory_that_cannot_be_written_costs_only_the_name(
    platform: FakePlatform, tmp_path: Path
) -> None:
    connection = platform.connection(platform.create_workspace("agent"))
    (tmp_path / ".worker").mkdir()
    with RemoteAgentClient.from_connection(
        connection, token_dir=tmp_path, session=platform.session()
    ) as client:
        client.register()
        assert InboxDelivery(client, wait=0).run_once(lambda message: None) == 0
