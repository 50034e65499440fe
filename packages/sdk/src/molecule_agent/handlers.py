"""Running an agent's handler: a function or a generator, plain or async."""

import logging
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from molecule_agent import errors
from molecule_wire.calls import InboundMessage
from molecule_wire.calls.inbound import CancelEvent

if TYPE_CHECKING:
    import asyncio

    from molecule_agent.client import RemoteAgentClient
    from molecule_wire.answers import Answer, Pieces
    from molecule_wire.calls.conversations import HistoryItem

CLOSE_SECONDS = 2.0

T = TypeVar("T")

message_in_hand: ContextVar[str] = ContextVar("molecule_message_in_hand", default="")
"""The platform's id of the message that is handled here: what is sent meanwhile is sent for it."""

log = logging.getLogger(__name__)

_Result: TypeAlias = "str | Answer | None"
_Handled: TypeAlias = "_Result | Awaitable[_Result] | Iterator[str] | AsyncIterator[str]"

MessageHandler: TypeAlias = (
    Callable[[InboundMessage, "RemoteAgentClient"], "_Handled"] | Callable[[InboundMessage], "_Handled"]
)


class Cancelled(Exception):
    """The handler was ended because nobody wants its answer any more."""


class StreamFailed(errors.Fail):
    """A generator raised after some of its pieces were sent; the exception itself is in the log."""


class LoopThread:
    """One event loop in one daemon thread, started when first needed.

    It outlives the single message, so that what an async handler opens can be used by the next one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = 0

    def run(self, awaitable: Awaitable[T], cancelled: threading.Event | None = None) -> T:
        """Wait for a result; the caller's own thread may run a loop of its own.

        Raises Cancelled when the awaitable ends because it was called off.
        """
        import asyncio
        from concurrent import futures

        async def wait() -> T:
            if not isinstance(cancelled, CancelEvent):
                return await awaitable
            loop, task = asyncio.get_running_loop(), asyncio.current_task()

            def cancel() -> None:
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(cast("asyncio.Task[T]", task).cancel)

            cancelled.listen(cancel)
            try:
                return await awaitable
            finally:
                cancelled.forget(cancel)

        try:
            return asyncio.run_coroutine_threadsafe(wait(), self._running_loop()).result()
        except futures.CancelledError as stopped:
            raise Cancelled from stopped

    def close(self) -> None:
        """End the loop; a later `run` starts a new one."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(CLOSE_SECONDS)

    def _running_loop(self) -> "asyncio.AbstractEventLoop":
        import asyncio

        with self._lock:
            if self._loop is None or self._pid != os.getpid():  # no thread outlives a fork
                self._loop, self._pid = asyncio.new_event_loop(), os.getpid()
                self._thread = threading.Thread(
                    target=_serve, args=(self._loop,), name="molecule-async", daemon=True
                )
                self._thread.start()
            return self._loop


_shared = LoopThread()


def resolve(result: Any, client: object = None, cancelled: threading.Event | None = None) -> Any:
    """The result itself, or what it is when awaited on the client's loop."""
    if not isawaitable(result):
        return result
    runner = getattr(client, "_async_runner", None)
    return (runner if isinstance(runner, LoopThread) else _shared).run(result, cancelled)


def call(
    handler: MessageHandler,
    message: InboundMessage,
    client: "RemoteAgentClient",
    write: Callable[[str], object] | None = None,
) -> "Answer | None":
    """Run a handler for one message to its end; the pieces of a generator go to `write` as they come.

    Raises NeedInput or whatever else the handler raises; Fail when it returns what is no answer or breaks off
    after a piece, because another attempt would bring the same or something else; Cancelled.
    """
    from molecule_wire import answers

    message.read_history_with(lambda: _history(message, client))
    token = message_in_hand.set(message.message_id or message_in_hand.get())
    try:
        result = resolve(_invoke(handler, message, client), client, message.cancelled)
        if not isinstance(result, (Iterator, AsyncIterator)):
            return answers.read(result, handler)
        pieces = answers.Pieces(handler, write)
        try:
            if isinstance(result, AsyncIterator):
                taking = _take_async(cast("AsyncIterator[object]", result), pieces)
                resolve(taking, client, message.cancelled)
            else:
                _take(cast("Iterator[object]", result), pieces, message.cancelled)
        except (errors.Fail, errors.NeedInput, Cancelled):
            raise
        except Exception as error:
            if not pieces.text:
                raise
            raise StreamFailed(_logged(message, error)) from error
        return answers.Answer(pieces.text)
    finally:
        message_in_hand.reset(token)


def _invoke(handler: MessageHandler, message: InboundMessage, client: "RemoteAgentClient") -> object:
    """Call a handler with the arguments that it takes."""
    import inspect

    anything = cast("Callable[..., object]", handler)
    try:
        signature = inspect.signature(anything)
    except (TypeError, ValueError):
        return anything(message, client)
    try:
        signature.bind(message, client)
    except TypeError:
        return anything(message)
    return anything(message, client)


def _take(pieces: "Iterator[object]", taken: "Pieces", cancelled: threading.Event) -> None:
    """Take the pieces of a generator; it is closed when one is wrong, or when nobody wants more."""
    try:
        for piece in pieces:
            taken.add(piece)
            if cancelled.is_set():
                raise Cancelled
    finally:
        if callable(close := getattr(pieces, "close", None)):
            close()


async def _take_async(pieces: "AsyncIterator[object]", taken: "Pieces") -> None:
    try:
        async for piece in pieces:
            taken.add(piece)
    finally:
        if callable(close := getattr(pieces, "aclose", None)):
            await cast("Awaitable[None]", close())


def _history(message: InboundMessage, client: "RemoteAgentClient") -> "Sequence[HistoryItem]":
    """The earlier turns, asked of the platform; none, and a WARNING, when they are not to be had."""
    from molecule_wire.calls import conversations

    try:
        if not message.message_id:
            raise ValueError("the platform gave it no message id")
        return client._perform(conversations.history(message.message_id), conversations.read_history)
    except Exception as error:  # noqa: BLE001 - without its history a handler can still answer
        log.warning("the history of message %s is not to be had: %s", message.activity_id, error)
        return ()


def _serve(loop: "asyncio.AbstractEventLoop") -> None:
    import asyncio

    loop.run_forever()
    unfinished = asyncio.all_tasks(loop)
    for task in unfinished:
        task.cancel()
    if unfinished:
        loop.run_until_complete(asyncio.wait(unfinished))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


class ActiveMessages:
    """Counts the messages in hand, so that a signal need not tear one apart."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0

    @contextmanager
    def one(self) -> Generator[None]:
        """Handle one message, up to its settled answer, inside this."""
        with self._lock:
            self._count += 1
        try:
            yield
        finally:
            with self._lock:
                self._count -= 1

    @property
    def in_hand(self) -> bool:
        """Whether a message is being handled anywhere in this process."""
        return self._count > 0


work = ActiveMessages()


def failure_of(message: InboundMessage, error: Exception) -> errors.Fail:
    """Log what a handler raised; returns what others may know of it, and whether it is tried again.

    Of an exception that was not meant for the sender that is its class, and where to find the rest.
    """
    if isinstance(error, StreamFailed):
        return error
    if isinstance(error, errors.Fail):
        log.error("the handler failed on message %s: %s", message.activity_id, error.text)
        return error
    return errors.Fail(_logged(message, error), retry=True)


def _logged(message: InboundMessage, error: Exception) -> str:
    name = f"{type(error).__name__} (ref {os.urandom(4).hex()})"
    log.error("the handler failed on message %s: %s", message.activity_id, name, exc_info=error)
    return name
