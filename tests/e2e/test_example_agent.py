"""The example agent joins a real platform, answers, and goes on after a restart with its saved token."""

import os
import subprocess
import sys
from pathlib import Path

from molecule_platform.testing import servers
from scripts import repository
from tests.e2e.platform_process import PlatformProcess

EXAMPLES = repository.ROOT / "examples" / "remote-agent"


def start_agent(
    process: PlatformProcess, workspace_id: str, home: Path, program: str = "run.py"
) -> "subprocess.Popen[str]":
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "WORKSPACE_ID": workspace_id,
        "PLATFORM_URL": process.url,
        "AGENT_NAME": "example",
        "MAX_ITERATIONS": "1",
    }
    return subprocess.Popen(
        [sys.executable, str(EXAMPLES / program)], env=environment, stdout=subprocess.PIPE, text=True
    )


def test_the_example_agent_works_as_its_page_says(process: PlatformProcess, tmp_path: Path) -> None:
    process.start()
    workspace_id = process.ok("POST", "/workspaces", json={"name": "example", "external": True})["id"]
    secret = {"key": "MODEL_KEY", "value": "hidden"}
    process.ok("POST", f"/workspaces/{workspace_id}/secrets", json=secret)
    for words in ("hello", "again"):
        agent = start_agent(process, workspace_id, tmp_path)
        body = {"method": "message/send", "params": {"message": {"parts": [{"kind": "text", "text": words}]}}}
        sent = process.ok(
            "POST", f"/workspaces/{workspace_id}/a2a", json=body, headers={"Prefer": "respond-async"}
        )
        said, _ = agent.communicate(timeout=40)
        assert "secrets: ['MODEL_KEY']" in said
        assert f"canvas_user: {words}" in said
        assert "hidden" not in said
        assert process.ok("GET", f"/messages/{sent['message_id']}?wait=20")["status"] == "answered"
    assert process.stop() == 0


def test_the_tour_goes_all_the_way(tmp_path: Path) -> None:
    process = PlatformProcess(servers.free_port(), tmp_path / "data")
    process.start()
    workspace_id = process.ok("POST", "/workspaces", json={"name": "tour", "external": True})["id"]
    body = {"method": "message/send", "params": {"message": {"parts": [{"kind": "text", "text": "who"}]}}}
    asked = {"Prefer": "respond-async"}
    sent = process.ok("POST", f"/workspaces/{workspace_id}/a2a", json=body, headers=asked)
    said, _ = start_agent(process, workspace_id, tmp_path, "tour.py").communicate(timeout=40)
    assert said.splitlines()[0] == "status: online, secrets: []"
    assert said.splitlines()[-1] == "stopped: max_iterations"
    outcome = process.ok("GET", f"/messages/{sent['message_id']}?wait=20")
    assert "who? (attempt 1)" in str(outcome["result"])
    assert process.stop() == 0
