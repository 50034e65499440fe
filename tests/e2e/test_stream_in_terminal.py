"""An answer grows in the terminal while the platform is killed in the middle of it: it is whole, and once."""

import asyncio
import os
import select
import subprocess
import threading
import time
from typing import Any

import pytest
import requests

from molecule_a2a import AgentApp, Turn
from molecule_platform.testing import servers, serving
from molecule_wire import JSONObject
from scripts import live_platform
from tests.e2e.platform_process import PlatformProcess

SECONDS = 60.0
PIECES = tuple(f"piece {number}. " for number in range(4))


class Writer:
    """An agent with a URL that says a piece for each permission."""

    def __init__(self) -> None:
        self.permits = threading.Semaphore(0)
        self.turns = 0

    async def __call__(self, turn: Turn) -> str:
        self.turns += 1
        for number, piece in enumerate(PIECES):
            assert await asyncio.to_thread(self.permits.acquire, timeout=SECONDS)
            artifact: JSONObject = {"artifactId": "a", "parts": [{"text": piece}]}
            turn.artifact(artifact, append=number > 0)
        return ""


def join(platform: PlatformProcess, url: str) -> None:
    made = platform.ok("POST", "/workspaces", json={"name": "writer", "external": True})
    card = {"name": "writer", "capabilities": {"streaming": True}}
    body: dict[str, Any] = {"id": made["id"], "url": url, "agent_card": card}
    headers = {"Authorization": f"Bearer {made['connection']['auth_token']}"}
    answer = requests.post(f"{platform.url}/registry/register", json=body, headers=headers, timeout=SECONDS)
    assert answer.status_code == 200, answer.text


class Reader:
    """`molecule send`, with what it has printed so far."""

    def __init__(self, platform: PlatformProcess) -> None:
        target = ["--url", platform.url, "--data-dir", str(platform.data_dir)]
        self.process = subprocess.Popen(
            ["molecule", "send", "writer", "go", "--wait", str(SECONDS), *target],
            env=live_platform.clean_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.shown = ""

    def until(self, words: str) -> None:
        assert self.process.stdout is not None
        deadline = time.monotonic() + SECONDS
        while words not in self.shown:
            assert time.monotonic() < deadline, self.shown
            if select.select([self.process.stdout], [], [], 0.5)[0]:
                some = os.read(self.process.stdout.fileno(), 65536)
                assert some or words in self.shown, self.shown
                self.shown += some.decode()


@pytest.mark.slow  # the platform is started twice, and the reader waits two seconds in between
def test_a_text_is_whole_and_once_although_the_platform_was_killed_while_it_was_made(
    process: PlatformProcess,
) -> None:
    writer, port = Writer(), servers.free_port()
    url = f"http://127.0.0.1:{port}/"
    process.start()
    with serving.serving(AgentApp(writer, {"name": "writer"}, url=url), port):
        join(process, url)
        reader = Reader(process)
        try:
            for number, piece in enumerate(PIECES):
                if number == 2:
                    process.kill()
                    # Said while nobody listens.
                    writer.permits.release()
                    process.start()
                else:
                    writer.permits.release()
                reader.until(piece)
            rest, complaints = reader.process.communicate(timeout=SECONDS)
        finally:
            reader.process.kill()
    assert (reader.shown + rest.decode()).rstrip("\n") == "".join(PIECES)
    assert reader.process.returncode == 0, complaints
    assert writer.turns == 1
