"""The platform under a plain ASGI server: it opens with the lifespan, serves, and closes with it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import requests
from websockets.sync.client import connect

from molecule_platform.testing import servers

SECONDS = 30.0
_KEPT = ("PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV")


@contextmanager
def uvicorn_process(port: int, data: Path) -> Generator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "uvicorn", "--factory", "molecule_platform.asgi:create_app"]
    command += ["--port", str(port), "--timeout-graceful-shutdown", "2"]
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    environment = {**kept, "MOLECULE_DATA_DIR": str(data), "RATE_LIMIT": "0", "RATE_LIMIT_ANON": "0"}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_until_ready(url: str) -> None:
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            return requests.get(f"{url}/ready", timeout=5).raise_for_status()
        except requests.ConnectionError:
            assert time.monotonic() < deadline, "the server did not start"
            time.sleep(0.05)


def test_plain_uvicorn_serves_requests_streams_and_websockets_and_stops(tmp_path: Path) -> None:
    port, data = servers.free_port(), tmp_path / "data"
    url = f"http://127.0.0.1:{port}"
    with uvicorn_process(port, data) as process:
        wait_until_ready(url)
        headers = {"Authorization": f"Bearer {(data / 'admin.token').read_text().strip()}"}
        with connect(f"ws://127.0.0.1:{port}/ws", additional_headers=headers) as live:
            stream = requests.get(f"{url}/events/stream", headers=headers, stream=True, timeout=SECONDS)
            body = {"name": "Ada", "runtime": "external"}
            created = requests.post(f"{url}/workspaces", json=body, headers=headers, timeout=SECONDS)
            assert created.status_code == 201, created.text
            assert json.loads(live.recv(SECONDS))["workspace_id"] == created.json()["id"]
            assert next(line for line in stream.iter_lines() if line.startswith(b"data:"))
            process.send_signal(signal.SIGTERM)
            assert process.wait(SECONDS) in (0, -signal.SIGTERM)


def test_a_second_server_on_the_same_data_directory_says_why_it_does_not_start(tmp_path: Path) -> None:
    port, data = servers.free_port(), tmp_path / "data"
    with uvicorn_process(port, data):
        wait_until_ready(f"http://127.0.0.1:{port}")
        with uvicorn_process(servers.free_port(), data) as second:
            _, errors = second.communicate(timeout=SECONDS)
    assert "Molecule already runs on" in errors
    assert "Traceback" not in errors
