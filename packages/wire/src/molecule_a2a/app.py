"""`AgentApp`: serves A2A 1.0 and 0.3, as JSON-RPC at `/` and as HTTP+JSON below it."""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TypeAlias

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from molecule_wire import JSONObject
from molecule_wire.a2a import errors, operations, sse
from molecule_wire.a2a.server import bindings, requests, service
from molecule_wire.a2a.server.bindings import AgentBusy, refusal
from molecule_wire.a2a.server.card import ServedCard, complete_card
from molecule_wire.a2a.server.records import TurnStore
from molecule_wire.a2a.server.requests import RestPath
from molecule_wire.a2a.server.service import Retention, TaskService
from molecule_wire.a2a.server.streams import KEEP_ALIVE_SECONDS, EventStream
from molecule_wire.a2a.server.task_log import TaskLog
from molecule_wire.a2a.server.turns import AnswerInvalid, Turn
from molecule_wire.callers import is_direct

Handler: TypeAlias = Callable[[Turn], Awaitable[object]]
"""Works on a message. It returns text, a list of parts or None, or has ended the turn itself."""

Endpoint: TypeAlias = Callable[[Request], Awaitable[bindings.Response]]
"""Answers a path beside those of A2A, whoever calls."""

Answer: TypeAlias = bindings.Response | EventStream

log = logging.getLogger("molecule_a2a")


class Unauthenticated(Exception):
    """The caller may not give this agent work; the text says why."""

    def __init__(self, sentence: str, code: str = "caller-unverified") -> None:
        self.code = code
        super().__init__(sentence)


async def local_caller(request: Request) -> str:
    """Let in requests straight from this machine, all as one caller."""
    if not is_direct(request.client.host if request.client else "", request.headers):
        raise Unauthenticated("caller not verified: only direct requests from this machine are served")
    return "local"


