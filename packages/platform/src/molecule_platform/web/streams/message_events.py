"""Streams of messages and tasks: what happened to one, and what happens, as server-sent events."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from functools import partial

from molecule_platform.domain import events
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.tasks import TaskEvent
from molecule_platform.services.events.subscriptions import EventSubscriptions
from molecule_platform.services.messaging.messages.message_service import MessageService
from molecule_platform.services.messaging.messages.message_streams import (
    EventsPruned,
    Happening,
    MessageStreams,
)
from molecule_platform.services.messaging.tasks import task_log
from molecule_platform.services.messaging.tasks.task_service import TaskQuery, TaskService
from molecule_platform.services.support.worker_thread import run_in_thread_if_large
from molecule_platform.web.pipeline.calls import Call, Handler, Response
from molecule_platform.web.pipeline.route import EVENT_STREAM
from molecule_platform.web.routes import messages as shapes
from molecule_platform.web.streams.sse import until_outage
from molecule_wire import JSONObject, jsontext, times
from molecule_wire.a2a import sse
from molecule_wire.a2a.errors import A2AError

OPENING = b"retry: 2000\n\n"
_HEADERS = (("cache-control", "no-store"), ("x-accel-buffering", "no"))

Batches = AsyncGenerator[Sequence[Happening]]


class MessageEventHandlers:
    """Serves /messages/{id}/events and /workspaces/{id}/tasks/{id}/events."""

    def __init__(
        self,
        delivery: MessageService,
        tasks: TaskService,
        streams: MessageStreams,
        followers: EventSubscriptions,
    ) -> None:
        self._delivery = delivery
        self._tasks = tasks
        self._streams = streams
        self._followers = followers

    def handlers(self) -> dict[str, Handler]:
        """The handlers by route."""
        return {"message.events": self.of_message, "task.events": self.of_task}

    async def of_message(self, call: Call) -> Response:
        """The steps of a message and the events of its task, until it has ended."""
        message = await self._delivery.visible(call.principal, call.path["message_id"])
        call.open_stream(message.target_id)
        return self._reply(call, self._streams.follow(message, _after(call)))

    async def of_task(self, call: Call) -> Response:
        """The events of a task, until it has ended."""
        task_id = call.path["task_id"]
        try:
            task = await self._tasks.find(TaskQuery(call.principal, call.workspace), task_id)
        except A2AError as problem:
            raise ApiError("not-found", f"there is no task {task_id[:200]} here") from problem
        call.open_stream(task.workspace_id)
        return self._reply(call, self._streams.follow_task(task, _after(call)))

    def _reply(self, call: Call, batches: Batches) -> Response:
        lines = until_outage(self._lines(call.principal, batches))
        return Response(headers=_HEADERS, content_type=EVENT_STREAM, stream=lines)

    async def _lines(self, principal: Principal, batches: Batches) -> AsyncGenerator[bytes]:
        yield OPENING
        async with self._followers.bound(principal) as ended, contextlib.aclosing(batches):
            while (batch := await _next(batches, ended)) is not None:
                size = sum([len(one.payload) for one in batch if isinstance(one, TaskEvent)])
                yield await run_in_thread_if_large(size, partial(_blocks, batch)) or sse.KEEP_ALIVE


def _after(call: Call) -> int | None:
    asked: shapes.FollowMessage = call.query_params
    given = call.headers.get("last-event-id") or asked.since
    return None if given is None else events.parse_id(given)


async def _next(batches: Batches, ended: asyncio.Event) -> Sequence[Happening] | None:
    """The next batch; None when there is none, or the stream may not go on."""
    coming = asyncio.ensure_future(anext(batches, None))
    ending = asyncio.ensure_future(ended.wait())
    try:
        await asyncio.wait({coming, ending}, return_when=asyncio.FIRST_COMPLETED)
        return coming.result() if coming.done() else None
    finally:
        for task in (coming, ending):
            task.cancel()
        await asyncio.gather(coming, ending, return_exceptions=True)


def _blocks(batch: Sequence[Happening]) -> bytes:
    return b"".join(map(_block, batch))


def _block(happening: Happening) -> bytes:
    if isinstance(happening, TaskEvent):
        is_modern = happening.dialect == "1.0"
        data = happening.payload if is_modern else jsontext.encode(task_log.modern(happening))
        return _named(happening.kind) + sse.frame_of(happening.seq, data)
    if isinstance(happening, EventsPruned):
        return _named("resync") + sse.frame(None, {"oldest_id": str(happening.oldest)})
    step: JSONObject = {
        "kind": happening.kind,
        "message_id": happening.message_id,
        "attempt": happening.attempt,
        "lease_epoch": happening.lease_epoch,
        "at": times.format_time(happening.created_at),
    }
    return _named(happening.kind) + sse.frame(None, step)


def _named(event: str) -> bytes:
    return b"event: %b\n" % event.encode()
