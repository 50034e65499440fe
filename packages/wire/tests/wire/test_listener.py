"""The listener of asyncio servers: HTTP/1.1 as clients speak it, well and badly."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from molecule_a2a import AgentApp, Listener, PortTaken, Timeouts, Turn, http_connection
from molecule_a2a.asgi_exchange import DECODED_HEADERS
from molecule_a2a.http_connection import MAX_HEAD_BYTES, MAX_KNOWN_NAME_BYTES

HOST = b"host: agent\r\n"


class Echo:
    """Answers with the body; `/stream` in pieces, `/fail` by raising, `/early` without reading the body."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.has_begun, self.may_end = asyncio.Event(), asyncio.Event()
        self.has_ended = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path = scope["path"]
        if path == "/fail":
            raise RuntimeError("an application's mistake")
        if path == "/early":
            return await self._answer(send, b"no")
        if path == "/wait":
            self.has_begun.set()
            await self.may_end.wait()
            self.has_ended.set()
        body, more = b"", True
        while more:
            event = await receive()
            if event["type"] == "http.disconnect":
                return None
            body, more = body + event["body"], event["more_body"]
        self.bodies.append(body)
        if path == "/stream":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for piece in (b"one", b"two"):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            return await send({"type": "http.response.body", "body": b""})
        return await self._answer(send, body or path.encode())

    async def _answer(self, send: Any, body: bytes) -> None:
        headers = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def served(app: Any, **options: Any) -> AsyncGenerator[Listener]:
    listener = Listener("127.0.0.1", 0, **options)
    await listener.start(listener.bind(), app)
    try:
        yield listener
    finally:
        await listener.stop(1.0)


