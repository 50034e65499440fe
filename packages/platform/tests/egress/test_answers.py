"""However an answer is cut on its way, it is read as the same answer."""

import asyncio
import itertools
import socket
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_platform.egress.connection import MAX_HEAD_BYTES, ClientConnection
from molecule_platform.egress.errors import NoResponse

Heard = tuple[int, list[tuple[bytes, bytes]], bytes] | str


async def _heard(pieces: Sequence[bytes], ends: bool) -> Heard:
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    with theirs:
        _, connection = await loop.create_connection(lambda: ClientConnection(ours, loop, set()), sock=ours)
        connection.send(b"POST", loop.time() + 60, 1_000_000, "the agent")
        for piece in pieces:
            connection.data_received(piece)
        if ends:
            connection.eof_received()
        try:
            async with asyncio.timeout(0):
                await connection.head()
                return connection.status, connection.headers, await connection.read_all()
        except NoResponse as problem:
            return str(problem)
        except TimeoutError:
            return "still waiting"
        finally:
            connection.close()
            await asyncio.sleep(0)
            await asyncio.sleep(0)


def heard(*pieces: bytes, ends: bool = True) -> Heard:
    return asyncio.run(_heard(pieces, ends))


def cut(raw: bytes, places: Sequence[int]) -> list[bytes]:
    edges = [0, *sorted({place % (len(raw) + 1) for place in places}), len(raw)]
    return [raw[start:end] for start, end in itertools.pairwise(edges) if end > start]


def chunked(body: bytes, sizes: Sequence[int], trailer: bytes) -> bytes:
    raw = b""
    for size in (*sizes, len(body)):
        piece, body = body[:size], body[size:]
        raw += b"%x;ext=1\r\n%s\r\n" % (len(piece), piece) if piece else b""
    return raw + b"0\r\n" + trailer + b"\r\n"


@st.composite
def answers(draw: st.DrawFn) -> tuple[bytes, int, bytes]:
    """A sound answer, its status and its body."""
    status = draw(st.sampled_from([200, 201, 302, 400, 404, 500, 503]))
    body = draw(st.binary(max_size=60))
    interim = draw(
        st.sampled_from([b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 X\r\nA: b\r\n\r\n"])
    )
    head = interim + b"HTTP/1.1 %d X\r\nServer: x\r\n" % status
    match draw(st.sampled_from(["length", "chunked", "close"])):
        case "length":
            return head + b"Content-Length: %d\r\n\r\n" % len(body) + body, status, body
        case "chunked":
            sizes = draw(st.lists(st.integers(1, 20), max_size=4))
            trailer = draw(st.sampled_from([b"", b"X-Late: 1\r\n"]))
            coded = chunked(body, sizes, trailer)
            return head + b"Transfer-Encoding: chunked\r\n\r\n" + coded, status, body
        case _:
            return head + b"\r\n" + body, status, body


places = st.lists(st.integers(0, 400), max_size=8)


@given(answer=answers(), places=places)
def test_a_sound_answer_is_read_whole_wherever_it_is_cut(
    answer: tuple[bytes, int, bytes], places: list[int]
) -> None:
    raw, status, body = answer
    found = heard(*cut(raw, places))
    assert not isinstance(found, str)
    assert (found[0], found[2]) == (status, body)
    assert (b"Server", b"x") in found[1]
    assert b"X-Late" not in dict(found[1])
    assert b"A" not in dict(found[1])


@given(
    answer=answers(), places=places, spoilt=st.binary(max_size=4), at=st.integers(0, 400), ends=st.booleans()
)
def test_a_spoilt_answer_is_read_alike_wherever_it_is_cut(
    answer: tuple[bytes, int, bytes], places: list[int], spoilt: bytes, at: int, ends: bool
) -> None:
    raw, _, _ = answer
    at = at % (len(raw) + 1)
    wrong = raw[:at] + spoilt + raw[at + len(spoilt) :]
    assert heard(*cut(wrong, places), ends=ends) == heard(wrong, ends=ends)


@given(answer=answers(), at=st.integers(0, 400))
def test_an_answer_that_breaks_off_is_never_taken_for_a_whole_one(
    answer: tuple[bytes, int, bytes], at: int
) -> None:
    raw, status, body = answer
    found = heard(raw[: at % len(raw)])
    if isinstance(found, str):
        assert found == "the connection to the agent broke"
        return
    # Only an answer that ends with its connection can be shorter than it was meant to be.
    assert found[0] == status
    assert found[2] == body or b"Content-Length" not in raw and b"chunked" not in raw


@given(st.binary(max_size=200), places)
def test_no_bytes_whatever_break_the_reading_of_them(raw: bytes, places: list[int]) -> None:
    assert heard(*cut(raw, places)) == heard(raw)


@pytest.mark.parametrize("status", [204, 304])
@pytest.mark.parametrize("length", [b"", b"Content-Length: 5\r\n"])
def test_an_answer_without_a_body_by_its_status_does_not_wait_for_one(status: int, length: bytes) -> None:
    found = heard(b"HTTP/1.1 %d X\r\n%s\r\n" % (status, length), ends=False)
    assert not isinstance(found, str)
    assert (found[0], found[2]) == (status, b"")


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 200 X\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 X\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        b"HTTP/1.1 200 X\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabcd",
        b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nabcd",
        b"HTTP/1.1 200 X\r\nno colon here\r\n\r\n",
    ],
)
def test_what_is_no_http_is_called_so(raw: bytes) -> None:
    assert heard(raw, ends=False) == "the agent did not answer in HTTP"


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 X\r\n" + b"A: b\r\n" * MAX_HEAD_BYTES,
        b"HTTP/1.1 200 X\r\nA: " + b"b" * MAX_HEAD_BYTES,
        b"HTTP/1.1 200 " + b"x" * MAX_HEAD_BYTES,
        b"HTTP/1.1 100 X\r\n\r\n" * MAX_HEAD_BYTES,
        b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"A: b\r\n" * MAX_HEAD_BYTES,
    ],
)
@pytest.mark.parametrize("size", [1000, 10_000_000])
def test_a_head_or_its_tail_without_an_end_is_given_up(raw: bytes, size: int) -> None:
    pieces = [raw[start : start + size] for start in range(0, len(raw), size)]
    found = heard(*pieces, ends=False)
    assert found == f"the agent answered with a head of more than {MAX_HEAD_BYTES} bytes"


def test_headers_keep_every_byte_of_their_values() -> None:
    found = heard(b"HTTP/1.1 200 X\r\nRetry-After: \xb2\r\nContent-Length: 0\r\n\r\n")
    assert not isinstance(found, str)
    assert found[1][0] == (b"Retry-After", b"\xb2")
