"""The web server around the house: a WebSocket that nobody answers any more is closed."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest

from molecule_platform.cli import serving
from molecule_platform.testing import servers

SECONDS = 10.0
_PING, _CLOSE = 0x89, 0x88


async def _keep_open(scope: Any, receive: Any, send: Any) -> None:
    assert scope["type"] == "websocket"
    await receive()
    await send({"type": "websocket.accept"})
    while (await receive())["type"] != "websocket.disconnect":
        pass


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """A server whose patience is three hundred times shorter."""
    port = servers.free_port()
    config = serving.config(_keep_open)
    config.ws_ping_interval = (config.ws_ping_interval or 0) / 300
    config.ws_ping_timeout = (config.ws_ping_timeout or 0) / 300
    server = serving.Server(config)
    with serving.listen("127.0.0.1", port) as listener:
        running = asyncio.ensure_future(server.serve(sockets=[listener]))
        await server.until_listening()
        yield port
        server.should_exit = True
        await running


async def _connect(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    key = base64.b64encode(os.urandom(16)).decode()
    writer.write(
        f"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode()
    )
    assert b"101" in await reader.readuntil(b"\r\n\r\n")
    return reader, writer


def test_the_server_asks_every_20_s_and_closes_after_60_s_of_silence() -> None:
    config = serving.config(_keep_open)
    assert (config.ws_ping_interval, config.ws_ping_timeout) == (20, 40)


async def test_a_client_that_answers_no_ping_is_closed(port: int) -> None:
    reader, writer = await _connect(port)
    async with asyncio.timeout(SECONDS):
        kind, length = await reader.readexactly(2)
        assert kind == _PING
        await reader.readexactly(length)
        assert (await reader.readexactly(1))[0] == _CLOSE
        await reader.read()
    writer.close()


async def test_a_frame_beyond_the_limit_closes_the_socket(port: int) -> None:
    reader, writer = await _connect(port)
    size = serving.CLIENT_FRAME_MOST_BYTES + 1
    writer.write(bytes([0x81, 0xFF]) + size.to_bytes(8, "big") + b"\0\0\0\0" + b"x" * size)
    async with asyncio.timeout(SECONDS):
        kind, length = await reader.readexactly(2)
        assert kind == _CLOSE
        assert int.from_bytes((await reader.readexactly(length))[:2], "big") == 1009
    writer.close()


# Replies over HTTP


async def _answer(scope: Any, receive: Any, send: Any) -> None:
    """Answers by its path: whole, in pieces, or with a header that would end the head early."""
    body = b"hello from " + scope["path"].encode()
    headers = [(b"content-type", b"text/plain")]
    if scope["path"] == "/evil":
        headers.append((b"x-name", b"a\r\nset-cookie: b=c"))
    if scope["path"] != "/pieces":
        headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    if scope["path"] == "/pieces":
        await send({"type": "http.response.body", "body": body, "more_body": True})
        body = b"!"
    await send({"type": "http.response.body", "body": body})


@pytest.fixture
async def web() -> AsyncIterator[int]:
    """A server of those answers."""
    port = servers.free_port()
    server = serving.Server(serving.config(_answer))
    with serving.listen("127.0.0.1", port) as listener:
        running = asyncio.ensure_future(server.serve(sockets=[listener]))
        await server.until_listening()
        yield port
        server.should_exit = True
        await running


async def said(port: int, *requests: bytes) -> bytes:
    """Everything that comes back until the server closes; the last request asks it to."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"".join(requests))
    async with asyncio.timeout(SECONDS):
        everything = await reader.read()
    writer.close()
    return everything


def get(path: str, *headers: bytes, method: str = "GET", version: str = "1.1") -> bytes:
    lines = [f"{method} {path} HTTP/{version}".encode(), b"Host: x", *headers, b"", b""]
    return b"\r\n".join(lines)


CLOSE = b"Connection: close"


async def test_whole_replies_come_in_order_on_one_connection(web: int) -> None:
    came = await said(web, get("/one"), get("/two"), get("/three", CLOSE))
    assert came.count(b"HTTP/1.1 200 OK\r\n") == 3
    ends = [came.index(f"hello from /{name}".encode()) for name in ("one", "two", "three")]
    assert ends == sorted(ends)
    assert came.count(b"content-length: ") == 3
    assert came.count(b"date: ") == 3


async def test_the_head_and_the_body_of_a_whole_reply_are_one_write(web: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", web)
    writer.write(get("/one"))
    async with asyncio.timeout(SECONDS):
        first = await reader.read(65536)
    assert first.endswith(b"\r\n\r\nhello from /one")
    writer.close()


async def test_a_reply_in_pieces_is_sent_as_it_comes(web: int) -> None:
    came = await said(web, get("/pieces", CLOSE))
    assert b"transfer-encoding: chunked" in came
    assert came.endswith(b"1\r\n!\r\n0\r\n\r\n")


async def test_a_head_alone_and_an_old_client_are_answered_too(web: int) -> None:
    head = await said(web, get("/one", CLOSE, method="HEAD"))
    assert (b"content-length: 15" in head, b"hello" in head) == (True, False)
    old = await said(web, get("/one", version="1.0"))
    assert old.endswith(b"hello from /one")


async def test_a_header_cannot_bring_another_one_along(web: int) -> None:
    came = await said(web, get("/evil"))
    assert came.startswith(b"HTTP/1.1 500")
    assert b"set-cookie" not in came
