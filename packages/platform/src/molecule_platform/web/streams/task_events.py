"""Tasks as server-sent events: the events of a message just sent, or of a task that somebody follows.

A stream is read from the task's log, so who reads slowly, comes late or goes away changes nothing for others.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from molecule_platform.domain import responses, results
from molecule_platform.domain.messages import Message
from molecule_platform.ports.storage import StorageDown
from molecule_platform.services.identity.authentication import AuthenticationService
from molecule_platform.services.messaging.messages.message_service import MessageService
from molecule_platform.services.messaging.tasks.task_service import ResumedStream, TaskService
from molecule_platform.services.messaging.tasks.task_streams import SubscriptionStart, TaskStreams
from molecule_platform.web.exchange import EventStream, pieces
from molecule_platform.web.pipeline.calls import Response
from molecule_platform.web.routes.a2a.a2a_call import A2ACall
from molecule_platform.web.streams.task_event_lines import Credential, TaskEventLines, unavailable
from molecule_platform.web.streams.task_event_lines import StreamStart as StreamStart
from molecule_wire.a2a.server.bindings import EVENT_STREAM, STREAM_HEADERS
from molecule_wire.a2a.sse import KEEP_ALIVE

FIRST_SECONDS = 15.0


@dataclass(frozen=True)
class TaskEventStream:
    """Makes streams."""

    streams: TaskStreams
    deliveries: MessageService
    tasks: TaskService
    identity: AuthenticationService

    async def of_message(self, ask: A2ACall, message: Message, before: StreamStart | None) -> Response:
        """The stream of a message. What goes wrong before its first event is an answer, not a stream."""
        begun = await self.streams.beginning(message.id, FIRST_SECONDS)
        if begun is not None:
            return _reply(ask, self._message_lines(ask, message.id, begun, before))
        message = await self.deliveries.get(message.id)
        if message.is_open:
            return _reply(ask, _until_outage(ask, self._awaiting(ask, message.id, before)))
        if message.status != "answered":
            raise responses.error_of(message)
        return _reply(ask, body=_last_word(ask, message))

    async def of_task(self, ask: A2ACall, rejoined: ResumedStream) -> Response:
        """The stream of a task from where its follower comes in."""
        told = rejoined.shown
        shown = b"" if told is None else ask.invocation.event(rejoined.number, {"task": told})
        begun = SubscriptionStart(rejoined.key, rejoined.number + 1)
        return _reply(ask, self._lines(ask, begun, prefix=shown, ended=rejoined.is_all))

    # What is written

    async def _awaiting(
        self, ask: A2ACall, message_id: str, before: StreamStart | None
    ) -> AsyncGenerator[bytes]:
        """The stream of a message whose agent is long in coming to its first word."""
        begun = None
        while begun is None:
            yield KEEP_ALIVE
            begun = await self.streams.beginning(message_id, FIRST_SECONDS)
            if begun is None and not (message := await self.deliveries.get(message_id)).is_open:
                yield _last_word(ask, message)
                return
            if self.streams.stopping:
                return
        async with aclosing(pieces(self._message_lines(ask, message_id, begun, before))) as lines:
            async for chunk in lines:
                yield chunk

    def _message_lines(
        self, ask: A2ACall, message_id: str, begun: SubscriptionStart, before: StreamStart | None
    ) -> TaskEventLines:
        if before is None or before.key != begun.key:
            return self._lines(ask, begun, message_id=message_id)
        begun = SubscriptionStart(before.key, before.number + 1)
        return self._lines(ask, begun, message_id=message_id, before=before)

    def _lines(self, ask: A2ACall, begun: SubscriptionStart, **how: Any) -> TaskEventLines:
        credential = Credential(self.identity, ask.call.principal.credential)
        binding, renderer = ask.invocation.binding, ask.invocation.renderer
        return TaskEventLines(self.streams, self.tasks, binding, renderer, credential, begun, **how)


async def _until_outage(ask: A2ACall, lines: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    try:
        async with aclosing(lines):
            async for chunk in lines:
                yield chunk
    except StorageDown:
        yield ask.invocation.binding.error_event(unavailable())


def _last_word(ask: A2ACall, message: Message) -> bytes:
    """The one frame of a message that ended without an event."""
    if message.status != "answered":
        return ask.invocation.binding.error_event(responses.error_of(message))
    return ask.invocation.event(1, {"task": results.snapshot(message, "1.0")})


def _reply(
    ask: A2ACall, lines: AsyncGenerator[bytes] | EventStream | None = None, body: bytes | None = None
) -> Response:
    return Response(body, 200, (*STREAM_HEADERS, *ask.echoed), EVENT_STREAM, lines)
