"""`AgentApp`: serves A2A 1.0 and 0.3, as JSON-RPC at `/` and as HTTP+JSON below it."""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from molecule_a2a import asgi, handlers
from molecule_a2a.agent_request import AgentRequest, Unauthenticated, local_caller
from molecule_a2a.asgi import ClientGone, Receive, Scope, Send
from molecule_a2a.handlers import Handler
from molecule_wire import JSONObject, answers, ids
from molecule_wire.a2a import errors, operations, sse
from molecule_wire.a2a.server import bindings, requests, service
from molecule_wire.a2a.server.bindings import AgentBusy, refusal
from molecule_wire.a2a.server.card import ServedCard, complete_card, streams
from molecule_wire.a2a.server.records import TurnStore
from molecule_wire.a2a.server.requests import Invocation, RestPath
from molecule_wire.a2a.server.service import Retention, TaskService
from molecule_wire.a2a.server.streams import KEEP_ALIVE_SECONDS, EventStream
from molecule_wire.a2a.server.turns import AnswerInvalid, Turn

Endpoint: TypeAlias = Callable[[AgentRequest], Awaitable[bindings.Response]]
"""Answers a path beside those of A2A, whoever calls."""

Prepare: TypeAlias = Callable[[Invocation, str, Mapping[str, str]], Awaitable[None]]
"""Looks at an operation of a principal before it is done; an A2AError that it raises refuses it."""

Answer: TypeAlias = bindings.Response | EventStream

STREAMING = (operations.STREAM, operations.SUBSCRIBE)

log = logging.getLogger("molecule_a2a")


class Accepted(NamedTuple):
    """A request whose caller may give this agent work."""

    principal: str
    body: bytes


