"""The streams of a house, as its listeners read them."""

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import requests
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.spec.platforms import Platform


def listen(platform: Platform, query: str = "", token: str | None = None) -> ClientConnection:
    """A WebSocket, with the administrator's token or another one."""
    return connect(
        platform.url.replace("http", "ws") + f"/ws{query}", additional_headers=platform.headers(token)
    )


def frames(socket: ClientConnection, until: str) -> list[dict[str, Any]]:
    """What comes and has a number, up to the first event of that name."""
    seen: list[dict[str, Any]] = []
    while not seen or seen[-1]["event"] != until:
        seen.append(json.loads(socket.recv(timeout=30)))
    return [frame for frame in seen if "id" in frame]


def closing_code(socket: ClientConnection) -> int | None:
    """Read until the platform closes the socket."""
    with pytest.raises(ConnectionClosed) as closed:
        frames(socket, "NEVER")
    return None if closed.value.rcvd is None else closed.value.rcvd.code


@dataclass(frozen=True)
class Told:
    """One event of a stream."""

    id: str
    event: str
    data: Any


class Stream:
    """Server-sent events, block by block."""

    def __init__(self, answer: requests.Response) -> None:
        self.answer = answer
        self._blocks = _blocks(answer.iter_lines(chunk_size=None, decode_unicode=True))

    def block(self) -> dict[str, str]:
        """The next block by its fields; empty when the stream has ended."""
        return next(self._blocks, None) or {}

    def until(self, name: str) -> list[Told]:
        """What comes and has a number, up to the first event of that name."""
        seen: list[Told] = []
        while not seen or seen[-1].event != name:
            block = self.block()
            assert block, f"the stream ended before {name}"
            if "event" in block:
                seen.append(Told(block.get("id", ""), block["event"], json.loads(block["data"])))
        return [told for told in seen if told.id]

    def ends(self) -> bool:
        """Read to the end."""
        while self.block():
            pass
        return True


def _blocks(lines: Iterator[str]) -> Iterator[dict[str, str]]:
    block: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            block[name] = value
        elif block:
            yield block
            block = {}


@contextmanager
def stream(
    platform: Platform, path: str = "/events/stream", token: str | None = None, **headers: str
) -> Generator[Stream]:
    """An open stream, whose first block (how to come back) has been read."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with platform.call("GET", path, token, headers=named, stream=True) as answer:
        assert answer.status_code == 200, answer.text
        opened = Stream(answer)
        assert opened.block()["retry"] == "2000"
        yield opened


def steps(platform: Platform, message_id: str) -> list[str]:
    """The steps of a message that has ended, by their names."""
    found: list[str] = []
    with stream(platform, f"/messages/{message_id}/events") as told:
        while block := told.block():
            if "event" in block and "id" not in block:
                found.append(block["event"])
    return found
