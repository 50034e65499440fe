"""A client from the connection that a new workspace has, and running it."""

import json
import logging
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from molecule_agent import ConfigurationError, InboxDelivery, RemoteAgentClient

if TYPE_CHECKING:
    from .conftest import Answer, ScriptedPlatform  # noqa: TID252 - types only

WORKSPACE = "3f1c2d4e-5a6b-4c7d-8e9f-0a1b2c3d4e5f"
ME = f"/workspaces/{WORKSPACE}"
WHOLE = {
    "workspace_id": WORKSPACE,
    "name": "hello",
    "platform_url": "http://127.0.0.1:8080/",
    "auth_token": "the-token",
    "registry_endpoint": "…",
}


def opened(source: Any, folder: Path, **options: Any) -> RemoteAgentClient:
    return RemoteAgentClient.from_connection(source, token_dir=folder / "tokens", **options)


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("form", ["mapping", "text", "path", "name"])
def test_every_form_of_a_connection_is_read(form: str, wrapped: bool, tmp_path: Path) -> None:
    whole: Any = {"id": WORKSPACE, "connection": WHOLE} if wrapped else WHOLE
    file = tmp_path / "hello.json"
    file.write_text(json.dumps(whole))
    file.chmod(0o600)
    source: Any = {"mapping": whole, "text": json.dumps(whole), "path": file, "name": str(file)}[form]
    client = opened(source, tmp_path)
    assert (client.workspace_id, client.platform_url) == (WORKSPACE, "http://127.0.0.1:8080")
    assert client.agent_card == {"name": "hello"}
    assert client.load_token() == client.token_file.read_text() == "the-token"


def test_without_a_source_the_environment_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOLECULE_CONNECTION", json.dumps(WHOLE | {"org_id": "acme"}))
    assert opened(None, tmp_path).org_id == "acme"
    monkeypatch.delenv("MOLECULE_CONNECTION")
    with pytest.raises(ConfigurationError, match="set MOLECULE_CONNECTION"):
        opened(None, tmp_path)


def test_a_token_that_is_kept_and_options_that_are_given_win(tmp_path: Path) -> None:
    opened(WHOLE, tmp_path).save_token("a-newer-token")
    client = opened(WHOLE, tmp_path, agent_card={"name": "mine"}, org_id="acme")
    assert (client.load_token(), client.agent_card, client.org_id) == (
        "a-newer-token",
        {"name": "mine"},
        "acme",
    )


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ({"workspace_id": WORKSPACE}, "the connection given lacks platform_url"),
        ({"connection": {}}, "the connection given lacks workspace_id and platform_url"),
        ({"connection": 4}, "lacks workspace_id and platform_url"),
        ("{no json", "the connection given is no JSON"),
        ("nowhere.json", "the connection nowhere.json cannot be read"),
        (Path("nowhere.json"), "the connection nowhere.json cannot be read"),
    ],
)
def test_what_cannot_be_read_is_named(
    source: Any, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match=sentence) as refused:
        opened(source, tmp_path)
    assert isinstance(refused.value, ValueError)
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(ConfigurationError, match=r"the connection list\.json is no JSON object"):
        opened("list.json", tmp_path)


def test_a_file_that_others_can_read_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "hello.json"
    file.write_text(json.dumps(WHOLE))
    file.chmod(0o644)
    with caplog.at_level(logging.WARNING):
        opened(file, tmp_path)
    assert f"{file} holds a token and is open to other users" in caplog.text
    assert "the-token" not in caplog.text


# Running


@pytest.fixture
def joined(platform: "ScriptedPlatform", tmp_path: Path) -> RemoteAgentClient:
    platform.ok("POST", "/registry/register", {"status": "registered"})
    platform.ok("POST", "/registry/heartbeat", {"status": "ok"})
    platform.ok("GET", f"{ME}/state", {"status": "online", "paused": False, "deleted": False})
    platform.ok("POST", f"{ME}/inbox/lease", {"messages": [], "pending": 0, "leased": 0, "dead": 0})
    return opened(WHOLE | {"platform_url": platform.url}, tmp_path)


def test_run_registers_says_so_and_ends_with_the_workspace(
    platform: "ScriptedPlatform", joined: RemoteAgentClient, capfd: pytest.CaptureFixture[str]
) -> None:
    platform.ok("GET", f"{ME}/state", {"status": "paused", "paused": True, "deleted": False})
    assert joined.run(lambda message: None) == "paused"
    assert capfd.readouterr().err == "connected as hello, waiting\n"
    assert platform.requests("POST", "/registry/register")[0].json["agent_card"] == {"name": "hello"}


def test_a_second_run_of_a_client_at_the_same_time_is_refused(joined: RemoteAgentClient) -> None:
    running, stop = threading.Event(), threading.Event()

    class Delivery(InboxDelivery):
        def run_once(self, handler: Any) -> int:
            running.set()
            return 0

    ended: list[str] = []

    def run() -> None:
        ended.append(joined.run(lambda message: None, delivery=Delivery(joined, wait=0), stop_event=stop))

    thread = threading.Thread(target=run)
    thread.start()
    assert running.wait(10)
    with pytest.raises(RuntimeError, match="runs already"):
        joined.run(lambda message: None)
    stop.set()
    thread.join(10)
    assert ended == ["stopped"]
    stop.clear()


def test_an_interrupt_ends_run_as_stopped(joined: RemoteAgentClient) -> None:
    class Delivery(InboxDelivery):
        def run_once(self, handler: Any) -> int:
            raise KeyboardInterrupt

    assert joined.run(lambda message: None, delivery=Delivery(joined)) == "stopped"


def test_loss_and_return_of_the_platform_are_a_line_each(
    platform: "ScriptedPlatform",
    joined: RemoteAgentClient,
    answer: "type[Answer]",
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    away, busy, well = answer(drop=True), answer(503, {"error": "starting"}), answer(200, {"status": "ok"})
    platform.on("POST", "/registry/heartbeat", well, away, busy, well)
    empty = answer(200, {"messages": []})
    platform.on("POST", f"{ME}/inbox/lease", empty, away, busy, away, empty)
    stop = threading.Event()
    lines: list[str] = []

    def until_back() -> None:
        while len(lines) < 3:
            lines.extend(capfd.readouterr().err.splitlines())
        stop.set()

    watcher = threading.Thread(target=until_back)
    watcher.start()
    joined.run(lambda message: None, delivery=InboxDelivery(joined, wait=0), stop_event=stop)
    watcher.join(30)
    assert lines == [
        "connected as hello, waiting",
        f"lost {platform.url}, trying again",
        f"connected to {platform.url} again",
    ]
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
