"""Agents and clients of the official SDKs in processes of their own."""

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest
import requests

from molecule_platform.testing import servers
from tests.spec.platforms import Platform

START_SECONDS = 30.0
CLIENT_SECONDS = 50.0
HERE = Path(__file__).parent
OLD_PYTHON = HERE.parents[2] / ".venv-a2a-0.3" / "bin" / "python"
CARD_PATH = ".well-known/agent-card.json"


def old_python() -> str:
    """The Python that has a2a-sdk 0.3."""
    if not OLD_PYTHON.exists():
        pytest.skip("a2a-sdk 0.3 has no environment here: `make test` makes it (.venv-a2a-0.3).")
    return str(OLD_PYTHON)


@contextlib.contextmanager
def agent_1_3(*flags: str) -> Generator[str]:
    """An agent of a2a-sdk 1.3; yields its base URL."""
    with _serving([sys.executable, "-m", "tests.spec.sdk_agents.v1_3"], flags) as url:
        yield url


@contextlib.contextmanager
def agent_0_3() -> Generator[str]:
    """An agent of a2a-sdk 0.3; yields its base URL."""
    with _serving([old_python(), str(HERE / "v0_3_server.py")], ()) as url:
        yield url


def client_0_3(base: str, token: str, transport: str, *flags: str) -> dict[str, Any]:
    """What the client of a2a-sdk 0.3 was told."""
    command = [old_python(), str(HERE / "v0_3_client.py"), base, token, transport, *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=CLIENT_SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def join(platform: Platform, url: str) -> str:
    """The id of a new workspace for the agent behind a URL, registered with the card it serves."""
    card = requests.get(url + CARD_PATH, timeout=START_SECONDS).json()
    client = platform.join("pushed")
    interfaces = card.get("supportedInterfaces", ())
    named = [one["url"] for one in interfaces if one["protocolBinding"] == "JSONRPC"]
    body = {"id": client.workspace_id, "url": [*named, card.get("url")][0], "agent_card": card}
    platform.ok("POST", "/registry/register", token=client.load_token(), json=body)
    return client.workspace_id


@contextlib.contextmanager
def _serving(command: Sequence[str], flags: Sequence[str]) -> Generator[str]:
    port = servers.free_port()
    process = subprocess.Popen([*command, str(port), *flags])
    url = f"http://127.0.0.1:{port}/"
    try:
        _wait_for_card(process, url)
        yield url
    finally:
        process.kill()
        process.wait()


def _wait_for_card(process: "subprocess.Popen[bytes]", url: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        assert process.poll() is None, "the agent ended"
        assert time.monotonic() < deadline, "the agent did not start"
        with contextlib.suppress(requests.ConnectionError, requests.Timeout):
            if requests.get(url + CARD_PATH, timeout=5).status_code == 200:
                return
        time.sleep(0.05)
