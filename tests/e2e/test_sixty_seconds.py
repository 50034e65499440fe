"""The sixty-second example of the SDK runs as it is written, against a real platform and the fake one."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from molecule_agent.testing import FakePlatform
from molecule_platform.testing.github import GitHub, github
from tests.e2e.platform_process import PlatformProcess

EXAMPLE = """\
from molecule_agent import RemoteAgentClient

agent = RemoteAgentClient(
    workspace_id="<id of an external workspace>",
    platform_url="https://molecule.example.org",
    agent_card={"name": "docs-bot", "skills": []},
)
agent.register()                      # writes ~/.molecule/<id>/.auth_token with mode 0600
keys = agent.pull_secrets()           # name -> value
agent.install_plugin("molecule-dev")
agent.install_plugin("my-plugin", source="github://acme/my-plugin")
why = agent.run_heartbeat_loop()      # comes back on pause or removal
print("stopped:", why)
"""

# The loop looks whether to stop as soon as it begins, and then every half minute. So the second plugin waits
# until the test has paused the workspace.
WAITS = b"touch setting-up; while test ! -e go-on; do sleep 0.02; done\n"
DEV = {"plugin.yaml": b"name: molecule-dev\nversion: 1.0.0\n", "rules/r.md": b"- be kind"}
MINE = {"plugin.yaml": b"name: my-plugin\nversion: 1.0.0\n", "setup.sh": WAITS}


class Reader:
    """Somebody who typed the example in."""

    def __init__(self, home: Path, workspace_id: str, url: str) -> None:
        self.agent = home / ".molecule" / workspace_id
        text = EXAMPLE.replace("<id of an external workspace>", workspace_id)
        program = text.replace("https://molecule.example.org", url)
        environment = {"PATH": os.environ["PATH"], "HOME": str(home)}
        self._run = subprocess.Popen(
            [sys.executable, "-c", program],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def until_setting_up(self) -> Path:
        """Wait for the second plugin's setup; the file that lets it go on."""
        plugin = self.agent / "plugins" / "my-plugin"
        deadline = time.monotonic() + 30
        while not (plugin / "setting-up").exists():
            assert self._run.poll() is None, self._run.communicate()
            assert time.monotonic() < deadline, "the plugins were not installed"
            time.sleep(0.02)
        return plugin / "go-on"

    def said(self) -> str:
        said, logged = self._run.communicate(timeout=40)
        assert self._run.returncode == 0, logged
        return said


@pytest.fixture
def hub() -> Iterator[GitHub]:
    with github() as hub:
        hub.push("acme/my-plugin", MINE)
        yield hub


def run_twice(home: Path, workspace_id: str, url: str, pause: Callable[[], object]) -> Path:
    """Run the example until it is paused, and again while it is; the agent's directory."""
    first = Reader(home, workspace_id, url)
    go_on = first.until_setting_up()
    pause()
    go_on.touch()
    assert first.said() == "stopped: paused\n"
    token = first.agent / ".auth_token"
    assert token.stat().st_mode & 0o777 == 0o600
    minted = token.read_text()
    assert Reader(home, workspace_id, url).said() == "stopped: paused\n"
    assert token.read_text() == minted
    assert (first.agent / "plugins" / "molecule-dev" / "rules" / "r.md").read_bytes() == b"- be kind"
    return first.agent


def test_the_example_runs_against_a_real_platform(
    process: PlatformProcess, hub: GitHub, tmp_path: Path
) -> None:
    process.environment |= {"MOLECULE_GITHUB_API_URL": hub.url, "MOLECULE_ALLOW_PRIVATE_URLS": "loopback"}
    for name, content in DEV.items():
        path = process.data_dir / "plugins" / "molecule-dev" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    process.start()
    workspace_id = process.ok("POST", "/workspaces", json={"name": "docs-bot", "external": True})["id"]

    run_twice(
        tmp_path, workspace_id, process.url, lambda: process.ok("POST", f"/workspaces/{workspace_id}/pause")
    )

    installed = process.ok("GET", f"/workspaces/{workspace_id}/plugins")
    assert {row["name"]: row["state"] for row in installed} == {
        "molecule-dev": "recorded",
        "my-plugin": "recorded",
    }
    assert process.stop() == 0


def test_the_example_runs_against_the_fake_platform(tmp_path: Path) -> None:
    fake = FakePlatform()
    workspace_id = fake.create_workspace("docs-bot")
    fake.add_plugin("molecule-dev", DEV)
    fake.add_plugin("my-plugin", MINE, source="github://acme/my-plugin")
    with fake.serve() as url:
        run_twice(tmp_path, workspace_id, url, lambda: fake.pause(workspace_id))
