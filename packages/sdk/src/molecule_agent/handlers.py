"""Running an agent's handler, which may be a plain function or a coroutine function."""

import logging
import os
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from molecule_agent import errors
from molecule_wire.calls import InboundMessage

if TYPE_CHECKING:
    import asyncio

    from molecule_agent.client import RemoteAgentClient

CLOSE_SECONDS = 2.0

T = TypeVar("T")

message_in_hand: ContextVar[str] = ContextVar("molecule_message_in_hand", default="")
"""The platform's id of the message that is handled here: what is sent meanwhile is sent for it."""

log = logging.getLogger("molecule_agent")

MessageHandler: TypeAlias = Callable[
    [InboundMessage, "RemoteAgentClient"], str | None | Awaitable[str | None]
]


class LoopThread:
    """One event loop in one daemon thread, started when first needed.

    It outlives the single message, so that what an async handler opens can be used by the next one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = 0

    def run(self, awaitable: Awaitable[T]) -> T:
        """Wait for a result; the caller's own thread may run a loop of its own."""
        import asyncio

        async def wait() -> T:
            return await awaitable

        return asyncio.run_coroutine_threadsafe(wait(), self._running_loop()).result()

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


def resolve(result: Any, client: object = None) -> Any:
    """The result itself, or what it is when awaited on the client's loop."""
    if not isawaitable(result):
        return result
    runner = getattr(client, "_async_runner", None)
    return (runner if isinstance(runner, LoopThread) else _shared).run(result)


def call(handler: MessageHandler, message: InboundMessage, client: "RemoteAgentClient") -> str | None:
    """Run a handler for one message to its end.

    Raises Fail when it returns what is no answer: another attempt would return the same.
    """
    token = message_in_hand.set(message.message_id or message_in_hand.get())
    try:
        result = resolve(handler(message, client), client)
    finally:
        message_in_hand.reset(token)
    if result is None or isinstance(result, str):
        return result
    name, kind = getattr(handler, "__qualname__", type(handler).__qualname__), type(result).__qualname__
    sentence = f"the handler {name} returned a value of type {kind}, where only str or None can be sent"
    raise errors.Fail(sentence)


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


class Work:
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


work = Work()


def failure_of(message: InboundMessage, error: Exception) -> errors.Fail:
    """Log what a handler raised; returns what others may know of it, and whether it is tried again.

    Of an exception that was not meant for the sender that is its class, and where to find the rest.
    """
    if isinstance(error, errors.Fail):
        log.error("the handler failed on message %s: %s", message.activity_id, error.text)
        return error
    name = f"{type(error).__name__} (ref {os.urandom(4).hex()})"
    log.error("the handler failed on message %s: %s", message.activity_id, name, exc_info=error)
    return errors.Fail(name, retry=True)
