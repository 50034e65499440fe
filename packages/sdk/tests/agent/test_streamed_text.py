"""A text that is sent while it grows is there once and whole, whatever becomes of a piece."""

import threading
import time

from hypothesis import given
from hypothesis import strategies as st

from molecule_agent import streamed_text
from molecule_agent.streamed_text import SendResult, TextStream


class Receiver:
    """Keeps what it is sent, as the platform does; `fates` says what becomes of each send."""

    def __init__(self, fates: list[tuple[SendResult, bool]]) -> None:
        self.text = ""
        self.sends: list[float] = []
        self._fates = list(fates)

    def take(self, text: str, append: bool) -> SendResult:
        self.sends.append(time.monotonic())
        sent, arrived = self._fates.pop(0) if self._fates else (SendResult.TAKEN, True)
        if arrived:
            self.text = self.text + text if append else text
        return sent


FATES = [
    (SendResult.TAKEN, True),
    (SendResult.NOT_TAKEN, False),
    (SendResult.UNKNOWN, True),
    (SendResult.UNKNOWN, False),
]


@given(
    pieces=st.lists(st.text(min_size=1, max_size=5), max_size=8),
    fates=st.lists(st.sampled_from(FATES), max_size=5),
)
def test_what_is_known_to_be_there_is_the_text(
    pieces: list[str], fates: list[tuple[SendResult, bool]]
) -> None:
    receiver = Receiver(fates)
    with TextStream(receiver.take) as stream:
        for piece in pieces:
            stream.write(piece)
    if stream.is_whole:
        assert receiver.text == "".join(pieces)
    assert stream.was_used == bool(pieces)


def test_the_first_piece_goes_out_at_once_and_the_rest_together() -> None:
    first, receiver = threading.Event(), Receiver([])

    def take(text: str, append: bool) -> SendResult:
        sent = receiver.take(text, append)
        first.set()
        return sent

    with TextStream(take) as stream:
        stream.write("0 ")
        assert first.wait(10)
        for number in range(1, 1000):
            stream.write(f"{number} ")
    assert receiver.text == "".join(f"{number} " for number in range(1000))
    assert len(receiver.sends) < 20


def test_at_most_twenty_pieces_a_second_are_sent() -> None:
    receiver = Receiver([])
    with TextStream(receiver.take) as stream:
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            stream.write(".")
            time.sleep(0.001)
    gaps = [later - earlier for earlier, later in zip(receiver.sends, receiver.sends[1:-1], strict=False)]
    assert min(gaps) > streamed_text.INTERVAL * 0.9


def test_where_nobody_takes_more_nothing_more_is_sent() -> None:
    receiver = Receiver([(SendResult.OVER, False)])
    with TextStream(receiver.take) as stream:
        stream.write("a")
        while not receiver.sends:
            time.sleep(0.001)
        stream.write("b")
    assert len(receiver.sends) == 1
    assert not stream.is_whole
