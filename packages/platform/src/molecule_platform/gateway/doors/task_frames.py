"""Tasks as server-sent events: the events of a message just sent, or of a task that somebody follows.

A stream is read from the task's log, so who reads slowly, comes late or goes away changes nothing for others.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from molecule_platform.api.calls import Reply
from molecule_platform.api.exchange import Stream, pieces
from molecule_platform.domain import responses, results
from molecule_platform.domain.messages import Message
from molecule_platform.gateway.doors.asks import Ask
from molecule_platform.gateway.doors.task_lines import Before as Before
from molecule_platform.gateway.doors.task_lines import Credential, TaskLines
from molecule_platform.services.delivery import Delivery
from molecule_platform.services.identity import Identity
from molecule_platform.services.task_streams import Begun, TaskStreams
from molecule_platform.services.tasks import Rejoined, Tasks
from molecule_wire.a2a.server.bindings import EVENT_STREAM, STREAM_HEADERS
from molecule_wire.a2a.sse import KEEP_ALIVE

FIRST_SECONDS = 15.0


class TaskFrames:
    """Makes streams."""

    def __init__(self, streams: TaskStreams, deliveries: Delivery, tasks_: Tasks, identity: Identity) -> None:
        self._streams = streams
        self._deliveries = deliveries
        self._tasks = tasks_
        self._identity = identity

    async def of_message(self, ask: Ask, message: Message, before: Before | None) -> Reply:
        """The stream of a message. What goes wrong before its first event is an answer, not a stream."""
        begun = await self._streams.beginning(message.id, FIRST_SECONDS)
        if begun is None:
            message = await self._deliveries.get(message.id)
            if not message.is_open:
                return await self._without_events(ask, message)
            return _reply(ask, self._awaiting(ask, message.id, before))
        return _reply(ask, self._message_lines(ask, message.id, begun, before))

    async def of_task(self, ask: Ask, rejoined: Rejoined) -> Reply:
        """The stream of a task from where its follower comes in."""
        shown = b""
        if rejoined.shown is not None:
            shown = ask.invocation.binding.event(
                rejoined.number, ask.renderer.event({"task": rejoined.shown})
            )
        begun = Begun(rejoined.key, rejoined.number + 1)
        return _reply(ask, self._lines(ask, begun, shown=shown, is_all=rejoined.is_all))

    # What is written

    async def _awaiting(self, ask: Ask, message_id: str, before: Before | None) -> AsyncGenerator[bytes]:
        """The stream of a message whose agent is long in coming to its first word."""
        begun = None
        while begun is None:
            yield KEEP_ALIVE
            begun, ended, is_closing = await self._awaited(message_id)
            if ended is not None:
                yield _last_word(ask, ended)
            if ended is not None or is_closing:
                return
        async with aclosing(pieces(self._message_lines(ask, message_id, begun, before))) as lines:
            async for chunk in lines:
                yield chunk

    def _message_lines(self, ask: Ask, message_id: str, begun: Begun, before: Before | None) -> TaskLines:
        shown: Before | None = None
        if before is not None and before.key == begun.key:
            begun, shown = Begun(before.key, before.number + 1), before
        return self._lines(ask, begun, message_id=message_id, before=shown)

    async def _awaited(self, message_id: str) -> tuple[Begun | None, Message | None, bool]:
        """The beginning of a message's events; or the message, if it ended without any; or that we close."""
        loop = asyncio.get_running_loop()
        asked_at = loop.time()
        begun = await self._streams.beginning(message_id, FIRST_SECONDS)
        current = None if begun is not None else await self._deliveries.get(message_id)
        if current is None or not current.is_open:
            return begun, current, False
        # Streams that end before their time do so because the house closes.
        return None, None, loop.time() - asked_at < FIRST_SECONDS / 2

    def _lines(self, ask: Ask, begun: Begun, **how: Any) -> TaskLines:
        credential = Credential(self._identity, ask.call.principal.credential)
        return TaskLines(self._streams, self._tasks, ask.invocation, credential, begun, **how)

    async def _without_events(self, ask: Ask, message: Message) -> Reply:
        """A message that ended before anything was said of it."""
        if message.status != "answered":
            raise responses.error_of(message)

        async def lines() -> AsyncGenerator[bytes]:
            yield _last_word(ask, message)

        return _reply(ask, lines())


def _last_word(ask: Ask, message: Message) -> bytes:
    """The one frame of a message that ended without an event."""
    if message.status != "answered":
        return ask.invocation.binding.error_event(responses.error_of(message))
    return ask.invocation.binding.event(1, ask.renderer.event({"task": results.snapshot(message, "1.0")}))


def _reply(ask: Ask, lines: AsyncGenerator[bytes] | Stream) -> Reply:
    return Reply(headers=(*STREAM_HEADERS, *ask.echoed), content_type=EVENT_STREAM, stream=lines)
