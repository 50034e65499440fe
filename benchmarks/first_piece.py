"""How long the first piece of an answer takes from its handler to the terminal and to a page."""

import functools
import http.client
import json
import os
import pty
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import requests

from benchmarks import figure, processes
from scripts import live_platform
from scripts.live_platform import LivePlatform

RUNS = 11
MAX_MS = 150.0
# Whoever follows the message has begun to by then.
BEFORE_SECONDS = 0.4
PROMPT = re.compile(rb"you: ")
SAID_AT = re.compile(rb"<(\d+\.\d{6})>")


@dataclass(frozen=True)
class _Medians:
    terminal: float
    page: float


def inbox_to_terminal() -> figure.Figure:
    return _figure("first piece, inbox to the terminal", _medians()["inbox"].terminal)


def inbox_to_page() -> figure.Figure:
    return _figure("first piece, inbox to a page's stream", _medians()["inbox"].page)


def push_to_terminal() -> figure.Figure:
    return _figure("first piece, agent's URL to the terminal", _medians()["pushed"].terminal)


def push_to_page() -> figure.Figure:
    return _figure("first piece, agent's URL to a page's stream", _medians()["pushed"].page)


def _figure(name: str, milliseconds: float) -> figure.Figure:
    limits = f"median of {RUNS}, SQLite, one message at a time"
    return figure.Figure(name, milliseconds, "ms", figure.Ceiling(MAX_MS), limits)


@functools.cache
def _medians() -> dict[str, _Medians]:
    with tempfile.TemporaryDirectory() as folder, _organisation(Path(folder)) as (platform, agents):
        return {
            name: _Medians(_median(_terminal(platform, name)), _median(_page(platform, workspace_id)))
            for name, workspace_id in agents.items()
        }


def _median(seconds: list[float]) -> float:
    return statistics.median(seconds) * 1000


@contextmanager
def _organisation(folder: Path) -> Generator[tuple[LivePlatform, dict[str, str]]]:
    """A platform with an agent that takes its mail from its inbox, and one with a URL."""
    environ = {"RATE_LIMIT": "0", "RATE_LIMIT_ANON": "0"}
    with live_platform.running(folder / "data", "--no-demo", **environ) as platform:

        def create(name: str) -> dict[str, Any]:
            headers = {"Authorization": f"Bearer {platform.admin_token()}"}
            body = {"name": name, "runtime": "external"}
            answer = requests.post(f"{platform.url}/workspaces", json=body, headers=headers, timeout=30)
            answer.raise_for_status()
            return answer.json()

        made = {name: create(name) for name in ("inbox", "pushed")}
        members = [word for one in made.values() for word in (one["id"], one["connection"]["auth_token"])]
        with processes.running("benchmarks.streaming_agent", platform.url, str(folder / "home"), *members):
            yield platform, {name: one["id"] for name, one in made.items()}


def _terminal(platform: LivePlatform, name: str) -> list[float]:
    """The seconds from each first piece until `molecule chat` has printed it."""
    master, slave = pty.openpty()
    command = ["molecule", "chat", name, "--url", platform.url, "--data-dir", str(platform.data_dir)]
    environment = live_platform.clean_environment() | {"TERM": "xterm"}
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment)
    os.close(slave)
    try:
        taken: list[float] = []
        unread = bytearray()
        for _ in range(RUNS):
            _read_until(master, PROMPT, unread)
            os.write(master, f"{BEFORE_SECONDS}\n".encode())
            said = _read_until(master, SAID_AT, unread)
            taken.append(time.monotonic() - float(said[1]))
        return taken
    finally:
        process.kill()
        process.wait()
        os.close(master)


def _read_until(terminal: int, wanted: re.Pattern[bytes], unread: bytearray) -> re.Match[bytes]:
    while (found := wanted.search(bytes(unread))) is None:
        unread += os.read(terminal, 65536)
    del unread[: found.end()]
    return found


def _page(platform: LivePlatform, workspace_id: str) -> list[float]:
    """The seconds from each first piece until the stream of a page has it."""
    return [_seen_on_page(platform, workspace_id) for _ in range(RUNS)]


def _seen_on_page(platform: LivePlatform, workspace_id: str) -> float:
    headers = {"Authorization": f"Bearer {platform.admin_token()}"}
    said = {
        "role": "user",
        "messageId": str(uuid4()),
        "parts": [{"kind": "text", "text": str(BEFORE_SECONDS)}],
    }
    body = {"jsonrpc": "2.0", "id": "1", "method": "message/stream", "params": {"message": said}}
    connection = http.client.HTTPConnection("127.0.0.1", platform.port, timeout=30)
    try:
        posted = {**headers, "Prefer": "respond-async", "Content-Type": "application/json"}
        connection.request("POST", f"/workspaces/{workspace_id}/a2a", json.dumps(body), posted)
        message_id = json.loads(connection.getresponse().read())["message_id"]
        connection.request("GET", f"/messages/{message_id}/events", headers=headers)
        stream = connection.getresponse()
        while (found := SAID_AT.search(stream.readline())) is None:
            pass
        return time.monotonic() - float(found[1])
    finally:
        connection.close()


if __name__ == "__main__":
    print(figure.table([inbox_to_terminal(), inbox_to_page(), push_to_terminal(), push_to_page()]))
