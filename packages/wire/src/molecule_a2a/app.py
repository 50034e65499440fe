"""`AgentApp`: serves A2A 1.0 and 0.3, as JSON-RPC at `/` and as HTTP+JSON below it."""

import asyncio
import ipaddress
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import UTC, datetime
from typing import TypeAlias

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from molecule_wire import JSON, JSONObject
from molecule_wire.a2a import errors, operations, sse
from molecule_wire.a2a.server import bindings, requests, service
from molecule_wire.a2a.server.card import ServedCard, complete_card
from molecule_wire.a2a.server.requests import Invocation
from molecule_wire.a2a.server.service import Retention, Subscription, TaskService
from molecule_wire.a2a.server.streams import KEEP_ALIVE_SECONDS, EventStream
from molecule_wire.a2a.server.task_log import TaskLog
from molecule_wire.a2a.server.turns import AnswerInvalid, Turn

Handler: TypeAlias = Callable[[Turn], Awaitable[object]]
"""Works on a message. It returns text, a list of parts or None, or has ended the turn itself."""

_RELAYED = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "origin")

log = logging.getLogger("molecule_a2a")


class Unauthenticated(Exception):
    """The caller may not give this agent work; the text says why."""


class AgentBusy(Exception):
    """No more turns are taken now; the text says why."""


async def local_caller(request: Request) -> str:
    """Let in requests straight from this machine, all as one caller."""
    host = request.client.host if request.client else ""
    try:
        is_local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_local = False
    if not is_local or any(name in request.headers for name in _RELAYED):
        raise Unauthenticated("only direct requests from this machine are served")
    return "local"


class AgentApp:
    """An ASGI application. `authenticate` gives the name of the caller, or raises Unauthenticated."""

    def __init__(
        self,
        handler: Handler,
        card: JSONObject,
        *,
        url: str,
        agent_id: str = "agent",
        authenticate: Callable[[Request], Awaitable[str]] = local_caller,
        max_body_bytes: int = 16 * 1024 * 1024,
        max_concurrency: int = 16,
        turn_seconds: float = 300.0,
        retention: Retention | None = None,
    ) -> None:
        self._handler = handler
        self._card = complete_card(card, agent_id, url)
        self._served_card = ServedCard()
        self._authenticate = authenticate
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
            admit=self._admit,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        if scope["type"] == "lifespan":
            return await self._lifespan(receive, send)
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except ClientDisconnect:
            return None
        return await response(scope, receive, send)

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

    async def _answer(self, request: Request) -> Response:
        path = request.url.path.rstrip("/") or "/"
        paths = list(requests.rest_paths(path))
        allowed = {verb for known in paths for verb in known.operation.verbs}
        if path == "/":
            allowed = {"POST"}
        elif path in (*operations.CARD_PATHS, "/healthz"):
            allowed = {"GET", "HEAD"}
        if not allowed:
            return _refusal(404, "not found")
        if request.method not in allowed:
            return _refusal(405, "method not allowed", headers={"allow": ", ".join(sorted(allowed))})
        if path == "/healthz":
            return JSONResponse({"status": "ok"})
        if path in operations.CARD_PATHS:
            return self._card_response(request)
        return await self._operation(request, paths)

    def _card_response(self, request: Request) -> Response:
        tag = request.headers.get("if-none-match", "")
        shown = self._served_card.response(self._card, tag, datetime.now(UTC))
        return Response(shown.body, shown.status, shown.headers)

    async def _operation(self, request: Request, paths: list[requests.RestPath]) -> Response:
        try:
            principal = await self._authenticate(request)
            body = await self._body(request)
        except Unauthenticated as problem:
            return _refusal(401, f"caller not verified: {problem}", "caller-unverified")
        if body is None:
            limit = self._max_body_bytes
            sentence = f"the body is larger than {limit} bytes"
            return _refusal(413, sentence, "payload-too-large", limit_bytes=limit)
        headers, query = dict(request.headers), dict(request.query_params)
        path = next((known for known in paths if request.method in known.operation.verbs), None)
        invocation = requests.read(path, body, headers, query)
        if isinstance(invocation, bindings.Response):
            return _response(invocation)
        try:
            return await self._perform(invocation, principal, headers)
        except errors.A2AError as problem:
            return _response(invocation.binding.error(problem, invocation.request.operation))
        except AgentBusy as problem:
            return _refusal(503, str(problem), "agent-busy", headers={"retry-after": "1"}, retry_after=1)

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

    async def _perform(self, invocation: Invocation, principal: str, headers: dict[str, str]) -> Response:
        done = self._service.perform(invocation, principal, headers)
        if isinstance(done, bytes):
            return _response(invocation.binding.result(done))
        if isinstance(done, Subscription):
            return _stream(EventStream(invocation, done))
        turn = done.turn
        if done.is_new:
            self._start(turn)
        if invocation.request.operation is operations.STREAM:
            return _stream(EventStream(invocation, turn))
        if invocation.request.blocking:
            await _settled(turn)
        return _response(invocation.binding.result(service.result(invocation, turn)))

    def _admit(self) -> None:
        if self._stopping:
            raise AgentBusy("the agent is being stopped")
        if len(self._running) >= self._max_concurrency:
            raise AgentBusy("the agent is at its capacity")

    def _start(self, turn: Turn) -> None:
        running = asyncio.get_running_loop().create_task(self._run(turn))
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        turn.on_cancel.append(running.cancel)

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
                return _fail(turn, f"the agent did not answer within {self._turn_seconds:g} s", problem)
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


def _response(made: bindings.Response) -> Response:
    return Response(made.body, made.status, {"content-type": made.media})


def _refusal(
    status: int, sentence: str, code: str = "", headers: dict[str, str] | None = None, **more: JSON
) -> Response:
    body: JSONObject = {"error": sentence, **({"code": code} if code else {}), **more}
    return JSONResponse(body, status, headers)
