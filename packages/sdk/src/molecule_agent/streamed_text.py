"""A text that is sent while it grows."""

import threading
from collections.abc import Callable
from enum import Enum

INTERVAL = 0.05
MAX_RETRY_SECONDS = 5.0


class SendResult(Enum):
    """What became of a piece."""

    TAKEN = "taken"
    NOT_TAKEN = "not taken, try again"
    UNKNOWN = "the answer was lost"
    OVER = "nobody takes any more"


class TextStream:
    """Rate-limited writer: the first piece goes out at once, then what has gathered, 20 times a second.

    `send` gets a text and whether it is to be appended. After a send whose answer was lost nobody knows what
    the other side has, so the next one brings the whole text in its place: nothing is doubled or missing.
    """

    def __init__(self, send: Callable[[str, bool], SendResult]) -> None:
        self._send = send
        self._changed = threading.Condition()
        self._pieces: list[str] = []
        self._taken = 0  # so many pieces are known to be there
        self._certain = True
        self._over = self._closed = False
        self._pause = INTERVAL
        self._thread: threading.Thread | None = None

    @property
    def was_used(self) -> bool:
        """Whether anything was tried to be sent."""
        return self._thread is not None

    @property
    def is_whole(self) -> bool:
        """Whether the other side is known to have all of it."""
        return self._certain and self._taken == len(self._pieces)

    def write(self, piece: str) -> None:
        """Add to the text; never waits for the network."""
        with self._changed:
            self._pieces.append(piece)
            self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="molecule-stream", daemon=True)
                self._thread.start()

    def __enter__(self) -> "TextStream":
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc_info: object) -> None:
        """Send what is left, once, and end; a program that is being ended does not wait for that."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None and (kind is None or issubclass(kind, Exception)):
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or not self.is_whole)
                if self.is_whole or self._over:
                    return
                is_last, append = self._closed, self._certain and self._taken > 0
                count = len(self._pieces)
                text = "".join(self._pieces[self._taken :] if append else self._pieces)
            sent = self._send(text, append)
            with self._changed:
                self._note(sent, count)
                if is_last or self._over:
                    return
                self._changed.wait_for(lambda: self._closed, self._pause)

    def _note(self, sent: SendResult, count: int) -> None:
        if sent is SendResult.TAKEN:
            self._taken, self._certain, self._pause = count, True, INTERVAL
            return
        self._certain = self._certain and sent is SendResult.NOT_TAKEN
        self._over = sent is SendResult.OVER
        self._pause = min(self._pause * 2, MAX_RETRY_SECONDS)
