"""A running workspace: what changes around it reaches it, and what happens to it reaches the platform."""

import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import requests

from scripts.live_platform import LivePlatform
from tests.e2e.workspaces import CONFIG, Member, member, until

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def changing(live: LivePlatform, tmp_path_factory: pytest.TempPathFactory) -> Generator[Member]:
    with member(live, tmp_path_factory.mktemp("changing") / "first") as running:
        yield running


def test_a_reload_shows_the_new_name_and_asks_for_a_restart_where_one_is_needed(changing: Member) -> None:
    (changing.folder / "config.yaml").write_text(CONFIG.replace("name: Echo", "name: Renamed") + "tier: 3\n")
    headers = {"Authorization": f"Bearer {changing.token}"}
    assert requests.post(f"{changing.url}control/reload", timeout=10).status_code == 401
    assert requests.post(f"{changing.url}control/reload", headers=headers, timeout=10).status_code == 202
    row = f"/workspaces/{changing.id}"
    until(lambda: changing.call("GET", row)["agent_card"]["name"] == "Renamed")
    assert requests.get(f"{changing.url}.well-known/agent-card.json", timeout=10).json()["name"] == "Renamed"
    assert "restart required" in changing.log.read_text()


def test_the_body_of_the_original_push_server_is_answered_once(echo: Member) -> None:
    body = {"task_id": "t-1", "sender": "someone", "message": "hello", "idempotency_key": "k-1"}
    answers = [requests.post(f"{echo.url}a2a/inbound", json=body, timeout=10) for _ in range(2)]
    assert [answer.json() for answer in answers] == [{"status": "ok", "result": "echo: hello"}] * 2
    refused = requests.post(f"{echo.url}a2a/inbound", json={"message": 1}, timeout=10)
    assert (refused.status_code, refused.json()["error"][:12]) == (400, "bad request:")


def test_what_an_engine_can_do_is_told(echo: Member) -> None:
    told = requests.get(f"{echo.url}capabilities", timeout=10).json()
    assert {"delegate_to_workspace", "check_delegation_status", "list_peers"} <= set(told["tools"])
    assert set(told["capabilities"].values()) == {False}


def test_the_result_of_a_delegation_begins_the_next_turn(
    live: LivePlatform, changing: Member, tmp_path: Path
) -> None:
    with member(live, tmp_path / "second") as other:
        asked = f'{{"workspace_id": "{other.id}", "task": "count to three"}}'
        delegated = str(changing.send(f"/tool delegate_to_workspace {asked}"))
        assert "delegated" in delegated
        until(
            lambda: "[Delegation results received while you were idle]" in _transcript(changing),
            changing.log.read_text,
        )
        assert "echo: count to three" in _transcript(changing)


def _transcript(member: Member) -> str:
    return "".join(path.read_text() for path in (member.folder / ".transcripts").glob("*.jsonl"))


BLOCKING = """
import time

from molecule_runtime.runtimes.echo import EchoAdapter
from molecule_runtime.runtimes.echo.executor import EchoExecutor


class Executor(EchoExecutor):
    async def run_turn(self, turn):
        if turn.text == "block":
            time.sleep(45)
        return await super().run_turn(turn)


class Adapter(EchoAdapter):
    async def create_executor(self, config):
        return Executor(config, adapter=self)
"""


@pytest.mark.long
def test_an_engine_that_blocks_the_event_loop_is_wedged_and_not_dead(
    live: LivePlatform, tmp_path: Path
) -> None:
    (tmp_path / "blocking.py").write_text(BLOCKING)
    variables = {"ADAPTER_MODULE": "blocking", "PYTHONPATH": str(tmp_path)}
    with member(live, tmp_path / "stuck", **variables) as stuck:
        threading.Thread(target=stuck.send, args=("block",), daemon=True).start()

        def row() -> Any:
            return stuck.call("GET", f"/workspaces/{stuck.id}")

        until(lambda: row()["status"] == "degraded", lambda: str(row()), seconds=42)
        assert "the event loop was blocked for 30 s" in str(row())
        assert stuck.process is not None
        assert stuck.process.poll() is None
        until(lambda: "echo: block" in _transcript(stuck), stuck.log.read_text)
        until(lambda: row()["status"] == "online", lambda: str(row()))
