"""A stream of events is decoded the same however the network cuts it, at a constant cost per byte."""

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from molecule_wire.sse_decoder import EVENT_MAX_BYTES, EventTooLarge, SSEDecoder, SSEEvent

LINES = st.sampled_from(
    [
        b"data: a",
        b"data:b",
        b"data",
        b"data:  two spaces",
        "data: \u2028 é".encode(),
        b"event: status",
        b"event",
        b"id: 7",
        b"id",
        b"id: \0",
        b"retry: 1500",
        b"retry: soon",
        b": comment",
        b":",
        b"unknown: field",
        b"",
        b"",
    ]
)
ENDS = st.sampled_from([b"\n", b"\r", b"\r\n"])
STREAMS = st.lists(st.tuples(LINES, ENDS), max_size=20).map(
    lambda lines: b"".join(line + end for line, end in lines)
)


@given(stream=STREAMS, bom=st.booleans(), cuts=st.lists(st.integers(0, 300), max_size=12))
@example(stream=b"data: a\r\n\r\ndata: b\r\r", bom=True, cuts=list(range(300)))
def test_any_cut_of_a_stream_gives_the_same_events(stream: bytes, bom: bool, cuts: list[int]) -> None:
    whole = (b"\xef\xbb\xbf" if bom else b"") + stream
    places = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
    in_one, in_pieces = SSEDecoder(), SSEDecoder()
    events = in_one.feed(whole)
    pieces = [whole[start:end] for start, end in zip(places, places[1:], strict=False)]
    assert [event for piece in pieces for event in in_pieces.feed(piece)] == events
    assert (in_pieces.last_id, in_pieces.retry_ms) == (in_one.last_id, in_one.retry_ms)
    assert SSEDecoder().feed(_with_line_feeds(stream)) == events


def _with_line_feeds(stream: bytes) -> bytes:
    return stream.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def test_fields_are_read_as_the_standard_says() -> None:
    decoder = SSEDecoder()
    stream = b"\xef\xbb\xbfevent: x\ndata: a\ndata:b\nid: 3\nretry: 20\n\n: note\n\ndata\n\ndata:  c\nid\n\n"
    assert decoder.feed(stream) == [
        SSEEvent(b"a\nb", "x", "3"),
        SSEEvent(b"", "message", "3"),
        SSEEvent(b" c", "message", ""),
    ]
    assert decoder.retry_ms == 20


def test_an_event_that_ends_with_a_carriage_return_needs_no_further_byte() -> None:
    assert SSEDecoder().feed(b"data: a\r\r") == [SSEEvent(b"a")]


def test_an_event_without_a_blank_line_is_not_returned() -> None:
    decoder = SSEDecoder()
    assert decoder.feed(b'id: 1\n\nid: 2\ndata: {"a"') == []
    assert decoder.feed(b": 1}\n") == []
    assert decoder.last_id == "1"
    assert decoder.feed(b"\n") == [SSEEvent(b'{"a": 1}', id="2")]


@pytest.mark.parametrize("piece", [b"data: " + b"x" * 20, b": " + b"x" * 20, b"data: xxx\n" * 20])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_an_event_over_the_limit_fails_the_stream(piece: bytes, size: int) -> None:
    decoder = SSEDecoder(15)
    pieces = [piece[start : start + size] for start in range(0, len(piece), size)]
    with pytest.raises(EventTooLarge, match="larger than 15 bytes"):
        list(map(decoder.feed, pieces))


def test_comments_do_not_count_towards_the_next_event() -> None:
    decoder = SSEDecoder(15)
    for _ in range(100):
        assert decoder.feed(b": keep-alive\n") == []
    assert decoder.feed(b"data: 123456789\n\n") == [SSEEvent(b"123456789")]


def test_the_cost_per_byte_is_constant_over_sizes_and_places_of_pieces() -> None:
    def seconds(size: int, pieces: int) -> float:
        piece, decoder = b"x" * size, SSEDecoder(EVENT_MAX_BYTES)
        decoder.feed(b"data: ")
        began = time.process_time()
        for _ in range(pieces):
            decoder.feed(piece)
        return time.process_time() - began

    # The second half of an event costs what the first did: 8 and 16 MiB in pieces of one packet.
    few = min(seconds(1400, 5_900) for _ in range(3))
    many = min(seconds(1400, 11_800) for _ in range(3))
    assert many < 2 * 2 * few
