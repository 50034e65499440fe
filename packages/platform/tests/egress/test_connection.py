"""Requests and answers over real connections to servers that behave in every way a server can."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from molecule_platform.egress import connector
from molecule_platform.egress.connection import MAX_UNREAD_BYTES
from molecule_platform.egress.errors import BodyTooLarge, NoResponse, UnsafeHeader
from molecule_platform.egress.streaming import StreamingResponse

if TYPE_CHECKING:
    from packages.platform.tests.egress.conftest import RawServer

Ask = Callable[..., StreamingResponse]
STREAM_HEAD = b"HTTP/1.1 200 X\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
MANY_BYTES = 64 * 1024 * 1024


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(0.005)


async def body_of(asked: StreamingResponse) -> bytes:
    async with asked as answer:
        return await answer.body()


# One request after the other


async def test_connections_are_kept_and_shared(server: RawServer, ask: Ask) -> None:
    server.answers = [
        b"HTTP/1.1 204 X\r\n\r\n",
        b"HTTP/1.1 100 X\r\n\r\nHTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
    ]
    assert [await body_of(ask()) for _ in range(5)] == [b"", b"hi", *[b"hello"] * 3]
    assert len(server.heads) == 5
    assert len(server.writers) == 1


async def test_requests_at_the_same_time_have_a_connection_each(server: RawServer, ask: Ask) -> None:
    assert await asyncio.gather(*[body_of(ask()) for _ in range(20)]) == [b"hello"] * 20
    assert len(server.writers) == 20
    await body_of(ask())
    assert len(server.writers) == 20


async def test_a_large_request_and_a_large_answer_pass_whole(server: RawServer, ask: Ask) -> None:
    large = bytes(range(256)) * 40_000
    server.answers = [b"HTTP/1.1 200 X\r\nContent-Length: %d\r\n\r\n%s" % (len(large), large)]
    assert await body_of(ask(data=large, most_bytes=len(large))) == large
    assert server.bodies == [large]
    await body_of(ask())
    assert len(server.writers) == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 X\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.0 200 X\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 X\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 X\r\nContent-Length: 4\r\n\r\nevil",
        b"HTTP/1.1 200 X\r\nContent-Length: 5\r\n\r\nhello, and more than was said",
    ],
)
async def test_a_connection_that_cannot_carry_another_request_is_not_used_for_one(
    server: RawServer, ask: Ask, answer: bytes
) -> None:
    server.answers = [answer]
    assert [await body_of(ask()), await body_of(ask())] == [b"hello", b"hello"]
    assert len(server.writers) == 2


async def test_words_that_nobody_asked_for_are_not_taken_for_the_next_answer(
    server: RawServer, ask: Ask
) -> None:
    await body_of(ask())
    server.writers[0].write(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 4\r\n\r\nlate")
    await until(lambda: server.ended.is_set())
    assert await body_of(ask()) == b"hello"


async def test_an_answer_that_was_not_read_to_its_end_costs_its_connection(
    server: RawServer, ask: Ask
) -> None:
    server.answers = [STREAM_HEAD + b"\r\ndata: 1\n\n"]
    async with ask() as answer:
        while await answer.piece():
            break
    await server.ended.wait()
    assert await body_of(ask()) == b"hello"
    assert len(server.writers) == 2


async def test_a_kept_connection_that_the_server_closed_is_replaced_without_a_word(
    server: RawServer, ask: Ask
) -> None:
    async def answer_and_leave(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 X\r\nContent-Length: 2\r\n\r\nhi")
        writer.close()
        await writer.wait_closed()

    server.always = answer_and_leave
    assert [await body_of(ask()) for _ in range(10)] == [b"hi"] * 10
    assert len(server.heads) == 10


async def test_a_request_that_may_have_been_seen_is_not_sent_twice(server: RawServer, ask: Ask) -> None:
    async def leave(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    await body_of(ask())
    server.answers = [leave]
    with pytest.raises(NoResponse, match="broke") as caught:
        await body_of(ask())
    assert caught.value.sent
    assert len(server.heads) == 2


async def test_connections_that_rested_too_long_are_closed(
    server: RawServer, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connector, "IDLE_SECONDS", 0.05)
    monkeypatch.setattr(connector, "SWEEP_SECONDS", 0.01)
    await body_of(ask())
    async with asyncio.timeout(30):
        await server.ended.wait()


# Streams


async def test_a_stream_is_heard_as_it_comes(server: RawServer, ask: Ask) -> None:
    heard = asyncio.Event()

    async def two(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM_HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        await heard.wait()
        heard.clear()
        writer.write(b"9\r\ndata: 1\n\n\r\n")
        await heard.wait()
        writer.write(b"9\r\ndata: 2\n\n\r\n0\r\n\r\n")

    server.answers = [two]
    chunks: list[bytes] = []
    async with ask() as answer:
        assert (answer.status, answer.is_stream) == (200, True)
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        heard.set()
        while chunk := await answer.piece():
            chunks.append(chunk)
            heard.set()
    assert chunks == [b"data: 1\n\n", b"data: 2\n\n"]
    await body_of(ask())
    assert len(server.writers) == 1


async def test_what_came_of_a_stream_is_heard_before_its_break(server: RawServer, ask: Ask) -> None:
    async def half(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM_HEAD + b"Transfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n5\r\nda")
        writer.close()
        await writer.wait_closed()

    server.answers = [half]
    heard: list[bytes] = []

    async def listen() -> None:
        async with ask() as answer:
            while chunk := await answer.piece():
                heard.append(chunk)

    with pytest.raises(NoResponse, match="the connection to the agent broke") as caught:
        await listen()
    assert b"".join(heard) == b"data: 1\n\nda"
    assert caught.value.sent


async def test_a_reader_that_is_slow_slows_the_server_instead_of_filling_the_house(
    server: RawServer, ask: Ask
) -> None:
    written = 0

    async def flood(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        writer.write(STREAM_HEAD + b"Content-Length: %d\r\n\r\n" % MANY_BYTES)
        while written < MANY_BYTES:
            writer.write(b"x" * MAX_UNREAD_BYTES)
            written += MAX_UNREAD_BYTES
            await writer.drain()

    server.answers = [flood]
    async with ask(seconds=60) as answer:
        await _until_still(lambda: written)
        assert written < MANY_BYTES
        assert answer._connection._unread < 20 * MAX_UNREAD_BYTES
        size = 0
        while chunk := await answer.piece():
            size += len(chunk)
    assert size == MANY_BYTES


async def _until_still(measure: Callable[[], int]) -> None:
    async with asyncio.timeout(30):
        before = -1
        while measure() != before:
            before = measure()
            await asyncio.sleep(0.2)


# What may go wrong


@pytest.mark.parametrize("framing", [b"Content-Length: 70000\r\n", b"Connection: close\r\n"])
async def test_an_answer_over_the_limit_is_refused_while_it_comes(
    server: RawServer, ask: Ask, framing: bytes
) -> None:
    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 X\r\n" + framing + b"\r\n" + b"x" * 1001)
        await reader.read()

    server.answers = [endless]
    with pytest.raises(BodyTooLarge, match="the agent's answer is larger than 1000 bytes"):
        await body_of(ask(most_bytes=1000))


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200", b"HTTP/1.1 200 X\r\nContent-Length: 9\r\n\r\nhalf"])
async def test_a_server_that_does_not_finish_is_given_up_in_time(
    server: RawServer, ask: Ask, said: bytes
) -> None:
    async def stall(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(said)
        await reader.read()
        server.ended.set()

    # Over a connection that is there already, so that the time is the server's alone.
    await body_of(ask())
    server.answers = [stall]
    with pytest.raises(NoResponse, match="the agent did not answer in time") as caught:
        await body_of(ask(seconds=0.1))
    assert caught.value.sent
    await server.ended.wait()


async def test_an_asker_who_leaves_takes_the_connection_along(server: RawServer, ask: Ask) -> None:
    async def stall(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()
        server.ended.set()

    server.answers = [stall]
    asking = asyncio.ensure_future(body_of(ask()))
    await until(lambda: bool(server.heads))
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await server.ended.wait()


async def test_garbage_is_no_answer_to_something_that_was_sent(server: RawServer, ask: Ask) -> None:
    server.answers = [b"220 mail.example ESMTP\r\n"]
    with pytest.raises(NoResponse, match="the agent did not answer in HTTP") as caught:
        await body_of(ask())
    assert caught.value.sent
    await server.ended.wait()


async def test_a_header_with_a_line_break_is_never_sent(server: RawServer, ask: Ask) -> None:
    with pytest.raises(UnsafeHeader):
        await body_of(ask(headers={"X-Request-Id": "1\r\nEvil: yes"}))
    assert server.writers == []
