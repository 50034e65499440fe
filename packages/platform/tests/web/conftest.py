"""An agent on this machine that answers exactly the bytes it is told to, however wrong they are."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from molecule_platform.testing import servers

HI = {"kind": "message", "messageId": "a1", "role": "agent", "parts": [{"kind": "text", "text": "hi"}]}


def _http(status: int, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


@dataclass(frozen=True)
class Received:
    """What the agent was sent."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class MisbehavingAgent:
    """Remembers its requests. `answers` are raw bytes, used one after the other; then it says hi."""

    def __init__(self) -> None:
        self.port = servers.free_port()
        self.received: list[Received] = []
        self.answers: list[bytes] = []
        self.resets = False
        self.silent = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/a2a"

    def will_say(self, status: int, body: Any, *headers: str) -> None:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.answers.append(_http(status, raw, *headers))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        as_sent = dict(line.split(": ", 1) for line in head[1:] if line)
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        named = {name.lower(): value for name, value in as_sent.items()}
        self.received.append(Received(head[0].split(" ")[1], named, body))
        if self.silent:
            await reader.read()
        elif self.resets:
            writer.transport.abort()
            return
        else:
            writer.write(self.answers.pop(0) if self.answers else _http(200, json.dumps(HI).encode()))
            await writer.drain()
        writer.close()


@pytest.fixture
async def agent() -> AsyncIterator[MisbehavingAgent]:
    """A loopback server that answers with whatever the test likes."""
    one = MisbehavingAgent()
    server = await asyncio.start_server(one.serve, "127.0.0.1", one.port)
    yield one
    server.close()
    await server.wait_closed()
