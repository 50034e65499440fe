"""How messages reach the agent: by polling a cursor, by leasing from the inbox, or by being called."""

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

from molecule_agent import handlers
from molecule_agent.errors import CursorLostError, NeedInput
from molecule_agent.handlers import MessageHandler
from molecule_agent.poll_interval import PollPacer
from molecule_wire.a2a import text
from molecule_wire.calls import InboundMessage, InboundSource, Lease, Request, inbound, inbox, workspaces

if TYPE_CHECKING:
    from molecule_agent.client import RemoteAgentClient

DEFAULT_POLL_INTERVAL = 5.0
REMEMBERED_ROWS = 1000

log = logging.getLogger(__name__)

__all__ = [
    "DEFAULT_POLL_INTERVAL",
    "CursorLostError",
    "InboundDelivery",
    "InboundMessage",
    "InboundSource",
    "Lease",
    "MessageHandler",
    "PollDelivery",
    "PushDelivery",
]


@runtime_checkable
class InboundDelivery(Protocol):
    """A source of messages for a run loop.

    It may have an attribute `interval`, the seconds the loop sleeps between two calls of `run_once`.
    """

    def run_once(self, handler: MessageHandler) -> int:
        """Hand the messages that are there to the handler; returns how many. May raise."""
        ...

    def stop(self) -> None:
        """End for good; called once, from any thread."""
        ...


class _Stoppable(Protocol):
    def stop(self) -> None: ...


class PollDelivery:
    """Reads the activity log after a cursor: each row at most once, no redelivery.

    The cursor moves past a row whatever its handler does, and is kept in `cursor_file` when one is given.
    """

    def __init__(
        self,
        client: "RemoteAgentClient",
        interval: float = DEFAULT_POLL_INTERVAL,
        type: str = "a2a_receive",
        limit: int = 100,
        cursor_file: str | Path | None = None,
        *,
        wait: float = 0.0,
    ) -> None:
        self._client = client
        self._type = type
        self._limit = limit
        self._wait = wait
        self._pace = PollPacer(interval, wait)
        self._cursor_file = Path(cursor_file) if cursor_file else None
        self._cursor: str | None = None
        self._cursor = self._load_cursor() or self._cursor
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._stopped = threading.Event()
        self._running = threading.Lock()

    @property
    def interval(self) -> float:
        """Seconds until the next poll makes sense."""
        return self._pace.interval

    @property
    def cursor(self) -> str | None:
        """The last row that was read."""
        return self._cursor

    def stop(self) -> None:
        """Make no further request."""
        self._stopped.set()

    def run_once(self, handler: MessageHandler) -> int:
        """Fetch one batch after the cursor and dispatch it; returns how many rows reached the handler."""
        with self._running:
            if self._stopped.is_set():
                return 0
            try:
                with self._pace.measured() as poll:
                    batch = self._fetch()
                    poll.found(len(batch))
            except CursorLostError:
                log.warning(
                    "the platform no longer knows the cursor %s; reading from the start", self._cursor
                )
                self._move_cursor(None)
                return 0
            return sum(self._take(message, handler) for message in batch)

    def _fetch(self) -> list[InboundMessage]:
        if self._wait > 0:
            return self._client.fetch_inbound(
                since_id=self._cursor, limit=self._limit, type=self._type, wait=self._wait
            )
        return self._client.fetch_inbound(since_id=self._cursor, limit=self._limit, type=self._type)

    def _take(self, message: InboundMessage, handler: MessageHandler) -> bool:
        if self._stopped.is_set() or self._client.stopping is True:
            return False
        fresh = message.activity_id not in self._seen
        is_new = fresh and not inbound.is_own_echo(message, self._client.workspace_id)
        try:
            if is_new:
                with handlers.work.one():
                    self._dispatch(message, handler)
        finally:
            self._remember(message.activity_id)
            self._move_cursor(message.activity_id)
        return is_new

    def _dispatch(self, message: InboundMessage, handler: MessageHandler) -> None:
        """Run the handler and tell the outcome; nothing that goes wrong stops the rows that follow."""
        try:
            answer = handlers.call(handler, message, self._client)
        except NeedInput as question:
            if not message.message_id:
                return self._reply(message, question.prompt)
            prompt, state = question.prompt, "input-required"
            return self._report(message, lambda me, it: inbox.answer(me, it, text=prompt, state=state))
        except Exception as error:  # noqa: BLE001 - the cursor moves on whatever a handler does
            # Nor is one that asks for it tried again: the cursor is past it.
            reason = handlers.failure_of(message, error).text
            return self._report(message, lambda me, it: inbox.fail(me, it, error=reason, retryable=False))
        if answer is None or message.is_reply or not (answer.all_parts or answer.artifacts):
            return self._report(message, inbox.ack)
        if message.message_id and (answer.parts or answer.artifacts):
            return self._report(message, lambda me, it: inbox.answer_with(me, it, answer))
        words = text.text_of_message({"parts": answer.all_parts}) if answer.parts else answer.text
        return self._reply(message, words)

    def _reply(self, message: InboundMessage, words: str) -> None:
        try:
            self._client.reply(message, words)
        except Exception as error:  # noqa: BLE001 - at most once: a lost reply must not stop the others
            log.warning("the reply to %s could not be sent: %s", message.activity_id, error)

    def _report(self, message: InboundMessage, outcome: Callable[[str, str], Request]) -> None:
        """Tell the platform how it ended, where the sender waits for an outcome."""
        if not message.message_id:
            return
        try:
            request = outcome(self._client.workspace_id, message.message_id)
            self._client._perform(request, workspaces.read_nothing)
        except Exception as trouble:  # noqa: BLE001 - best effort; the deadline of the message remains
            log.warning("the outcome of %s could not be reported: %s", message.activity_id, trouble)

    def _remember(self, activity_id: str) -> None:
        self._seen[activity_id] = None
        if len(self._seen) > REMEMBERED_ROWS:
            self._seen.popitem(last=False)

    # Programs of the first generation override these two to keep the cursor elsewhere.

    def _load_cursor(self) -> str | None:
        if self._cursor_file is None or not self._cursor_file.exists():
            return None
        return self._cursor_file.read_text(encoding="utf-8").strip() or None

    def _move_cursor(self, cursor: str | None) -> None:
        self._cursor = cursor
        save = cast("Callable[..., object]", self._save_cursor)
        if signature(save).parameters:
            save(cursor)
        else:  # an override that looks at `_cursor`
            save()

    def _save_cursor(self, cursor: str | None) -> None:
        if self._cursor_file is None:
            return
        if cursor is None:
            self._cursor_file.unlink(missing_ok=True)
            return
        self._cursor_file.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._cursor_file.with_name(f"{self._cursor_file.name}.tmp")
        temporary.write_text(cursor, encoding="utf-8")
        temporary.replace(self._cursor_file)


class PushDelivery:
    """For an agent that is called at its own URL: there is nothing to fetch, only a server to stop."""

    def __init__(self, client: "RemoteAgentClient", server: _Stoppable) -> None:
        from molecule_agent import a2a_server

        self._server = server
        if isinstance(server, a2a_server.A2AServer):
            server.bind(client)

    def run_once(self, handler: MessageHandler) -> int:
        """Nothing to do: the server calls its own handler."""
        return 0

    def stop(self) -> None:
        """Stop the server."""
        try:
            self._server.stop()
        except Exception:
            log.exception("the server did not stop cleanly")


_parse_activity_row = inbound.parse_row
