"""A generator's stream is cut at every piece, and the platform is killed: the text is whole, and once."""

import json
import queue
import random
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from molecule_a2a import AgentApp, Turn
from molecule_agent import InboundMessage, RemoteAgentClient
from molecule_platform.testing import servers, serving
from molecule_wire.a2a import text
from tests.e2e.platform_process import PlatformProcess

SECONDS = 60.0
PIECES = tuple(f"piece {number}. " for number in range(5))
WHOLE = "".join(PIECES)


class Author:
    """Says a piece for each permit, and counts how often it was asked."""

    def __init__(self) -> None:
        self.permits: queue.SimpleQueue[None] = queue.SimpleQueue()
        self.calls = 0

    def pieces(self, asked: InboundMessage | Turn) -> Iterator[str]:
        self.calls += 1
        for piece in PIECES:
            self.permits.get(timeout=SECONDS)
            yield piece


@contextmanager
def inbox(client: RemoteAgentClient, author: Author) -> Generator[None]:
    stop = threading.Event()
    running = threading.Thread(target=client.run, args=(author.pieces,), kwargs={"stop_event": stop})
    running.start()
    try:
        yield
    finally:
        stop.set()
        client.stop()
        running.join(SECONDS)
        assert not running.is_alive()


@contextmanager
def push(client: RemoteAgentClient, author: Author) -> Generator[None]:
    with client.start_a2a_server(author.pieces, host="127.0.0.1"):
        client.register()
        yield


@contextmanager
def asyncio_server(client: RemoteAgentClient, author: Author) -> Generator[None]:
    port = servers.free_port()
    client.reported_url = f"http://127.0.0.1:{port}/"
    client.agent_card = {"name": "author", "capabilities": {"streaming": True}}
    with serving.serving(AgentApp(author.pieces, {"name": "author"}, url=client.reported_url), port):
        client.register()
        yield


class Reader:
    """Follows a message, joins again after each cut, and keeps what it has read."""

    def __init__(self, platform: PlatformProcess, message_id: str) -> None:
        self._platform = platform
        self._path = f"/messages/{message_id}/events"
        self._seen = ""
        self._made: dict[str, str] = {}
        self._events = _nothing()

    @property
    def text(self) -> str:
        return "".join(self._made.values())

    def until(self, is_there: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS
        while not is_there():
            assert time.monotonic() < deadline, self.text
            try:
                next(self._events)
            except (StopIteration, requests.RequestException):
                self.cut()
                self._events = self._follow()

    def cut(self) -> None:
        self._events.close()
        self._events = _nothing()

    def _follow(self) -> Generator[None]:
        headers = {"Authorization": f"Bearer {self._platform.admin_token()}"}
        headers |= {"Last-Event-ID": self._seen} if self._seen else {}
        url = self._platform.url + self._path
        try:
            answer = requests.get(url, headers=headers, stream=True, timeout=SECONDS)
        except requests.RequestException:
            time.sleep(0.05)
            return
        with answer:
            number = ""
            for line in answer.iter_lines(chunk_size=1, decode_unicode=True):
                if line.startswith("id: "):
                    number = line[4:]
                elif line.startswith("data: ") and number:
                    self._take(json.loads(line[6:]))
                    self._seen, number = number, ""
                    yield

    def _take(self, event: dict[str, Any]) -> None:
        for artifact in event.get("task", {}).get("artifacts", []):
            self._made[artifact["artifactId"]] = _text_of(artifact)
        if update := event.get("artifactUpdate"):
            name, piece = update["artifact"]["artifactId"], _text_of(update["artifact"])
            self._made[name] = self._made.get(name, "") + piece if update.get("append") else piece


def _nothing() -> Generator[None]:
    yield from ()


def _text_of(artifact: dict[str, Any]) -> str:
    return "".join(part["text"] for part in artifact["parts"])


def converse(
    platform: PlatformProcess, workspace_id: str, author: Author, cut_at: int, killed_at: int | None
) -> None:
    """Read an answer that is cut before one piece, while the platform is killed before another."""
    said = {"role": "user", "messageId": f"m-{cut_at}", "parts": [{"kind": "text", "text": "go"}]}
    body = {"jsonrpc": "2.0", "id": "1", "method": "message/stream", "params": {"message": said}}
    path, calls = f"/workspaces/{workspace_id}/a2a", author.calls
    sent = platform.ok("POST", path, json=body, headers={"Prefer": "respond-async"})["message_id"]
    reader = Reader(platform, sent)
    for number, piece in enumerate(PIECES):
        if number == cut_at:
            reader.cut()
        if number == killed_at:
            platform.kill()
            author.permits.put(None)  # said while nobody listens
            platform.start()
        else:
            author.permits.put(None)
        reader.until(lambda piece=piece: piece in reader.text)
        assert reader.text == "".join(PIECES[: number + 1])
    row = platform.ok("GET", f"/messages/{sent}?wait=30")
    reader.cut()
    assert (row["status"], text.text_of(row["result"])) == ("answered", WHOLE), row
    assert reader.text == WHOLE
    assert author.calls == calls + 1


@pytest.mark.slow  # the platform is killed in each way, and started again
@pytest.mark.parametrize("way", [inbox, push, asyncio_server])
def test_a_stream_that_is_cut_at_every_piece_while_the_platform_is_killed_is_whole_and_once(
    way: Any, tmp_path: Path
) -> None:
    _cut_everywhere(way, tmp_path, kills=1, seed=17)


@pytest.mark.long  # sixty starts of the platform in all
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("way", [inbox, push, asyncio_server])
def test_the_same_with_a_kill_for_every_cut(way: Any, seed: int, tmp_path: Path) -> None:
    _cut_everywhere(way, tmp_path, kills=len(PIECES), seed=seed)


def _cut_everywhere(way: Any, folder: Path, kills: int, seed: int) -> None:
    platform = PlatformProcess(servers.free_port(), folder / "data")
    platform.start()
    try:
        made = platform.ok("POST", "/workspaces", json={"name": "author", "external": True})
        client = RemoteAgentClient.from_connection(made, token_dir=folder / "tokens")
        author, chance = Author(), random.Random(seed)
        killing = chance.sample(range(len(PIECES)), kills)
        with client, way(client, author):
            for cut_at in range(len(PIECES)):
                killed_at = chance.randrange(len(PIECES)) if cut_at in killing else None
                converse(platform, made["id"], author, cut_at, killed_at)
    finally:
        platform.stop()