class AgentApp:
    """An ASGI application. `authenticate` gives the name of the caller, or raises Unauthenticated.

    It is asked before the body is read, and `check_body` after it. `admit` refuses a new turn by raising
    AgentBusy. A turn that is called off is told to `interrupt`, or its handler's task is cancelled. Tasks
    that a `store` keeps are known after a restart. `endpoints` are further paths, by method and path;
    `rpc_paths` are those of JSON-RPC.
    """

    def __init__(
        self,
        handler: Handler,
        card: JSONObject,
        *,
        url: str,
        agent_id: str = "agent",
        authenticate: Callable[[Request], Awaitable[str]] = local_caller,
        check_body: Callable[[Request, bytes], None] = lambda request, body: None,
        admit: Callable[[], None] | None = None,
        interrupt: Callable[[Turn], object] | None = None,
        store: TurnStore | None = None,
        endpoints: Mapping[tuple[str, str], Endpoint] = MappingProxyType({}),
        rpc_paths: Collection[str] = ("/",),
        max_body_bytes: int = 16 * 1024 * 1024,
        max_concurrency: int = 16,
        turn_seconds: float | None = 300.0,
        retention: Retention | None = None,
    ) -> None:
        self._handler = handler
        self._card = complete_card(card, agent_id, url)
        self._served_card = ServedCard()
        self._authenticate = authenticate
        self._check_body = check_body
        self._interrupt = interrupt
        self._endpoints = endpoints
        self._rpc_paths = rpc_paths
        self._max_body_bytes = max_body_bytes
        self._max_concurrency = max_concurrency
        self._turn_seconds = turn_seconds
        self._running: set[asyncio.Task[None]] = set()
        self._stopping = False
        self._service = TaskService(
            lambda: datetime.now(UTC),
            secret=os.urandom(32),
            retention=retention,
            turn_seconds=turn_seconds,
            admit=admit or self._admit,
            store=store,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        if scope["type"] == "lifespan":
            return await self._lifespan(receive, send)
        request = Request(scope, receive)
        try:
            answer = await self._answer(request)
        except ClientDisconnect:
            return None
        if isinstance(answer, EventStream):
            return await _stream(answer)(scope, receive, send)
        headers = {"content-type": answer.media, **dict(answer.headers)}
        return await Response(answer.body, answer.status, headers)(scope, receive, send)

    async def stop(self, seconds: float = 5.0) -> None:
        """Take no more work, and let running handlers finish for at most so long."""
        self._stopping = True
        if self._running:
            await asyncio.wait(self._running, timeout=seconds)
        for running in tuple(self._running):
            running.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.stop()
        await send({"type": "lifespan.shutdown.complete"})

    # Requests

    async def _answer(self, request: Request) -> Answer:
        asked = request.url.path.rstrip("/") or "/"
        endpoint = self._endpoints.get((request.method, asked))
        if endpoint is not None:
            return await endpoint(request)
        target = requests.route(request.method, asked, self._rpc_paths)
        if isinstance(target, bindings.Response):
            return target
        if target == requests.HEALTH_PATH:
            return bindings.Response(200, b'{"status":"ok"}')
        if target in operations.CARD_PATHS:
            tag = request.headers.get("if-none-match", "")
            return self._served_card.response(self._card, tag, datetime.now(UTC))
        try:
            principal = await self._authenticate(request)
            body = await self._body(request)
            if body is None:
                limit = self._max_body_bytes
                sentence = f"the body is larger than {limit} bytes"
                return refusal(413, sentence, "payload-too-large", limit_bytes=limit)
            self._check_body(request, body)
        except Unauthenticated as problem:
            return refusal(401, str(problem), problem.code)
        except AgentBusy as busy:
            return busy.response
        path = target if isinstance(target, RestPath) else None
        return await self._perform(path, body, principal, request)

    async def _body(self, request: Request) -> bytes | None:
        """The body, or None when it is too large; then it is not read on."""
        held, size = list[bytes](), 0
        async for chunk in request.stream():
            size += len(chunk)
            if size > self._max_body_bytes:
                return None
            held.append(chunk)
        return b"".join(held)

    # Operations

    async def _perform(self, path: RestPath | None, body: bytes, principal: str, request: Request) -> Answer:
        headers = dict(request.headers)
        invocation = requests.read(path, body, headers, dict(request.query_params))
        if isinstance(invocation, bindings.Response):
            return invocation
        try:
            done = self._service.perform(invocation, principal, headers, self._start)
            if not isinstance(done, Turn):
                return done
            await _settled(done)
            return service.result(invocation, done)
        except errors.A2AError as problem:
            return invocation.binding.error(problem, invocation.request.operation)
        except AgentBusy as busy:
            return busy.response

    def _admit(self) -> None:
        if self._stopping:
            raise AgentBusy("the agent is being stopped", "agent-stopping")
        if len(self._running) >= self._max_concurrency:
            raise AgentBusy("the agent is at its capacity")

    def _start(self, turn: Turn) -> None:
        running = asyncio.get_running_loop().create_task(self._run(turn))
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        interrupt = self._interrupt
        turn.on_cancel.append(running.cancel if interrupt is None else lambda: interrupt(turn))

    async def _run(self, turn: Turn) -> None:
        name = getattr(self._handler, "__qualname__", type(self._handler).__name__)
        limit = asyncio.timeout(self._turn_seconds)
        try:
            turn.work()
            async with limit:
                said = await self._handler(turn)
            if not turn.is_over:
                turn.complete(said)
        except AnswerInvalid as problem:
            _fail(turn, f"the handler {name} answered wrongly: {problem}", problem)
        except asyncio.CancelledError:
            if not turn.is_over:
                turn.fail("the agent was stopped before it answered", retry=True)
        except Exception as problem:  # noqa: BLE001 - logged, and told to the caller by its class
            if limit.expired():
                return _fail(turn, f"the agent did not answer within {self._turn_seconds} s", problem)
            reference = os.urandom(4).hex()
            _fail(turn, f"internal error: {type(problem).__name__} (ref {reference})", problem)


def _fail(turn: Turn, sentence: str, problem: BaseException) -> None:
    log.error("task %s: %s", turn.log.id, sentence, exc_info=problem)
    if not turn.is_over:
        turn.fail(sentence)


async def _settled(turn: Turn) -> None:
    """Wait until the turn is over; that it ends is the runner's promise."""
    while not turn.is_over:
        await _changed(turn.log, None)


async def _changed(task: TaskLog, seconds: float | None) -> None:
    changed = asyncio.Event()
    task.listeners.append(changed.set)
    try:
        async with asyncio.timeout(seconds):
            await changed.wait()
    except TimeoutError:
        return
    finally:
        task.listeners.remove(changed.set)


def _stream(events: EventStream) -> Response:
    # Not as the media type: Starlette would add a charset, which some readers of streams do not expect.
    headers = {**dict(bindings.STREAM_HEADERS), "content-type": bindings.EVENT_STREAM}
    return StreamingResponse(_frames(events), headers=headers)


async def _frames(events: EventStream) -> AsyncGenerator[bytes]:
    while True:
        frames = events.take()
        if frames:
            yield frames
        if events.is_over:
            return
        if not frames:
            await _changed(events.log, KEEP_ALIVE_SECONDS)
            if not (frames := events.take()) and not events.is_over:
                frames = sse.KEEP_ALIVE
            yield frames