class AgentApp:
    """An ASGI application. `authenticate` gives the name of the caller, or raises Unauthenticated.

    It is asked before the body is read; `check_message` is told the id of the message in it. `admit`
    refuses a new turn by raising AgentBusy. A turn that is called off is told to `interrupt`, or its
    handler's task is cancelled. Tasks that a `store` keeps are known after a restart; nobody is told of an
    end before it is committed there. `endpoints` are further paths, by method and path;
    `rpc_paths` are those of JSON-RPC.

    For an agent that keeps tasks itself: `new_task_id` names a task, `prepare` runs before each operation
    and may let `tasks` adopt those that were kept, and `announces_work` is off where the handler tells
    when the work begins. With `merges_chunks` off, what is numbered does not depend on who reads when.
    """

    def __init__(
        self,
        handler: Handler,
        card: JSONObject,
        *,
        url: str,
        agent_id: str = "agent",
        authenticate: Callable[[AgentRequest], Awaitable[str]] = local_caller,
        check_message: Callable[[str], None] = lambda message_id: None,
        admit: Callable[[], None] | None = None,
        interrupt: Callable[[Turn], object] | None = None,
        store: TurnStore | None = None,
        endpoints: Mapping[tuple[str, str], Endpoint] = MappingProxyType({}),
        rpc_paths: Collection[str] = ("/",),
        max_body_bytes: int = 16 * 1024 * 1024,
        max_body_seconds: float | None = 60.0,
        max_concurrency: int = 16,
        turn_seconds: float | None = 300.0,
        retention: Retention | None = None,
        new_task_id: Callable[[], str] = ids.uuid7,
        prepare: Prepare | None = None,
        announces_work: bool = True,
        merges_chunks: bool = True,
    ) -> None:
        self._handler = handler
        self._handler_kind: handlers.Kind = handlers.kind_of(handler)
        self._prepare = prepare
        self._announces_work = announces_work
        self._agent_id, self._url = agent_id, url
        self._card = complete_card(card, agent_id, url)
        self._served_card = ServedCard()
        self._authenticate = authenticate
        self._check_message = check_message
        self._interrupt = interrupt
        self._endpoints = endpoints
        self._rpc_paths = rpc_paths
        self._max_body_bytes = max_body_bytes
        self._max_body_seconds = max_body_seconds
        self._max_concurrency = max_concurrency
        self._turn_seconds = turn_seconds
        self._running: set[asyncio.Task[Any]] = set()
        self._stopping = False
        self._store = store
        self._uncommitted: list[asyncio.Future[None]] = []
        self._commit_is_due = False
        self.tasks = TaskService(
            lambda: datetime.now(UTC),
            secret=os.urandom(32),
            retention=retention,
            turn_seconds=turn_seconds,
            admit=admit or self._admit,
            store=store,
            new_task_id=new_task_id,
            announces_work=announces_work,
            merges_chunks=merges_chunks,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        request = AgentRequest(scope, receive)
        try:
            answer = await self._answer(request)
        except ClientGone:
            return
        headers: list[tuple[bytes, bytes]] = []
        if isinstance(answer, EventStream):
            for name, value in (("content-type", bindings.EVENT_STREAM), *bindings.STREAM_HEADERS):
                headers.append((name.encode(), value.encode()))
            await asgi.send_stream(receive, send, 200, headers, _frames(answer, self._committed))
            return
        headers.append((b"content-type", answer.media.encode("latin-1")))
        for name, value in answer.headers:
            headers.append((name.encode("latin-1"), value.encode("latin-1")))
        await asgi.send_response(send, answer.status, headers, answer.body)

    def replace_card(self, card: JSONObject) -> None:
        """Show another card from now on."""
        self._card = complete_card(card, self._agent_id, self._url)

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

    async def _answer(self, request: AgentRequest) -> Answer:
        asked = request.scope["path"].rstrip("/") or "/"
        path: RestPath | None = None
        if asked not in self._rpc_paths or request.method != "POST":
            endpoint = self._endpoints.get((request.method, asked))
            if endpoint is not None:
                return await endpoint(request)
            target = requests.route(request.method, asked, self._rpc_paths)
            if isinstance(target, bindings.Response):
                return target
            if target == requests.HEALTH_PATH:
                return bindings.Response(200, b'{"status":"ok"}')
            if target in operations.CARD_PATHS:
                tag = request.fields.get("if-none-match", "")
                return self._served_card.response(self._card, tag, datetime.now(UTC))
            path = target if isinstance(target, RestPath) else None
        accepted = await self.accept(request)
        if isinstance(accepted, bindings.Response):
            return accepted
        invocation = requests.read(path, accepted.body, request.fields, request.query)
        if isinstance(invocation, bindings.Response):
            return invocation
        try:
            self._check_message(invocation.request.message_id or "")
        except Unauthenticated as problem:
            return refusal(401, str(problem), problem.code)
        return await self.perform(invocation, accepted.principal, request.fields)

    async def accept(self, request: AgentRequest) -> Accepted | bindings.Response:
        """Who calls, and the body; or why the request is not taken."""
        try:
            principal = await self._authenticate(request)
            if not asgi.count_connection(request.scope, principal):
                return refusal(429, "you have too many connections: close some first", "rate-limited")
            async with asyncio.timeout(self._max_body_seconds):
                body = await asgi.read_body(request.receive, self._max_body_bytes)
            if body is None:
                limit = self._max_body_bytes
                sentence = f"the body is larger than {limit} bytes"
                return refusal(413, sentence, "payload-too-large", limit_bytes=limit)
        except Unauthenticated as problem:
            return refusal(401, str(problem), problem.code)
        except AgentBusy as busy:
            return busy.response
        except TimeoutError:
            return refusal(408, f"the body did not come within {self._max_body_seconds:g} s")
        return Accepted(principal, body)

    # Operations

    async def perform(self, invocation: Invocation, principal: str, headers: Mapping[str, str]) -> Answer:
        """Do what a caller asks for."""
        try:
            if invocation.request.operation in STREAMING and not streams(self._card):
                raise errors.protocol_error(errors.UNSUPPORTED_OPERATION)
            if self._prepare is not None:
                await self._prepare(invocation, principal, headers)
            begun: list[Turn] = []
            done = self.tasks.perform(invocation, principal, headers, begun.append)
            if isinstance(done, Turn):
                # Here the caller waits for the turn that it began: a task of its own would cost 20 us.
                await (self._run_here(done) if begun else _settled(done))
                done = service.result(invocation, done)
            elif begun:
                self._start(begun[0])
            if isinstance(done, EventStream):
                return done
            await self._committed()
            return done
        except errors.A2AError as problem:
            return invocation.binding.error(problem, invocation.request.operation)
        except AgentBusy as busy:
            return busy.response

    async def _committed(self) -> None:
        """Wait until no crash can lose what callers are told; turns that end together share a commit."""
        if self._store is None or self._store.is_committed:
            return
        committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._uncommitted.append(committed)
        self._commit_soon(self._store)
        await committed

    def _commit_soon(self, store: TurnStore) -> None:
        if not self._commit_is_due:
            self._commit_is_due = True
            asyncio.get_running_loop().call_soon(self._commit, store)

    def _commit(self, store: TurnStore) -> None:
        self._commit_is_due = False
        waiting, self._uncommitted = self._uncommitted, []
        store.commit()
        for committed in waiting:
            if not committed.done():
                committed.set_result(None)

    def _admit(self) -> None:
        if self._stopping:
            raise AgentBusy("the agent is being stopped", "agent-stopping")
        if len(self._running) >= self._max_concurrency:
            raise AgentBusy("the agent is at its capacity")

    def _start(self, turn: Turn) -> None:
        if self._announces_work:
            turn.work()
        running = asyncio.get_running_loop().create_task(self._run(turn))
        running.add_done_callback(self._running.discard)
        self._follow(turn, running)

    async def _run_here(self, turn: Turn) -> None:
        """Run a turn in the task of the request that brought it; a client that goes away does not end it."""
        running = asyncio.current_task()
        assert running is not None
        self._follow(turn, running)
        try:
            await self._run(turn)
        finally:
            self._running.discard(running)

    def _follow(self, turn: Turn, running: "asyncio.Task[Any]") -> None:
        self._running.add(running)
        interrupt = self._interrupt
        turn.on_cancel.append(running.cancel if interrupt is None else lambda: interrupt(turn))

    async def _run(self, turn: Turn) -> None:
        limit = None if self._turn_seconds is None else asyncio.timeout(self._turn_seconds)
        try:
            # Requests that came together are read one after the other, and run then: code that is in the
            # processor's cache already saves a tenth of a small turn.
            await asyncio.sleep(0)
            if turn.is_over:
                return None  # it was called off before it began
            if limit is None:
                said = await handlers.run(self._handler, turn, self._handler_kind)
            else:
                async with limit:
                    said = await handlers.run(self._handler, turn, self._handler_kind)
            if not turn.is_over:
                turn.complete(said)
        except AnswerInvalid as problem:
            name = answers.name_of(self._handler)
            _fail(turn, f"the handler {name} answered wrongly: {problem}", problem)
        except asyncio.CancelledError:
            if not turn.is_over:
                turn.fail("the agent was stopped before it answered", retry=True)
        except Exception as problem:  # noqa: BLE001 - logged, and told to the caller by its class
            if limit is not None and limit.expired():
                return _fail(turn, f"the agent did not answer within {self._turn_seconds} s", problem)
            reference = os.urandom(4).hex()
            _fail(turn, f"internal error: {type(problem).__name__} (ref {reference})", problem)
        finally:
            # Also when nobody waits for the end: its stream was cut, or its caller asked for no answer yet.
            if self._store is not None and not self._store.is_committed:
                self._commit_soon(self._store)


def _fail(turn: Turn, sentence: str, problem: BaseException) -> None:
    log.error("task %s: %s", turn.log.id, sentence, exc_info=problem)
    if not turn.is_over:
        turn.fail(sentence)


async def _settled(turn: Turn) -> None:
    """Wait until the turn is over; that it ends is the runner's promise."""
    if not turn.is_over:
        over = asyncio.get_running_loop().create_future()
        turn.on_end.append(lambda: over.done() or over.set_result(None))
        await over


async def _frames(events: EventStream, committed: Callable[[], Awaitable[None]]) -> AsyncGenerator[bytes]:
    changed, loop = asyncio.Event(), asyncio.get_running_loop()

    def tick() -> None:
        nonlocal timer
        changed.set()
        timer = loop.call_later(KEEP_ALIVE_SECONDS, tick)

    # One timer for the stream: a timeout around each wait took a tenth of an event.
    timer = loop.call_later(KEEP_ALIVE_SECONDS, tick)
    events.log.listeners.append(changed.set)
    try:
        if first := events.take():
            await committed()
            yield first
        while not events.is_over:
            await changed.wait()
            changed.clear()
            frames = events.take()
            if events.is_over:
                await committed()
            if frames or not events.is_over:
                yield frames or sse.KEEP_ALIVE
    finally:
        timer.cancel()
        events.log.listeners.remove(changed.set)
