"""The web server around the house: a WebSocket that nobody answers any more is closed."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest

from molecule_platform.api.arrival import Edge
from molecule_platform.api.exchange import Exchange
from molecule_platform.cli import serving
from molecule_platform.testing import servers

SECONDS = 30.0
_PING, _CLOSE = 0x89, 0x88


class OpenHouse:
    """Keeps every WebSocket open, and answers nothing else."""

    log: Any = None
    edge = Edge()

    async def serve(self, exchange: Exchange) -> None:
        await exchange.body(1)
        exchange.answer(404, b"", b"")

    async def socket(self, scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        while (await receive())["type"] != "websocket.disconnect":
            pass


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """A server whose patience is three hundred times shorter."""
    port = servers.free_port()
    config = serving.config(OpenHouse())
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
    config = serving.config(OpenHouse())
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


async def test_a_socket_is_opened_however_its_request_is_cut(port: int) -> None:
    head = (
        b"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    for cut in (1, 50, len(head) - 1):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for some in (head[:cut], head[cut:]):
            writer.write(some)
            await asyncio.sleep(0.01)
        async with asyncio.timeout(SECONDS):
            assert b"101" in await reader.readuntil(b"\r\n\r\n")
        writer.close()


async def test_a_socket_behind_another_request_is_refused(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    upgrade = b"Upgrade: websocket\r\nConnection: Upgrade\r\n"
    writer.write(b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n")
    await asyncio.sleep(0.01)
    writer.write(b"xGET /ws HTTP/1.1\r\nHost: x\r\n" + upgrade + b"\r\n")
    async with asyncio.timeout(SECONDS):
        came = await reader.read()
    assert (came.count(b"HTTP/1.1 404"), came.count(b"HTTP/1.1 400"), came.count(b"101 ")) == (1, 1, 0)
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