async def said(listener: Listener, *pieces: bytes) -> bytes:
    """All that is answered until the server closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
    async with asyncio.timeout(10):
        answer = await reader.read()
    writer.close()
    return answer


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - nobody tells when
            await asyncio.sleep(0.01)


def get(path: str, *headers: bytes) -> bytes:
    return b"GET %b HTTP/1.1\r\n%b%b\r\n" % (
        path.encode(),
        HOST,
        b"".join(line + b"\r\n" for line in headers),
    )


def post(path: str, body: bytes, *headers: bytes) -> bytes:
    return (
        b"POST %b HTTP/1.1\r\n" % path.encode()
        + HOST
        + b"".join(line + b"\r\n" for line in headers)
        + b"content-length: %d\r\n\r\n" % len(body)
        + body
    )


CLOSE = b"connection: close"


async def test_requests_of_one_connection_are_answered_in_their_order() -> None:
    async with served(Echo()) as listener:
        answer = await said(listener, get("/a") + get("/b") + post("/c", b"see") + get("/d", CLOSE))
    bodies = [part.split(b"\r\n\r\n")[1] for part in answer.split(b"HTTP/1.1 200 OK")[1:]]
    assert bodies == [b"/a", b"/b", b"see", b"/d"]


async def test_a_body_may_come_byte_by_byte_and_in_chunks() -> None:
    app = Echo()
    async with served(app) as listener:
        whole = post("/", b"slow", CLOSE)
        await said(listener, *(whole[place : place + 1] for place in range(len(whole))))
        chunked = (
            b"POST / HTTP/1.1\r\n" + HOST + CLOSE + b"\r\ntransfer-encoding: chunked\r\n\r\n"
            b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
        )
        await said(listener, chunked)
    assert app.bodies == [b"slow", b"abcde"]


async def test_an_answer_without_a_length_goes_out_in_chunks() -> None:
    async with served(Echo()) as listener:
        answer = await said(listener, get("/stream") + get("/last", CLOSE))
    assert b"transfer-encoding: chunked" in answer
    assert b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n" in answer
    assert answer.endswith(b"/last")


async def test_an_old_client_gets_an_answer_that_ends_with_the_connection() -> None:
    async with served(Echo()) as listener:
        answer = await said(listener, b"GET /stream HTTP/1.0\r\n\r\n")
    assert b"chunked" not in answer
    assert answer.endswith(b"\r\n\r\nonetwo")


async def test_the_answer_to_head_has_no_body() -> None:
    async with served(Echo()) as listener:
        head = b"HEAD /a HTTP/1.1\r\n" + HOST + b"\r\n"
        answer = await said(listener, head + get("/b", CLOSE))
    assert answer.count(b"content-length: 2") == 2
    assert answer.count(b"\r\n\r\n") == 2
    assert b"\r\n\r\nHTTP/1.1 200 OK" in answer


async def test_an_agent_answers_requests_of_one_connection_in_their_order_and_head_without_a_body() -> None:
    async def greet(turn: Turn) -> str:
        return "hello"

    app = AgentApp(greet, {"name": "a"}, url="http://127.0.0.1/")
    path = b"/.well-known/agent-card.json"
    head = b"HEAD " + path + b" HTTP/1.1\r\n" + HOST + b"\r\n"
    async with served(app) as listener:
        answer = await said(listener, head + get(path.decode()) + get("/healthz", CLOSE))
    shown, card, health = answer.split(b"HTTP/1.1 200 OK\r\n")[1:]
    assert shown.endswith(b"\r\n\r\n")
    length = next(line for line in shown.split(b"\r\n") if line.startswith(b"content-length"))
    assert length == b"content-length: %d" % len(card.split(b"\r\n\r\n", 1)[1])
    assert b"connection: close" in health
    assert health.endswith(b'{"status":"ok"}')


async def test_names_of_headers_are_read_in_any_spelling_and_long_ones_are_not_kept() -> None:
    seen: list[dict[str, str]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope[DECODED_HEADERS])
        await Echo()(scope, receive, send)

    long = b"X-" + b"Y" * MAX_KNOWN_NAME_BYTES
    async with served(app) as listener:
        before = http_connection._known_name.cache_info().currsize
        await said(listener, get("/", b"X-OdD: Value", long + b": z", CLOSE))
        kept = http_connection._known_name.cache_info().currsize - before
    assert seen[0]["x-odd"] == "Value"
    assert seen[0][long.decode().lower()] == "z"
    assert kept <= 3


async def test_a_client_that_asks_first_is_told_to_send_its_body() -> None:
    async with served(Echo()) as listener:
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        request = post("/", b"body", b"expect: 100-continue", CLOSE)
        writer.write(request.removesuffix(b"body"))
        async with asyncio.timeout(10):
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(b"body")
            assert (await reader.read()).endswith(b"body")
        writer.close()


@pytest.mark.parametrize(
    ("request_bytes", "status", "sentence"),
    [
        (b"rubbish\r\n\r\n", 400, b"this is not HTTP/1.1"),
        (b"GET / HTTP/1.1\r\n\r\n", 400, b"send one Host"),
        (b"GET / HTTP/1.1\r\n" + HOST + HOST + b"\r\n", 400, b"send one Host"),
        (get("/", b"authorization: a", b"authorization: b"), 400, b"a credential is sent twice"),
        (get("/", b"x-molecule-caller: a", b"x-molecule-caller: b"), 400, b"a credential is sent twice"),
        (get("/", b"content-length: 1", b"content-length: 2"), 400, b"this is not HTTP/1.1"),
        (post("/", b"x", b"connection: upgrade", b"upgrade: h2c"), 400, b"an upgrade has no body"),
        (get("/", b"x: " + b"y" * (MAX_HEAD_BYTES + 1)), 431, b"the head"),
        (get("/", *(b"x-%d: y" % number for number in range(200))), 431, b"the head"),
    ],
)
async def test_what_is_no_request_is_refused_with_its_reason(
    request_bytes: bytes, status: int, sentence: bytes
) -> None:
    app = Echo()
    async with served(app) as listener:
        answer = await said(listener, request_bytes)
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert sentence in answer
    assert app.bodies == []


async def test_a_wish_for_another_protocol_is_overheard() -> None:
    async with served(Echo()) as listener:
        answer = await said(listener, get("/a", b"connection: upgrade", b"upgrade: h2c"))
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert b"connection: close" in answer


async def test_a_mistake_of_the_application_is_500_and_tells_nothing() -> None:
    async with served(Echo()) as listener:
        answer = await said(listener, get("/fail"))
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert b"mistake" not in answer


async def test_an_answer_before_the_body_has_come_reaches_a_client_that_still_sends() -> None:
    async with served(Echo()) as listener:
        head = b"POST /early HTTP/1.1\r\n" + HOST + b"content-length: 10000000\r\n\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(head + b"x" * 1_000_000)
        async with asyncio.timeout(10):
            assert (await reader.read()).endswith(b"no")
        writer.close()


async def test_a_body_that_does_not_come_is_408() -> None:
    async with served(Echo(), timeouts=Timeouts(body=0.1)) as listener:
        answer = await said(listener, post("/", b"whole").removesuffix(b"e"))
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"the body did not come within 0.1 s" in answer


async def test_connections_that_ask_nothing_are_closed() -> None:
    async with served(Echo(), timeouts=Timeouts(idle=0.1, head=0.1)) as listener:
        assert await said(listener) == b""
        assert await said(listener, b"GET / HT") == b""
        assert (await said(listener, get("/a"))).endswith(b"/a")


async def test_more_connections_than_may_be_open_are_told_to_come_again() -> None:
    async with served(Echo(), max_connections=1) as listener:
        _, first = await asyncio.open_connection("127.0.0.1", listener.port)
        first.write(get("/a"))
        await until(lambda: len(listener.connections) == 1)
        answer = await said(listener)
        first.close()
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: 1" in answer


async def test_a_client_that_goes_away_does_not_end_the_work() -> None:
    app = Echo()
    async with served(app) as listener:
        _, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(get("/wait"))
        await app.has_begun.wait()
        writer.transport.abort()
        await until(lambda: not listener.connections)
        app.may_end.set()
        async with asyncio.timeout(10):
            await app.has_ended.wait()


async def test_a_stop_lets_the_answer_go_out_that_is_being_made() -> None:
    app = Echo()
    listener = Listener("127.0.0.1", 0)
    await listener.start(listener.bind(), app)
    answer = asyncio.ensure_future(said(listener, get("/wait")))
    await app.has_begun.wait()
    stopping = asyncio.ensure_future(listener.stop(10.0))
    await asyncio.sleep(0)
    app.may_end.set()
    assert (await answer).endswith(b"/wait")
    await stopping
    with pytest.raises(OSError, match="Connect"):
        await said(listener)


async def test_a_reader_that_is_slow_holds_back_the_writer() -> None:
    written = 0

    async def endless(scope: Any, receive: Any, send: Any) -> None:
        nonlocal written
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while True:
            await send({"type": "http.response.body", "body": b"x" * 100_000, "more_body": True})
            written += 100_000

    async with served(endless) as listener:
        _, writer = await asyncio.open_connection("127.0.0.1", listener.port, limit=1000)
        writer.write(get("/"))
        before = -1
        while written != before:
            before = written
            await asyncio.sleep(0.2)
        assert written < 50_000_000
        writer.transport.abort()


async def test_an_address_that_is_taken_is_named() -> None:
    async with served(Echo()) as listener:
        second = Listener("127.0.0.1", listener.port)
        with pytest.raises(PortTaken, match=f"cannot listen on 127.0.0.1:{listener.port}"):
            second.bind()
