"""A stream of events is read the same however the network cuts it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_wire.a2a import sse
from molecule_wire.a2a.sse_reading import Frames, StreamTooLarge

texts = st.lists(st.text(max_size=20), max_size=5)


@given(said=texts, cuts=st.lists(st.integers(0, 400), max_size=8), crlf=st.booleans())
def test_however_a_stream_is_cut_its_events_are_the_same(
    said: list[str], cuts: list[int], crlf: bool
) -> None:
    whole = b"".join(sse.KEEP_ALIVE + sse.frame(n, text) for n, text in enumerate(said, 1))
    if crlf:
        whole = whole.replace(b"\n", b"\r\n")
    places = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
    frames = Frames(10_000)
    read = [
        data for start, end in zip(places, places[1:], strict=False) for data in frames.feed(whole[start:end])
    ]
    assert read == Frames(10_000).feed(whole)
    assert len(read) == len(said)


def test_data_of_several_lines_is_one_event() -> None:
    assert Frames(100).feed(b"event: x\ndata: a\ndata:b\nid: 3\n\n: note\n\ndata: c\n\n") == [b"a\nb", b"c"]


def test_half_an_event_waits_for_the_rest() -> None:
    frames = Frames(100)
    assert frames.feed(b'data: {"a"') == []
    assert frames.feed(b": 1}\n") == []
    assert frames.feed(b"\n") == [b'{"a": 1}']


def test_an_event_without_end_is_refused() -> None:
    frames = Frames(10)
    with pytest.raises(StreamTooLarge):
        frames.feed(b"data: " + b"x" * 20)
