"""An agent of fifteen lines around a language model: its answer grows on the page as the model makes it."""

import http.server
import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
from playwright.sync_api import Page, expect

from molecule_platform.testing import servers
from tests.e2e.browsing import fresh_link, keep_screenshot
from tests.e2e.platform_process import PlatformProcess
from tests.e2e.test_browser_chat import open_agent, write

SECONDS = 30
# A program of the asyncio server, with a URL at which the platform asks it for a stream.
SERVER = """\
import json, os, httpx, uvicorn
from molecule_a2a import AgentApp
from molecule_wire.a2a.text import text_of_message

async def answer(turn):
    said = {"role": "user", "content": text_of_message(turn.message)}
    body, pieces = {"model": "small", "stream": True, "messages": [said]}, 0
    async with httpx.AsyncClient() as model, model.stream("POST", os.environ["MODEL"], json=body) as reply:
        async for line in reply.aiter_lines():
            if line.startswith("data: {"):
                piece = json.loads(line[6:])["choices"][0]["delta"]["content"]
                turn.artifact({"artifactId": "answer", "parts": [{"text": piece}]}, append=pieces > 0)
                pieces += 1

uvicorn.run(AgentApp(answer, {"name": "poet"}, url=os.environ["URL"]), port=int(os.environ["PORT"]))
"""
# Programs of the SDK: one fetches its messages, the other has a URL.
FETCHING = """\
import json, os, requests
from molecule_agent import PushDelivery, RemoteAgentClient

def answer(message):
    roles = {"user": "user", "agent": "assistant"}
    said = [{"role": roles[turn.role], "content": turn.text} for turn in message.history]
    asked = [*said, {"role": "user", "content": message.text}]
    body = {"model": "small", "stream": True, "messages": asked}
    with requests.post(os.environ["MODEL"], json=body, stream=True, timeout=60) as reply:
        for line in reply.iter_lines(chunk_size=1):
            if line.startswith(b"data: {"):
                yield json.loads(line[6:])["choices"][0]["delta"]["content"]

RemoteAgentClient.from_connection().run(answer)
"""
PUSHED = FETCHING.replace(
    "RemoteAgentClient.from_connection().run(answer)",
    "agent = RemoteAgentClient.from_connection()\n"
    "agent.run(answer, delivery=PushDelivery(agent, agent.start_a2a_server(answer, host='127.0.0.1')))",
)


class Model:
    """An endpoint like OpenAI's that streams a completion, piece by piece as the test says."""

    def __init__(self) -> None:
        self.asked: queue.Queue[dict[str, Any]] = queue.Queue()
        self.pieces: queue.Queue[str | None] = queue.Queue()
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1/chat/completions"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self.pieces.put(None)
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        model = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                model.asked.put(json.loads(self.rfile.read(length)) | {"path": self.path})
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                while (piece := model.pieces.get(timeout=SECONDS)) is not None:
                    chunk = {"object": "chat.completion.chunk", "choices": [{"delta": {"content": piece}}]}
                    self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
                self.wfile.write(b"data: [DONE]\n\n")

            def log_message(self, format: str, *args: Any) -> None:
                return

        return Handler


@pytest.fixture
def model() -> Iterator[Model]:
    made = Model()
    yield made
    made.close()


@contextmanager
def running(program: str, folder: Path, **environ: str) -> Generator[None]:
    """The program of the agent's author, as a process."""
    script = folder / "agent.py"
    script.write_text(program)
    command = [sys.executable, str(script)]
    with (folder / "agent.log").open("wb") as log:
        process = subprocess.Popen(command, env=environ, stdout=log, stderr=log)
    try:
        yield
        assert process.poll() is None, (folder / "agent.log").read_text()
    finally:
        process.kill()
        process.wait()


def register(platform: PlatformProcess, name: str, url: str) -> None:
    made = platform.ok("POST", "/workspaces", json={"name": name, "external": True})
    card = {"name": name, "capabilities": {"streaming": True}}
    body, token = {"id": made["id"], "url": url, "agent_card": card}, made["connection"]["auth_token"]
    headers = {"Authorization": f"Bearer {token}"}
    answer = requests.post(f"{platform.url}/registry/register", json=body, headers=headers, timeout=SECONDS)
    assert answer.status_code == 200, answer.text


def test_the_pieces_of_a_language_model_are_seen_on_the_page_as_it_makes_them(
    page: Page, canvas_platform: PlatformProcess, model: Model, tmp_path: Path
) -> None:
    assert len(SERVER.splitlines()) <= 15
    port = servers.free_port()
    url = f"http://127.0.0.1:{port}/"
    with running(SERVER, tmp_path, MODEL=model.url, URL=url, PORT=str(port)):
        register(canvas_platform, "poet", url)
        _read_a_poem(page, canvas_platform, model, "poet")


@pytest.mark.parametrize("way", ["fetching", "pushed"])
def test_a_program_of_the_sdk_streams_onto_the_page_and_remembers_the_conversation(
    way: str, page: Page, canvas_platform: PlatformProcess, model: Model, tmp_path: Path
) -> None:
    program = {"fetching": FETCHING, "pushed": PUSHED}[way]
    assert len(program.splitlines()) <= 15
    name = f"poet-{way}"
    made = canvas_platform.ok("POST", "/workspaces", json={"name": name, "external": True})
    environ = {"MODEL": model.url, "MOLECULE_CONNECTION": json.dumps(made), "HOME": str(tmp_path)}
    with running(program, tmp_path, **environ):
        _until_joined(canvas_platform, made["id"])
        _read_a_poem(page, canvas_platform, model, name)
        write(page, "Another one")
        asked = model.asked.get(timeout=SECONDS)
        assert asked["messages"] == [
            {"role": "user", "content": "A poem, please"},
            {"role": "assistant", "content": "Roses are **red**."},
            {"role": "user", "content": "Another one"},
        ]
        model.pieces.put("Violets are blue.")
        model.pieces.put(None)
        expect(page.get_by_test_id("chat-log")).to_contain_text("Violets are blue.")


def _until_joined(platform: PlatformProcess, workspace_id: str) -> None:
    deadline = time.monotonic() + SECONDS
    while platform.ok("GET", f"/workspaces/{workspace_id}")["status"] != "online":
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _read_a_poem(page: Page, platform: PlatformProcess, model: Model, name: str) -> None:
    page.goto(fresh_link(platform))
    open_agent(page, name)
    write(page, "A poem, please")
    asked = model.asked.get(timeout=SECONDS)
    assert asked["messages"] == [{"role": "user", "content": "A poem, please"}]
    growing = page.get_by_test_id("growing")
    model.pieces.put("Roses ")
    expect(growing).to_contain_text("Roses")
    model.pieces.put("are **red**")
    expect(growing.locator("strong")).to_have_text("red")
    keep_screenshot(page, "llm-growing.png")
    model.pieces.put(".")
    model.pieces.put(None)
    expect(growing).to_have_count(0)
    log = page.get_by_test_id("chat-log")
    expect(log).to_contain_text("Roses are red.")
    page.reload()
    open_agent(page, name)
    expect(log).to_contain_text("Roses are red.")
    assert log.inner_text().count("Roses") == 1
