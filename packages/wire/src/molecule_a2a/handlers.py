"""Running a handler on asyncio: a function or a generator, async or plain, as its author wrote it."""

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Literal, TypeAlias, cast

from molecule_wire import JSONObject
from molecule_wire.a2a.server.turns import Turn
from molecule_wire.answers import Answer, Pieces, read
from molecule_wire.exceptions import Fail, NeedInput

Result: TypeAlias = object
Handler: TypeAlias = Callable[[Turn], "Result | Awaitable[Result] | Iterator[str] | AsyncIterator[str]"]
"""Works on a message. It returns text, an Answer, a list of parts or None, or yields text in pieces, which
are told as they come; or it has ended the turn itself. A plain function runs in a thread, and leaves the
turn alone."""

Kind: TypeAlias = Literal["coroutine", "plain", "other"]

INTERVAL = 0.05
_END = object()

log = logging.getLogger("molecule_a2a")


def kind_of(handler: Handler) -> Kind:
    """How a handler is called: a plain function would hold the event loop."""
    called = handler if inspect.isroutine(handler) else getattr(handler, "__call__", handler)  # noqa: B004
    if inspect.iscoroutinefunction(called):
        return "coroutine"
    is_generator = inspect.isasyncgenfunction(called) or inspect.isgeneratorfunction(called)
    return "plain" if inspect.isroutine(called) and not is_generator else "other"


async def run(handler: Handler, turn: Turn, kind: Kind) -> object:
    """What the handler answers: text, parts or nothing. Its pieces and artifacts are told on the way.

    A question or a failure that it names ends the turn; whatever else it raises is raised.
    """
    try:
        result = await asyncio.to_thread(handler, turn) if kind == "plain" else handler(turn)
        if kind == "coroutine" or inspect.isawaitable(result):
            result = await cast("Awaitable[object]", result)
        if result is None or isinstance(result, (str, list)):
            return cast("object", result)
        return await _told(result, handler, turn)
    except NeedInput as question:
        if not turn.is_over:
            turn.ask(question.prompt)
    except Fail as failure:
        log.error("task %s: %s", turn.log.id, failure.text)
        if not turn.is_over:
            turn.fail(failure.text, retry=failure.retry)
    return None


async def _told(result: object, handler: Handler, turn: Turn) -> object:
    """Tell pieces and artifacts; what is left is the end of the answer."""
    if isinstance(result, (AsyncIterator, Iterator)):
        with GrowingText(turn) as text:
            pieces = Pieces(handler, text.write)
            if isinstance(result, AsyncIterator):
                await _take(cast("AsyncIterator[object]", result), pieces)
            else:
                await _take_in_thread(cast("Iterator[object]", result), pieces)
        return pieces.text or None
    if isinstance(result, Answer):
        answer = cast("Answer", read(result, handler))
        for artifact in answer.artifacts:
            turn.artifact(cast("JSONObject", artifact), last=True)
        return answer.all_parts or None
    return result


class GrowingText:
    """Tells a text while it grows: the first piece at once, then what has gathered, 20 times a second."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._waiting: list[str] = []
        self._told = False
        self._timer: asyncio.TimerHandle | None = None
        self._name = f"{turn.log.id}-{turn.first}"

    def __enter__(self) -> "GrowingText":
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Tell what is left, also when the handler has failed."""
        if self._timer is not None:
            self._timer.cancel()
        self._tell()

    def write(self, piece: str) -> None:
        """Add a piece."""
        self._waiting.append(piece)
        if self._timer is None:
            self._tell_and_wait()

    def _tell_and_wait(self) -> None:
        self._timer = None
        if self._tell():
            self._timer = asyncio.get_running_loop().call_later(INTERVAL, self._tell_and_wait)

    def _tell(self) -> bool:
        if not self._waiting or self._turn.is_over:
            return False
        artifact: JSONObject = {"artifactId": self._name, "parts": [{"text": "".join(self._waiting)}]}
        self._turn.artifact(artifact, append=self._told)
        self._waiting.clear()
        self._told = True
        return True


async def _take(pieces: AsyncIterator[object], taken: Pieces) -> None:
    try:
        async for piece in pieces:
            taken.add(piece)
    finally:
        if callable(close := getattr(pieces, "aclose", None)):
            await cast("Awaitable[None]", close())


async def _take_in_thread(pieces: Iterator[object], taken: Pieces) -> None:
    try:
        while (piece := await asyncio.to_thread(next, pieces, _END)) is not _END:
            taken.add(piece)
    finally:
        if callable(close := getattr(pieces, "close", None)):
            with suppress(ValueError):  # it runs still: the turn was called off in the middle of a piece
                close()
