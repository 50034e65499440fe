"""HTTP/1.1 over real sockets: requests in order, answers in their framing, no patience with the hostile."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from molecule_platform.api.arrival import Edge
from molecule_platform.api.exchange import Exchange, Gone, TooLarge
from molecule_platform.cli import serving
from molecule_platform.http.transport import connection, front
from molecule_platform.testing import servers

SECONDS = 30.0
PLAIN = b"content-type: text/plain\r\n"
CLOSE = b"Connection: close"
BODY_MOST = 100_000


class Log:
    """Remembers the faults."""

    def __init__(self) -> None:
        self.faults: list[str] = []

    def info(self, event: str, **fields: Any) -> None: ...

    def warning(self, event: str, **fields: Any) -> None: ...

    def error(self, event: str, **fields: Any) -> None:
        self.faults.append(event)


class Ticker:
    """A stream that says what it is given, when it is given."""

    def __init__(self) -> None:
        self.waiting: list[bytes | None] = []
        self.call: Callable[[], None] = lambda: None
        self.is_closed = False
        self.ended = asyncio.Event()

    def begin(self, call: Callable[[], None]) -> None:
        self.call = call

    def ready(self) -> bytes | None:
        if self.waiting and (self.waiting[0] is None or self.waiting[0].startswith(b"later")):
            return None
        return self.waiting.pop(0) or b"" if self.waiting else b""

    async def next(self) -> bytes | None:
        await asyncio.sleep(0)
        return self.waiting.pop(0)

    def close(self) -> None:
        self.is_closed = True

    def say(self, *chunks: bytes | None) -> None:
        self.waiting += chunks
        self.call()


LARGE = 3 * 1024 * 1024
UPGRADE = (
    b"Connection: Upgrade",
    b"Upgrade: websocket",
    b"Sec-WebSocket-Version: 13",
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)


class House:
    """Answers by the path of the request."""

    def __init__(self) -> None:
        self.log = Log()
        self.edge = Edge(max_connections=1000)
        self.forget()

    def forget(self) -> None:
        """As if nobody had asked yet."""
        self.log.faults.clear()
        self.ticker = Ticker()
        self.left = asyncio.Event()
        self.closed = asyncio.Event()
        self.seen: list[str] = []

    async def serve(self, exchange: Exchange) -> None:
        self.seen.append(f"{exchange.method} {exchange.path}")
        await getattr(self, "_" + exchange.path.strip("/").replace("-", "_"), self._other)(exchange)

    async def socket(self, scope: Any, receive: Any, send: Any) -> None:
        raise NotImplementedError

    async def _other(self, exchange: Exchange) -> None:
        said = f"{exchange.method} {exchange.path}?{exchange.query.decode()}"
        exchange.answer(200, PLAIN, said.encode())

    async def _headers(self, exchange: Exchange) -> None:
        exchange.answer(200, PLAIN, repr(sorted(exchange.headers.items())).encode())

    async def _body(self, exchange: Exchange) -> None:
        try:
            body = await exchange.body(BODY_MOST)
        except TooLarge:
            exchange.answer(413, PLAIN, b"too large")
        except Gone:
            exchange.answer(400, PLAIN, b"not whole")
        else:
            exchange.answer(200, PLAIN, b"%d bytes %b" % (len(body), body[:10]))

    async def _unread(self, exchange: Exchange) -> None:
        exchange.answer(200, PLAIN, b"not read")

    async def _slow(self, exchange: Exchange) -> None:
        await asyncio.sleep(0.05)
        exchange.answer(200, PLAIN, b"slow")

    async def _large(self, exchange: Exchange) -> None:
        exchange.answer(200, PLAIN, b"l" * LARGE)

    async def _empty(self, exchange: Exchange) -> None:
        exchange.answer(204, b"", b"")

    async def _bug(self, exchange: Exchange) -> None:
        raise ValueError

    async def _silence(self, exchange: Exchange) -> None:
        return

    async def _pieces(self, exchange: Exchange) -> None:
        async def chunks() -> AsyncGenerator[bytes]:
            for chunk in (b"one", b"", b"two"):
                yield chunk

        await exchange.tell(200, PLAIN, chunks())

    async def _endless(self, exchange: Exchange) -> None:
        async def chunks() -> AsyncGenerator[bytes]:
            try:
                while True:
                    yield b"x" * 65536
                    await asyncio.sleep(0)
            finally:
                self.closed.set()

        await exchange.tell(200, PLAIN, chunks())

    async def _follow(self, exchange: Exchange) -> None:
        exchange.follow(200, PLAIN, self.ticker, self.ticker.ended.set)

    async def _hold(self, exchange: Exchange) -> None:
        await exchange.gone()
        assert exchange.is_gone
        self.left.set()


class Running:
    def __init__(self, house: House, port: int, server: serving.Server) -> None:
        self.house = house
        self.port = port
        self.server = server
        self.writers: list[asyncio.StreamWriter] = []

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers.append(writer)
        return reader, writer

    async def close(self) -> None:
        for writer in self.writers:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
        self.writers.clear()

    async def said(self, *pieces: bytes) -> bytes:
        """Everything that comes back until the server closes."""
        reader, writer = await self.connect()
        with contextlib.suppress(ConnectionError):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0.002 if len(pieces) > 1 else 0)
        came = b""
        async with asyncio.timeout(SECONDS):
            with contextlib.suppress(ConnectionError):
                while chunk := await reader.read(65536):
                    came += chunk
        writer.close()
        return came


@contextlib.asynccontextmanager
async def serving_a_house() -> AsyncGenerator[Running]:
    house, port = House(), servers.free_port()
    server = serving.Server(serving.config(house))
    with serving.listen("127.0.0.1", port) as listener:
        running = asyncio.ensure_future(server.serve(sockets=[listener]))
        await server.until_listening()
        yield Running(house, port, server)
        server.should_exit = True
        await running


@pytest.fixture(scope="module")
async def shared_web() -> AsyncIterator[Running]:
    async with serving_a_house() as web:
        yield web


@pytest.fixture
async def web(shared_web: Running) -> AsyncIterator[Running]:
    """A server of that house, where nobody has asked yet. Stopping one takes 0.2 s, so they share it."""
    shared_web.house.forget()
    yield shared_web
    await shared_web.close()
    shared_web.house.ticker.say(None)


@pytest.fixture
async def own_web() -> AsyncIterator[Running]:
    """One of its own, because the test changes its times or stops it."""
    async with serving_a_house() as web:
        yield web
        await web.close()


def get(path: str, *headers: bytes, method: str = "GET", version: str = "1.1") -> bytes:
    lines = [f"{method} {path} HTTP/{version}".encode(), b"Host: x", *headers, b"", b""]
    return b"\r\n".join(lines)


def post(path: str, body: bytes, *headers: bytes) -> bytes:
    return get(path, b"Content-Length: %d" % len(body), *headers, method="POST") + body


def statuses(came: bytes) -> list[int]:
    return [int(part[:3]) for part in came.split(b"HTTP/1.1 ")[1:]]


# Answers


async def test_whole_replies_come_in_order_on_one_connection(web: Running) -> None:
    came = await web.said(get("/slow"), get("/b"), get("/three?a=%20", CLOSE))
    assert statuses(came) == [200] * 3
    ends = [came.index(words) for words in (b"\r\n\r\nslow", b"GET /b?", b"GET /three?a=%20")]
    assert ends == sorted(ends)
    assert came.count(b"content-length: ") == came.count(b"date: ") == 3


async def test_many_requests_in_one_piece_are_answered_in_their_order(web: Running) -> None:
    many = [get(f"/{n}" if n % 3 else "/b") for n in range(50)]
    came = await web.said(b"".join([*many, get("/last", CLOSE)]))
    assert statuses(came) == [200] * 51
    places = [came.index(b"GET /%d?" % n) for n in range(50) if n % 3]
    assert places == sorted(places)


async def test_the_head_and_the_body_of_a_whole_reply_are_one_write(web: Running) -> None:
    reader, writer = await web.connect()
    writer.write(get("/one"))
    async with asyncio.timeout(SECONDS):
        assert (await reader.read(65536)).endswith(b"\r\n\r\nGET /one?")
    writer.close()


async def test_a_reply_in_pieces_is_sent_as_it_comes(web: Running) -> None:
    came = await web.said(get("/pieces", CLOSE))
    assert b"transfer-encoding: chunked" in came
    assert came.endswith(b"\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")


async def test_an_old_client_gets_no_chunks_and_a_closed_connection(web: Running) -> None:
    came = await web.said(get("/pieces", version="1.0"))
    assert (b"chunked" in came, came.endswith(b"\r\n\r\nonetwo")) == (False, True)
    assert (await web.said(get("/one", version="1.0"))).endswith(b"GET /one?")


async def test_a_head_and_an_answer_without_content_have_no_body(web: Running) -> None:
    head = await web.said(get("/one", method="HEAD") + get("/empty") + get("/two", CLOSE))
    assert statuses(head) == [200, 204, 200]
    assert (head.count(b"content-length"), b"HEAD /one" in head) == (2, False)


async def test_a_fault_is_told_without_its_details_and_closes(web: Running) -> None:
    for path in ("/bug", "/silence"):
        came = await web.said(get(path))
        assert (statuses(came), came.endswith(b"\r\n\r\nInternal Server Error")) == ([500], True)
    assert web.house.log.faults == ["request failed"] * 2


# Bodies


async def test_a_body_in_pieces_is_put_together(web: Running) -> None:
    body = bytes(range(256)) * 300
    whole = post("/body", body, CLOSE)
    pieces = [whole[n : n + 7001] for n in range(0, len(whole), 7001)]
    assert b"76800 bytes" in await web.said(*pieces)


async def test_a_chunked_body_is_read_and_its_trailers_are_no_headers(web: Running) -> None:
    request = get("/body", b"Transfer-Encoding: chunked", CLOSE, method="POST")
    chunks = b"5;x=y\r\nhello\r\n6\r\n 12345\r\n0\r\nAuthorization: Bearer x\r\n\r\n"
    assert b"11 bytes hello 1234" in await web.said(request + chunks)
    seen = await web.said(get("/headers", b"Transfer-Encoding: chunked", CLOSE, method="POST") + chunks)
    assert b"Bearer" not in seen


async def test_the_body_is_asked_for_where_the_client_waits_for_that(web: Running) -> None:
    reader, writer = await web.connect()
    writer.write(get("/body", b"Expect: 100-continue", b"Content-Length: 2", CLOSE, method="POST"))
    async with asyncio.timeout(SECONDS):
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"hi")
        assert b"2 bytes hi" in await reader.read()
    writer.close()


async def test_a_body_that_is_too_large_or_not_wanted_does_not_harm_what_follows(web: Running) -> None:
    huge = b"x" * (BODY_MOST * 5)
    came = await web.said(post("/body", huge) + post("/unread", huge) + get("/last", CLOSE))
    assert statuses(came) == [413, 200, 200]


async def test_a_client_that_leaves_in_its_body_is_noticed(web: Running) -> None:
    reader, writer = await web.connect()
    writer.write(get("/body", b"Content-Length: 10", method="POST") + b"abc")
    writer.write_eof()
    async with asyncio.timeout(SECONDS):
        assert await reader.read() in (b"", b"x")
    writer.close()


async def test_who_holds_is_told_that_the_caller_left(web: Running) -> None:
    _, writer = await web.connect()
    writer.write(get("/hold"))
    await writer.drain()
    writer.close()
    async with asyncio.timeout(SECONDS):
        await web.house.left.wait()


# Hostile clients

SMUGGLED = {
    "two lengths": [b"Content-Length: 3", b"Content-Length: 4"],
    "a length and chunks": [b"Content-Length: 3", b"Transfer-Encoding: chunked"],
    "chunks and a length": [b"Transfer-Encoding: chunked", b"Content-Length: 3"],
    "a length that is none": [b"Content-Length: +3"],
    "a negative length": [b"Content-Length: -3"],
    "a length beyond all": [b"Content-Length: 99999999999999999999999"],
    "chunks that are not the last coding": [b"Transfer-Encoding: chunked, gzip"],
    "a space before the colon": [b"Content-Length : 3"],
    "a folded header": [b"X-A: b", b" c: d"],
    "a control character": [b"X-A: b\x01c"],
    "a nul": [b"X-A: b\0c"],
    "a bare carriage return": [b"X-A: b\rContent-Length: 3"],
    "a name that is none": [b"X A: b"],
}


@pytest.mark.parametrize("headers", SMUGGLED.values(), ids=SMUGGLED)
async def test_a_request_that_two_readers_could_read_differently_is_refused(
    web: Running, headers: list[bytes]
) -> None:
    came = await web.said(get("/body", *headers, method="POST") + b"abc" + get("/smuggled"))
    assert statuses(came) == [400]
    assert b"connection: close" in came
    assert "GET /smuggled" not in web.house.seen


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET / HTTP/1.1\nHost: x\n\n",
        b"GET / HTTP/3.7\r\nHost: x\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
async def test_what_is_no_http_is_refused(web: Running, request_bytes: bytes) -> None:
    assert statuses(await web.said(request_bytes)) == [400]
    assert web.house.seen == []


async def test_nonsense_behind_a_request_is_refused_after_its_answer(web: Running) -> None:
    came = await web.said(get("/slow") + b"nonsense\r\n\r\n")
    assert statuses(came) == [200, 400]
    assert came.index(b"\r\n\r\nslow") < came.index(b"HTTP/1.1 400")


async def test_a_broken_chunk_ends_the_request_and_the_connection(web: Running) -> None:
    request = get("/body", b"Transfer-Encoding: chunked", method="POST")
    came = await web.said(request, b"5\r\nhello\r\n", b"zz\r\n")
    assert (statuses(came), b"not whole" in came, b"connection: close" in came) == ([400], True, True)


@pytest.mark.parametrize("pieces", [1, 40])
@pytest.mark.parametrize(
    "head",
    [
        get("/" + "x" * connection.HEAD_MOST_BYTES),
        get("/", b"X-Long: " + b"x" * connection.HEAD_MOST_BYTES),
        get("/", *(b"X-%d: y" % n for n in range(connection.HEADERS_MOST + 1))),
    ],
    ids=["target", "header", "headers"],
)
async def test_a_head_that_is_too_large_is_refused(web: Running, head: bytes, pieces: int) -> None:
    size = len(head) // pieces + 1
    came = await web.said(*(head[n : n + size] for n in range(0, len(head), size)))
    assert statuses(came) == [431]
    assert web.house.seen == []


async def test_a_head_that_never_ends_is_refused_before_it_is_held(web: Running) -> None:
    assert statuses(await web.said(b"GET / HTTP/1.1\r\nX-Long: ", *[b"x" * 4096] * 40)) == [431]


async def test_trailers_that_never_end_are_refused(web: Running) -> None:
    request = get("/body", b"Transfer-Encoding: chunked", method="POST")
    assert statuses(await web.said(request, b"0\r\n", *[b"X-A: bcd\r\n" * 500] * 40)) == [400]


async def test_too_many_requests_before_the_first_answer_are_refused(web: Running) -> None:
    came = await web.said(get("/slow") + get("/a") * (connection.WAITING_MOST * 3))
    assert set(statuses(came)[:-1]) <= {200}
    assert statuses(came)[-1] == 400
    assert len(web.house.seen) <= connection.WAITING_MOST + 1


async def test_a_client_that_is_slow_to_ask_is_not_waited_for(
    own_web: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front, "REQUEST_SECONDS", 0.1)
    assert await own_web.said() == b""
    # A byte now and then does not help.
    reader, writer = await own_web.connect()
    async with asyncio.timeout(SECONDS):
        with contextlib.suppress(ConnectionError):
            for byte in get("/one", *[b"X-Slow: yes"] * 100):
                writer.write(bytes([byte]))
                await asyncio.sleep(0.005)
                if reader.at_eof():
                    break
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
    writer.close()
    assert own_web.house.seen == []


async def test_a_body_that_comes_slowly_may_take_its_time(
    own_web: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front, "REQUEST_SECONDS", 0.3)
    early = socket.create_connection(("127.0.0.1", own_web.port))
    # The head is there before the server first looks: only the body is slow.
    early.sendall(get("/body", b"Content-Length: 10", CLOSE, method="POST"))
    reader, writer = await asyncio.open_connection(sock=early)
    for byte in b"0123456789":
        writer.write(bytes([byte]))
        await asyncio.sleep(0.06)
    async with asyncio.timeout(SECONDS):
        assert b"10 bytes" in await reader.read()
    writer.close()


async def test_a_body_has_one_deadline_however_it_trickles(
    own_web: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front, "UPLOAD_SECONDS", 0.2)
    reader, writer = await own_web.connect()
    writer.write(get("/body", b"Content-Length: 10000", method="POST"))
    async with asyncio.timeout(SECONDS):
        with contextlib.suppress(ConnectionError):
            while not reader.at_eof():
                writer.write(b"x")
                await asyncio.sleep(0.01)
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        (get("/one", b"Host: y"), b"one Host header"),
        (get("/one", b"Authorization: Bearer a", b"authorization: Bearer b"), b"one Authorization header"),
        (b"GET /one HTTP/1.1\r\n\r\n", b"has a Host header"),
        (get("/ws", *UPGRADE, b"Content-Length: 5"), b"has no body"),
        (get("/ws", *UPGRADE, b"Transfer-Encoding: chunked"), b"has no body"),
    ],
    ids=["two hosts", "two credentials", "no host", "socket with a length", "socket with chunks"],
)
async def test_what_two_readers_could_understand_differently_is_refused(
    web: Running, request_: bytes, sentence: bytes
) -> None:
    came = await web.said(request_)
    assert (statuses(came), sentence in came) == ([400], True)
    assert web.house.seen == []


async def test_an_old_client_needs_no_host(web: Running) -> None:
    assert statuses(await web.said(b"GET /one HTTP/1.0\r\n\r\n")) == [200]


async def test_connections_of_one_address_have_a_cap_and_its_refusal_says_so(own_web: Running) -> None:
    own_web.house.edge = Edge(max_connections=3)
    held = [await own_web.connect() for _ in range(3)]
    for _reader, writer in held:
        writer.write(get("/hold"))
    came = await own_web.said()
    assert (statuses(came), b"has 3 connections" in came) == ([429], True)
    held[0][1].close()
    async with asyncio.timeout(SECONDS):
        await own_web.house.left.wait()
        while statuses(await own_web.said(get("/one", CLOSE))) != [200]:
            """The server has not seen yet that the connection is closed."""


async def test_a_large_answer_is_written_as_fast_as_it_is_taken(web: Running) -> None:
    came = await web.said(get("/large") + get("/one", CLOSE))
    assert statuses(came) == [200, 200]
    assert came.count(b"l") >= LARGE
    assert b"content-length: %d" % LARGE in came


async def test_a_connection_that_rests_is_closed(own_web: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "REST_SECONDS", 0.1)
    came = await own_web.said(get("/one"))
    assert statuses(came) == [200]


async def test_a_client_that_takes_nothing_is_hung_up_on(
    own_web: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front, "STALLED_SECONDS", 0.1)
    with socket.create_connection(("127.0.0.1", own_web.port)) as stuck:
        stuck.sendall(get("/endless"))
        async with asyncio.timeout(SECONDS):
            await own_web.house.closed.wait()


async def test_an_upgrade_to_something_unknown_is_answered_and_the_connection_closed(web: Running) -> None:
    upgrade = get("/one", b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: x")
    came = await web.said(upgrade + get("/two"))
    assert (statuses(came), b"connection: close" in came) == ([200], True)
    assert web.house.seen == ["GET /one"]


async def test_no_proxy_is_served(web: Running) -> None:
    assert statuses(await web.said(b"CONNECT evil:443 HTTP/1.1\r\nHost: evil:443\r\n\r\n")) == [400]
    assert b"GET /a?b" in await web.said(get("http://x/a?b#c", CLOSE))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    requests=st.lists(
        st.sampled_from([get("/b"), get("/a"), post("/body", b"hello" * 50), get("/slow")]), max_size=4
    ),
    cuts=st.lists(st.integers(0, 2000), max_size=6),
)
async def test_where_the_bytes_are_cut_makes_no_difference(
    web: Running, requests: list[bytes], cuts: list[int]
) -> None:
    whole = b"".join(requests) + get("/end", CLOSE)
    places = [0, *sorted(cut % len(whole) for cut in cuts), len(whole)]
    pieces = [whole[a:b] for a, b in zip(places, places[1:], strict=False) if a < b]
    came = await web.said(*pieces)
    assert statuses(came) == [200] * (len(requests) + 1)
    assert came.endswith(b"GET /end?")


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(noise=st.binary(max_size=200), place=st.integers(0, 60))
async def test_noise_never_stops_the_server(web: Running, noise: bytes, place: int) -> None:
    request = post("/body", b"hello", CLOSE)
    reader, writer = await web.connect()
    writer.write(request[:place] + noise + request[place:])
    writer.write_eof()
    async with asyncio.timeout(SECONDS):
        with contextlib.suppress(ConnectionError):
            await reader.read()
    writer.close()
    assert statuses(await web.said(get("/one", CLOSE))) == [200]
    assert web.house.log.faults == []


# Streams


async def test_a_stream_says_what_it_has_and_then_waits_for_its_call(web: Running) -> None:
    reader, writer = await web.connect()
    ticker = web.house.ticker
    writer.write(get("/follow"))
    async with asyncio.timeout(SECONDS):
        await reader.readuntil(b"\r\n\r\n")
        for chunk in (b"one", b"later two", b"three"):
            ticker.say(chunk)
            assert await reader.readuntil(b"\r\n" + chunk + b"\r\n")
        ticker.say(b"four", b"later five", b"six", None)
        assert (
            await reader.readuntil(b"0\r\n\r\n") == b"4\r\nfour\r\na\r\nlater five\r\n3\r\nsix\r\n0\r\n\r\n"
        )
        assert (ticker.is_closed, ticker.ended.is_set()) == (True, True)
        writer.write(get("/one"))
        assert (await reader.read(65536)).endswith(b"GET /one?")
    writer.close()


async def test_a_stream_is_let_go_when_its_listener_leaves(web: Running) -> None:
    reader, writer = await web.connect()
    writer.write(get("/follow"))
    async with asyncio.timeout(SECONDS):
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.abort()
        await web.house.ticker.ended.wait()
    assert web.house.ticker.is_closed


async def test_a_request_behind_a_stream_is_answered_after_it(web: Running) -> None:
    reader, writer = await web.connect()
    writer.write(get("/follow") + get("/one", CLOSE))
    async with asyncio.timeout(SECONDS):
        await reader.readuntil(b"\r\n\r\n")
        web.house.ticker.say(b"x", None)
        came = await reader.read()
    assert came.startswith(b"1\r\nx\r\n0\r\n\r\nHTTP/1.1 200")
    writer.close()


async def test_a_slow_listener_is_not_told_faster_than_it_listens(web: Running) -> None:
    reader, writer = await web.connect()
    ticker = web.house.ticker
    writer.write(get("/follow"))
    async with asyncio.timeout(SECONDS):
        await reader.readuntil(b"\r\n\r\n")
        ticker.say(*[b"y" * 65536] * 400, None)
        await asyncio.sleep(0.1)
        assert len(ticker.waiting) > 100
        came = b""
        while not came.endswith(b"0\r\n\r\n"):
            came = came[-10:] + await reader.read(1 << 20)
    assert ticker.ended.is_set()
    writer.close()


async def test_a_stop_waits_for_what_is_under_way_and_closes_what_rests(own_web: Running) -> None:
    resting_reader, _ = await own_web.connect()
    reader, writer = await own_web.connect()
    writer.write(get("/follow"))
    async with asyncio.timeout(SECONDS):
        await reader.readuntil(b"\r\n\r\n")
        own_web.server.should_exit = True
        assert await resting_reader.read() == b""
        own_web.house.ticker.say(b"bye", None)
        assert (await reader.read()).endswith(b"bye\r\n0\r\n\r\n")
