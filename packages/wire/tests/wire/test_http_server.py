"""HTTP/1.1 over real sockets: requests in order, responses in their framing, hostile clients refused."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from molecule_a2a import AgentApp, Deadlines, PortTaken, Turn, asgi, bind
from molecule_a2a.http_server import connection
from molecule_a2a.http_server.framing import MAX_HEAD_BYTES, MAX_HEADERS
from molecule_a2a.http_server.server import MAX_FRAME_BYTES
from packages.wire.tests.wire.http_servers import (
    CLOSE,
    LARGE_BYTES,
    MAX_BODY_BYTES,
    SECONDS,
    UPGRADE,
    Running,
    get,
    post,
    serve,
    statuses,
)

PING, CLOSE_FRAME = 0x89, 0x88


@pytest.fixture(scope="module")
async def shared_web() -> AsyncIterator[Running]:
    async with serve(websockets=True) as web:
        yield web


@pytest.fixture
async def web(shared_web: Running) -> AsyncIterator[Running]:
    """A server that has seen no request. Stopping one takes 0.2 s, so the tests share it."""
    shared_web.app.reset()
    yield shared_web
    shared_web.app.left.set()
    shared_web.app.chunks.put_nowait(None)
    await shared_web.close()


# Responses


async def test_responses_come_in_the_order_of_the_requests(web: Running) -> None:
    received = await web.exchange(get("/slow"), get("/b"), get("/three?a=%20", CLOSE))
    assert statuses(received) == [200] * 3
    ends = [received.index(words) for words in (b"\r\n\r\nslow", b"GET /b?", b"GET /three?a=%20")]
    assert ends == sorted(ends)
    assert received.count(b"content-length: ") == received.count(b"date: ") == 3


async def test_pipelined_requests_in_one_segment_are_answered_in_order(web: Running) -> None:
    many = [get(f"/{n}" if n % 3 else "/b") for n in range(50)]
    received = await web.exchange(b"".join([*many, get("/last", CLOSE)]))
    assert statuses(received) == [200] * 51
    places = [received.index(b"GET /%d?" % n) for n in range(50) if n % 3]
    assert places == sorted(places)


async def test_a_response_without_a_length_is_chunked(web: Running) -> None:
    received = await web.exchange(get("/pieces", CLOSE))
    assert b"transfer-encoding: chunked" in received
    assert received.endswith(b"\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")


async def test_an_http_1_0_client_gets_no_chunks_and_a_closed_connection(web: Running) -> None:
    received = await web.exchange(get("/pieces", version="1.0"))
    assert (b"chunked" in received, received.endswith(b"\r\n\r\nonetwo")) == (False, True)
    assert (await web.exchange(get("/one", version="1.0"))).endswith(b"GET /one?")
    assert statuses(await web.exchange(b"GET /one HTTP/1.0\r\n\r\n")) == [200]


async def test_head_and_204_have_no_body(web: Running) -> None:
    received = await web.exchange(get("/one", method="HEAD") + get("/empty") + get("/two", CLOSE))
    assert statuses(received) == [200, 204, 200]
    assert (received.count(b"content-length"), b"HEAD /one" in received) == (2, False)


async def test_a_fault_of_the_application_is_500_without_details(web: Running) -> None:
    for path in ("/bug", "/silence"):
        received = await web.exchange(get(path))
        assert (statuses(received), received.endswith(b"\r\n\r\nInternal Server Error")) == ([500], True)


async def test_a_large_response_is_written_as_fast_as_it_is_read(web: Running) -> None:
    received = await web.exchange(get("/large") + get("/one", CLOSE))
    assert statuses(received) == [200, 200]
    assert received.count(b"l") >= LARGE_BYTES


async def test_an_agent_answers_head_without_a_body(web: Running) -> None:
    async def greet(turn: Turn) -> str:
        return "hello"

    path = "/.well-known/agent-card.json"
    async with serve(AgentApp(greet, {"name": "a"}, url="http://127.0.0.1/")) as agent:
        received = await agent.exchange(get(path, method="HEAD") + get(path) + get("/healthz", CLOSE))
    head, card, health = received.split(b"HTTP/1.1 200 OK\r\n")[1:]
    assert head.endswith(b"\r\n\r\n")
    length = next(line for line in head.split(b"\r\n") if line.startswith(b"content-length"))
    assert length == b"content-length: %d" % len(card.split(b"\r\n\r\n", 1)[1])
    assert health.endswith(b'{"status":"ok"}')


# Bodies


async def test_a_body_in_pieces_is_put_together(web: Running) -> None:
    body = bytes(range(256)) * 300
    whole = post("/body", body, CLOSE)
    pieces = [whole[n : n + 7001] for n in range(0, len(whole), 7001)]
    assert b"76800 bytes" in await web.exchange(*pieces)


async def test_trailers_are_no_headers(web: Running) -> None:
    chunks = b"5;x=y\r\nhello\r\n6\r\n 12345\r\n0\r\nAuthorization: Bearer x\r\n\r\n"
    request = get("/body", b"Transfer-Encoding: chunked", CLOSE, method="POST")
    assert b"11 bytes hello 1234" in await web.exchange(request + chunks)
    request = get("/headers", b"Transfer-Encoding: chunked", CLOSE, method="POST")
    assert b"Bearer" not in await web.exchange(request + chunks)


async def test_a_client_that_expects_100_is_told_to_send_its_body(web: Running) -> None:
    reader, writer = await web.connect()
    writer.write(get("/body", b"Expect: 100-continue", b"Content-Length: 2", CLOSE, method="POST"))
    async with asyncio.timeout(SECONDS):
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"hi")
        assert b"2 bytes hi" in await reader.read()


async def test_a_final_response_instead_of_100_closes_the_connection(web: Running) -> None:
    request = get("/unread", b"Expect: 100-continue", b"Content-Length: 50", method="POST")
    received = await web.exchange(request + get("/smuggled"))
    assert (statuses(received), b"connection: close" in received) == ([200], True)
    assert web.app.requests == ["POST /unread"]


async def test_an_unread_body_does_not_harm_what_follows(web: Running) -> None:
    huge = b"x" * (MAX_BODY_BYTES * 5)
    received = await web.exchange(post("/body", huge) + post("/unread", huge) + get("/last", CLOSE))
    assert statuses(received) == [413, 200, 200]


async def test_an_early_response_reaches_a_client_that_still_sends(web: Running) -> None:
    reader, writer = await web.connect()
    writer.write(get("/unread", b"Content-Length: 10000000", CLOSE, method="POST") + b"x" * 1_000_000)
    async with asyncio.timeout(SECONDS):
        assert (await reader.read()).endswith(b"not read")


async def test_a_disconnect_reaches_the_application(web: Running) -> None:
    _, writer = await web.connect()
    writer.write(get("/hold"))
    await writer.drain()
    writer.close()
    async with asyncio.timeout(SECONDS):
        await web.app.left.wait()
    assert asgi.is_disconnected(web.app.scope)


async def test_a_disconnect_reaches_a_stream_with_a_request_behind_it(web: Running) -> None:
    reader, writer = await web.connect()
    writer.write(get("/follow") + get("/one"))
    async with asyncio.timeout(SECONDS):
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.abort()
        await web.app.closed.wait()


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
async def test_ambiguous_framing_is_refused(web: Running, headers: list[bytes]) -> None:
    received = await web.exchange(get("/body", *headers, method="POST") + b"abc" + get("/smuggled"))
    assert statuses(received) == [400]
    assert b"connection: close" in received
    assert "GET /smuggled" not in web.app.requests


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET / HTTP/1.1\nHost: x\n\n",
        b"GET / HTTP/3.7\r\nHost: x\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"CONNECT evil:443 HTTP/1.1\r\nHost: evil:443\r\n\r\n",
        get("ftp://x/a"),
    ],
)
async def test_bytes_that_are_no_request_are_refused(web: Running, request_bytes: bytes) -> None:
    assert statuses(await web.exchange(request_bytes)) == [400]
    assert web.app.requests == []


@pytest.mark.parametrize(
    ("request_bytes", "status", "text"),
    [
        (get("/one", b"Host: y"), 400, b"one Host header"),
        (get("/one", b"Authorization: a", b"authorization: b"), 400, b"one Authorization header"),
        (get("/one", b"X-Molecule-Caller: a", b"X-Molecule-Caller: b"), 400, b"one X-Molecule-Caller"),
        (b"GET /one HTTP/1.1\r\n\r\n", 400, b"one Host header"),
        (get("/body", b"Transfer-Encoding: gzip, chunked", method="POST"), 501, b"transfer coding"),
        (get("/body", b"Transfer-Encoding: chunked", method="POST", version="1.0"), 400, b"has no chunks"),
        (get("http://evil/one"), 421, b"another host"),
        (get("/ws", *UPGRADE, b"Content-Length: 5"), 400, b"has no body"),
        (get("/ws", *UPGRADE, b"Transfer-Encoding: chunked"), 400, b"has no body"),
        (get("/ws", *UPGRADE) + b"x", 400, b"before the WebSocket is accepted"),
        (get("/ws?a=" + "b" * 9000, *UPGRADE), 414, b"WebSocket"),
        (get("/ws", *UPGRADE, b"X-Long: " + b"b" * 9000), 431, b"WebSocket"),
    ],
)
async def test_a_refusal_says_why(web: Running, request_bytes: bytes, status: int, text: bytes) -> None:
    received = await web.exchange(request_bytes)
    assert (statuses(received), text in received) == ([status], True)
    assert web.app.requests == []


async def test_an_absolute_target_of_this_host_is_served(web: Running) -> None:
    assert b"GET /a?b" in await web.exchange(get("http://x/a?b#c", CLOSE))


async def test_garbage_behind_a_request_is_refused_after_its_response(web: Running) -> None:
    received = await web.exchange(get("/slow") + b"garbage\r\n\r\n")
    assert statuses(received) == [200, 400]
    assert received.index(b"\r\n\r\nslow") < received.index(b"HTTP/1.1 400")


async def test_a_broken_chunk_ends_the_request_and_the_connection(web: Running) -> None:
    request = get("/body", b"Transfer-Encoding: chunked", method="POST")
    received = await web.exchange(request, b"5\r\nhello\r\n", b"zz\r\n")
    assert (statuses(received), b"connection: close" in received) == ([400], True)


@pytest.mark.parametrize("pieces", [1, 40])
@pytest.mark.parametrize(
    "head",
    [
        get("/" + "x" * MAX_HEAD_BYTES),
        get("/", b"X-Long: " + b"x" * MAX_HEAD_BYTES),
        get("/", *(b"X-%d: y" % n for n in range(MAX_HEADERS + 1))),
        b"GET / HTTP/1.1\r\nX-Long: " + b"x" * 4096 * 40,
    ],
    ids=["target", "header", "headers", "endless"],
)
async def test_a_head_that_is_too_large_is_refused(web: Running, head: bytes, pieces: int) -> None:
    size = len(head) // pieces + 1
    received = await web.exchange(*(head[n : n + size] for n in range(0, len(head), size)))
    assert statuses(received) == [431]
    assert web.app.requests == []


async def test_endless_trailers_are_refused(web: Running) -> None:
    request = get("/body", b"Transfer-Encoding: chunked", method="POST")
    assert statuses(await web.exchange(request, b"0\r\n", *[b"X-A: bcd\r\n" * 500] * 40)) == [400]


async def test_pipelined_requests_have_a_cap(web: Running) -> None:
    received = await web.exchange(get("/slow") + get("/a") * (connection.MAX_PIPELINED_REQUESTS * 3))
    assert set(statuses(received)[:-1]) <= {200}
    assert statuses(received)[-1] == 400
    assert len(web.app.requests) <= connection.MAX_PIPELINED_REQUESTS + 1


async def test_an_unknown_upgrade_is_answered_as_http_and_closes(web: Running) -> None:
    upgrade = get("/one", b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: x")
    received = await web.exchange(upgrade + get("/two"))
    assert (statuses(received), b"connection: close" in received) == ([200], True)
    assert web.app.requests == ["GET /one"]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    requests=st.lists(
        st.sampled_from([get("/b"), get("/a"), post("/body", b"hello" * 50), get("/slow")]), max_size=4
    ),
    cuts=st.lists(st.integers(0, 2000), max_size=6),
)
async def test_segment_boundaries_make_no_difference(
    web: Running, requests: list[bytes], cuts: list[int]
) -> None:
    whole = b"".join(requests) + get("/end", CLOSE)
    places = [0, *sorted(cut % len(whole) for cut in cuts), len(whole)]
    pieces = [whole[a:b] for a, b in zip(places, places[1:], strict=False) if a < b]
    received = await web.exchange(*pieces)
    assert statuses(received) == [200] * (len(requests) + 1)
    assert received.endswith(b"GET /end?")


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(noise=st.binary(max_size=200), place=st.integers(0, 60))
async def test_noise_never_stops_the_server(
    web: Running, caplog: pytest.LogCaptureFixture, noise: bytes, place: int
) -> None:
    request = post("/body", b"hello", CLOSE)
    reader, writer = await web.connect()
    writer.write(request[:place] + noise + request[place:])
    writer.write_eof()
    async with asyncio.timeout(SECONDS):
        with contextlib.suppress(ConnectionError):
            await reader.read()
    writer.close()
    assert statuses(await web.exchange(get("/one", CLOSE))) == [200]
    assert not [record for record in caplog.records if record.name in ("asyncio", "uvicorn.error")]


# Streams


async def test_a_stream_is_sent_chunk_by_chunk_and_the_connection_goes_on(web: Running) -> None:
    reader, writer = await web.connect()
    writer.write(get("/follow"))
    async with asyncio.timeout(SECONDS):
        await reader.readuntil(b"\r\n\r\n")
        for chunk in (b"one", b"two", b"three"):
            web.app.chunks.put_nowait(chunk)
            assert await reader.readuntil(b"\r\n" + chunk + b"\r\n")
        web.app.chunks.put_nowait(None)
        assert await reader.readuntil(b"0\r\n\r\n") == b"0\r\n\r\n"
        writer.write(get("/one", CLOSE))
        assert (await reader.read()).endswith(b"GET /one?")


async def test_a_slow_reader_holds_the_stream_back(web: Running) -> None:
    reader, writer = await web.connect()
    writer.write(get("/follow"))
    async with asyncio.timeout(SECONDS):
        await reader.readuntil(b"\r\n\r\n")
        for chunk in [*[b"y" * 65536] * 400, None]:
            web.app.chunks.put_nowait(chunk)
        await asyncio.sleep(0.1)
        assert web.app.chunks.qsize() > 100
        received = b""
        while not received.endswith(b"0\r\n\r\n"):
            received = received[-10:] + await reader.read(1 << 20)


async def test_a_stop_finishes_open_responses_and_closes_idle_connections() -> None:
    async with serve() as web:
        idle, _ = await web.connect()
        reader, writer = await web.connect()
        writer.write(get("/follow"))
        async with asyncio.timeout(SECONDS):
            await reader.readuntil(b"\r\n\r\n")
            stopping = asyncio.ensure_future(web.server.stop(SECONDS))
            assert await idle.read() == b""
            web.app.chunks.put_nowait(b"bye")
            web.app.chunks.put_nowait(None)
            assert (await reader.read()).endswith(b"bye\r\n0\r\n\r\n")
            await stopping
        with pytest.raises(OSError, match="Connect"):
            await web.connect()


async def test_a_stop_cuts_off_what_does_not_end() -> None:
    async with serve() as web:
        reader, writer = await web.connect()
        writer.write(get("/follow"))
        async with asyncio.timeout(SECONDS):
            await reader.readuntil(b"\r\n\r\n")
            await web.server.stop(0.1)
            with contextlib.suppress(ConnectionError):
                await reader.read()


# Deadlines


async def test_requests_that_outlast_every_deadline_complete_however_they_are_cut() -> None:
    deadlines = Deadlines(head=0.3, body=0.3, upload=0.5, idle=0.3, write=0.3)
    whole = post("/late?0.9", b"0123456789", CLOSE)
    async with serve(deadlines=deadlines) as web:

        async def send_cut(place: int) -> bytes:
            return await web.exchange(whole[:place], whole[place:])

        received = await asyncio.gather(*map(send_cut, range(1, len(whole))))
    assert [statuses(one) for one in received] == [[200]] * (len(whole) - 1)
    assert all(one.endswith(b"10 bytes") for one in received)


async def test_a_slow_head_is_closed_and_single_bytes_do_not_extend_its_deadline() -> None:
    async with serve(deadlines=Deadlines(head=0.2)) as web:
        assert await web.exchange() == b""
        reader, writer = await web.connect()
        async with asyncio.timeout(SECONDS):
            with contextlib.suppress(ConnectionError):
                for byte in get("/one", *[b"X-Slow: yes"] * 100):
                    writer.write(bytes([byte]))
                    await asyncio.sleep(0.005)
                    if reader.at_eof():
                        break
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
        assert web.app.requests == []


async def test_a_body_may_be_slow_as_long_as_it_arrives() -> None:
    async with serve(deadlines=Deadlines(body=0.3)) as web:
        reader, writer = await web.connect()
        writer.write(get("/body", b"Content-Length: 10", CLOSE, method="POST"))
        for byte in b"0123456789":
            writer.write(bytes([byte]))
            await asyncio.sleep(0.06)
        async with asyncio.timeout(SECONDS):
            assert b"10 bytes" in await reader.read()


async def test_a_body_that_stops_is_408() -> None:
    async with serve(deadlines=Deadlines(body=0.1)) as web:
        received = await web.exchange(post("/body", b"whole").removesuffix(b"e"))
    assert (statuses(received), b"the body did not arrive in time" in received) == ([408], True)


async def test_a_body_that_stops_after_its_response_gets_no_second_one() -> None:
    async with serve(deadlines=Deadlines(body=0.1)) as web:
        received = await web.exchange(post("/unread", b"whole").removesuffix(b"e"))
        assert statuses(received) == [200]
        request = get("/unread", b"Transfer-Encoding: chunked", method="POST")
        assert statuses(await web.exchange(request, b"zz\r\n")) == [200]


async def test_an_upload_has_one_deadline_however_it_trickles() -> None:
    async with serve(deadlines=Deadlines(body=0.2, upload=0.3)) as web:
        reader, writer = await web.connect()
        writer.write(get("/body", b"Content-Length: 10000", method="POST"))
        answer = asyncio.ensure_future(reader.read())
        async with asyncio.timeout(SECONDS):
            while not answer.done():
                writer.write(b"x")
                await asyncio.sleep(0.01)
        assert statuses(answer.result()) == [408]


async def test_an_idle_connection_is_closed() -> None:
    async with serve(deadlines=Deadlines(head=0.1, idle=0.1)) as web:
        assert statuses(await web.exchange(get("/one"))) == [200]
        assert statuses(await web.exchange(get("/one") + b"GET / HT")) == [200]


async def test_a_client_that_reads_nothing_is_cut_off() -> None:
    async with serve(deadlines=Deadlines(write=0.1)) as web:
        with socket.create_connection(("127.0.0.1", web.port)) as stuck:
            stuck.sendall(get("/endless"))
            async with asyncio.timeout(SECONDS):
                await web.app.closed.wait()


async def test_a_handshake_that_is_not_answered_in_time_is_closed() -> None:
    async with serve(deadlines=Deadlines(head=0.2), websockets=True) as web:
        assert await web.exchange(get("/slow", *UPGRADE)) == b""
        reader, writer = await web.connect()
        writer.write(get("/open", *UPGRADE))
        async with asyncio.timeout(SECONDS):
            assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await reader.read()
        web.app.left.set()


# Caps


async def test_connections_of_one_address_have_a_cap_and_its_refusal_says_so() -> None:
    async with serve(max_connections=3) as web:
        held = [await web.connect() for _ in range(3)]
        for _reader, writer in held:
            writer.write(get("/hold"))
        received = await web.exchange()
        assert (statuses(received), b"has 3 connections" in received) == ([429], True)
        held[0][1].close()
        async with asyncio.timeout(SECONDS):
            await web.app.left.wait()
            while statuses(await web.exchange(get("/one", CLOSE))) != [200]:
                """The server has not seen yet that the connection is closed."""


async def test_connections_with_a_credential_count_for_their_principal() -> None:
    async with serve(max_connections=2) as web:

        async def identify(principal: str) -> tuple[int, asyncio.StreamWriter]:
            reader, writer = await web.connect()
            writer.write(get(f"/identify?{principal}"))
            async with asyncio.timeout(SECONDS):
                return statuses(await reader.readuntil(b"\r\n\r\n"))[0], writer

        # Four connections of one address are open, and none counts for the address any more.
        assert [(await identify(name))[0] for name in ("a", "a", "b", "b")] == [200] * 4
        status, _writer = await identify("a")
        assert status == 429
        assert (await identify("c"))[0] == 200


async def test_an_exempt_address_has_no_cap() -> None:
    async with serve(max_connections=1, is_exempt="127.0.0.1".__eq__) as web:
        for _ in range(5):
            _, writer = await web.connect()
            writer.write(get("/hold"))
        assert statuses(await web.exchange(get("/one", CLOSE))) == [200]


async def test_a_websocket_counts_like_the_connection_it_was() -> None:
    async with serve(max_connections=2, websockets=True) as web:
        sockets = [await web.connect() for _ in range(2)]
        for reader, writer in sockets:
            writer.write(get("/open", *UPGRADE))
            await reader.readuntil(b"\r\n\r\n")
        assert statuses(await web.exchange()) == [429]
        sockets[0][1].close()
        async with asyncio.timeout(SECONDS):
            while statuses(await web.exchange(get("/one", CLOSE))) != [200]:
                """The server has not seen yet that the connection is closed."""


async def test_a_websocket_behind_another_request_is_refused(web: Running) -> None:
    received = await web.exchange(post("/slow", b"x"), get("/ws", *UPGRADE))
    assert statuses(received) == [200, 400]


@pytest.mark.parametrize("cut", [1, 50, 120])
async def test_a_websocket_opens_however_its_handshake_is_cut(web: Running, cut: int) -> None:
    head = get("/open", *UPGRADE)
    reader, writer = await web.connect()
    for piece in (head[:cut], head[cut:]):
        writer.write(piece)
        await asyncio.sleep(0.01)
    async with asyncio.timeout(SECONDS):
        assert b" 101 " in await reader.readuntil(b"\r\n\r\n")


async def test_frames_before_the_websocket_is_accepted_close_it(web: Running) -> None:
    received = await web.exchange(get("/slow", *UPGRADE), b"\x81\x80\0\0\0\0")
    assert received == b""


async def test_an_address_in_use_is_named() -> None:
    async with serve() as web:
        with pytest.raises(PortTaken, match=f"cannot listen on 127.0.0.1:{web.port}"):
            bind("127.0.0.1", web.port)


async def test_a_disconnect_does_not_end_the_work() -> None:
    may_end, has_ended = asyncio.Event(), asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await may_end.wait()
        has_ended.set()

    async with serve(app) as web:
        _, writer = await web.connect()
        writer.write(get("/"))
        await writer.drain()
        async with asyncio.timeout(SECONDS):
            while not web.server.server_state.tasks:  # noqa: ASYNC110 - Uvicorn has no event for it
                await asyncio.sleep(0.01)
            writer.transport.abort()
            may_end.set()
            await has_ended.wait()


async def open_websocket(web: Running) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await web.connect()
    writer.write(get("/open", *UPGRADE))
    assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
    return reader, writer


async def test_a_websocket_that_answers_no_ping_is_closed() -> None:
    async with serve(websockets=True) as web:
        config = web.server.config
        assert (config.ws_ping_interval, config.ws_ping_timeout) == (20, 40)
        config.ws_ping_interval, config.ws_ping_timeout = 0.05, 0.1
        reader, _ = await open_websocket(web)
        async with asyncio.timeout(SECONDS):
            kind, length = await reader.readexactly(2)
            assert kind == PING
            await reader.readexactly(length)
            assert (await reader.readexactly(1))[0] == CLOSE_FRAME
            await reader.read()


async def test_a_frame_beyond_the_limit_closes_the_websocket(web: Running) -> None:
    reader, writer = await open_websocket(web)
    size = MAX_FRAME_BYTES + 1
    writer.write(bytes([0x81, 0xFF]) + size.to_bytes(8, "big") + b"\0\0\0\0" + b"x" * size)
    async with asyncio.timeout(SECONDS):
        kind, length = await reader.readexactly(2)
        assert kind == CLOSE_FRAME
        assert int.from_bytes((await reader.readexactly(length))[:2], "big") == 1009
