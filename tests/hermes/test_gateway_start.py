"""The start helper with a real gateway: a command beside it, and the API without a plugin."""

import threading
import time
from pathlib import Path

import pytest
import requests

from molecule_runtime.testing.scripted_model import ModelReply, ScriptedModel, by_text
from tests.hermes.callers import Caller
from tests.hermes.gateway_process import CANARIES, GatewayProcess

# Hermes needs 8 s to start and its first turn as many.
pytestmark = pytest.mark.long

COMMAND = """
env > variables
trap 'curl -s -o /dev/null -w "%{http_code}" "$URL" > health; exit 3' TERM
touch running
while :; do sleep 0.1; done
"""


def test_a_command_runs_beside_the_gateway_and_ends_before_it(
    hermes_executable: Path, model: ScriptedModel, tmp_path: Path
) -> None:
    gateway = GatewayProcess(tmp_path, hermes_executable, model.base_url)
    model.script = by_text({"hang on": ModelReply("late", hold=threading.Event())})
    gateway.start("sh", "-c", f"URL={gateway.plugin_url}/a2a/health\n{COMMAND}")
    try:
        _wait_for_file(tmp_path / "running")
        variables = (tmp_path / "variables").read_text().splitlines()
        for name in ("API_SERVER_KEY", "MOLECULE_A2A_PLATFORM_SHARED_SECRET"):
            assert f"{name}={CANARIES[name]}" in variables
        assert f"MOLECULE_A2A_PLATFORM_PORT={gateway.plugin_port}" in variables
        assert f"HERMES_API_BASE=http://127.0.0.1:{gateway.api_port}/v1" in variables
        processes = gateway.tree()
        with Caller(gateway.plugin_url, gateway.secret) as caller:
            running = caller.send("stopped", "hang on")
            model.wait_for("hang on", 30)
            assert gateway.stop() == 0
            assert (tmp_path / "health").read_text() == "200", "the gateway was there when the command ended"
            assert caller.wait(running, 1).startswith("[hermes plugin error] ")
            assert not [process for process in processes if process.is_running()]
            with pytest.raises(requests.ConnectionError):
                caller.post("/a2a/cancel", {})
    finally:
        gateway.stop()
    assert "hermes gateway stopped" in gateway.log
    assert "starts again" not in gateway.log


def test_without_the_plugin_the_api_serves_and_the_commands_code_is_the_helpers(
    hermes_executable: Path, model: ScriptedModel, tmp_path: Path
) -> None:
    gateway = GatewayProcess(tmp_path, hermes_executable, model.base_url, plugin=False)
    model.script = lambda _: "plain answer"
    gateway.start("sh", "-c", "touch running; while [ ! -e done ]; do sleep 0.1; done; exit 5")
    try:
        _wait_for_file(tmp_path / "running")
        url = f"http://127.0.0.1:{gateway.api_port}/v1/chat/completions"
        body = {"model": "hermes-agent", "messages": [{"role": "user", "content": "hello"}]}
        assert requests.post(url, json=body, timeout=30).status_code == 401
        headers = {"Authorization": f"Bearer {CANARIES['API_SERVER_KEY']}"}
        answer = requests.post(url, json=body, headers=headers, timeout=60).json()
        assert answer["choices"][0]["message"]["content"] == "plain answer"
        with pytest.raises(requests.ConnectionError):
            requests.get(f"{gateway.plugin_url}/a2a/health", timeout=5)
        (tmp_path / "done").touch()
        assert gateway.process is not None
        assert gateway.process.wait(20) == 5
    finally:
        gateway.stop()


def _wait_for_file(path: Path, timeout: float = 60.0) -> None:
    until = time.monotonic() + timeout
    while not path.exists():
        assert time.monotonic() < until, f"{path.name} was not made"
        time.sleep(0.05)
