"""The ASGI application of a served agent: one router for every transport, one shape for every error."""

import asyncio
import functools
import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any

from molecule_a2a.asgi import ClientGone, Receive, Scope, Send
from molecule_skill.errors import AuthError, report_of
from molecule_skill.hosted import GateSettings, RunGate
from molecule_skill.hosted.invocation import DEFAULT_STORE
from molecule_skill.identity import AuthResolver
from molecule_skill.serve import callers
from molecule_skill.serve.a2a import A2ATransport
from molecule_skill.serve.asgi import Answer, AsgiRequest, Response, json_response
from molecule_skill.serve.cards import CardRoutes
from molecule_skill.serve.invoke import InvokeRoutes
from molecule_skill.serve.readers import ReaderCounts
from molecule_skill.serve.runs import RunRoutes
from molecule_skill.store import RunStore, SqliteRunStore, StoreUnavailable
from molecule_wire import JSONObject

Handler = Callable[..., Awaitable[Answer]]

log = logging.getLogger("molecule_skill")


class SkillApp:
    """Serves one agent. It starts with the ASGI lifespan, or with its first request where there is none.

    Public for embedders: `gate`, and `resolver`, which `check_bind` looks at before a server listens.
    """

    def __init__(self, agent: Any, gate: RunGate, resolver: AuthResolver, store: RunStore | None) -> None:
        """`store` is closed with the application, where it belongs to it."""
        self.agent, self.gate, self.resolver = agent, gate, resolver
        self._store = store
        readers = ReaderCounts(lambda run_id: gate.cancel(run_id, None))
        cards = CardRoutes(agent, gate)
        runs = RunRoutes(gate, readers)
        self.runs = runs
        self._readers = readers
        self._a2a = A2ATransport(agent, gate)
        self._invoke = InvokeRoutes(gate, readers).invoke
        self._starting: asyncio.Task[None] | None = None
        self._open: dict[str, Handler] = {"/healthz": cards.health, "/readyz": cards.ready}
        self._cards: dict[str, Handler] = {
            "/.well-known/agent-card.json": cards.a2a_card,
            "/.well-known/agent.json": cards.a2a_card,
            "/.well-known/agent-card": cards.native_card,
            "/.well-known/a2a-skills.json": cards.skills,
            "/.well-known/openapi.json": cards.openapi,
        }
        self._patterns: list[tuple[str, re.Pattern[str], Handler]] = [
            ("GET", re.compile(r"/runs/([^/]+)"), runs.show),
            ("GET", re.compile(r"/runs/([^/]+)/events"), runs.events),
            ("POST", re.compile(r"/runs/([^/]+)/cancel"), runs.cancel),
            ("GET", re.compile(r"/runs/([^/]+)/artifacts/(.+)"), runs.artifact),
            ("POST", re.compile(r"/answers/([^/]+)"), _answering(runs, "answer", "question")),
            ("POST", re.compile(r"/input-requests/([^/]+)"), _answering(runs, "value", "form")),
        ]
        self.extra: list[Callable[[AsgiRequest], Handler | None]] = []
        """Further routes, asked first: the development page adds its own."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._serve(AsgiRequest(scope, receive), send)
        else:
            await send({"type": "websocket.close", "code": 1000})

    async def start(self) -> None:
        """Start the agent; once, whoever asks first."""
        if self._starting is None:
            self._starting = asyncio.create_task(self.gate.start())
        await asyncio.shield(self._starting)

    async def stop(self) -> None:
        """Drain and shut the agent down."""
        self._readers.close()
        await self.gate.close()
        await self._a2a.stop()
        if self._store is not None:
            await self._store.close()

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self.start()
        except Exception as problem:
            log.exception("the agent could not be started")
            await send({"type": "lifespan.startup.failed", "message": type(problem).__name__})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.stop()
        await send({"type": "lifespan.shutdown.complete"})

    async def _serve(self, request: AsgiRequest, send: Send) -> None:
        try:
            if self._starting is None or not self._starting.done():
                await self.start()
            callers.begin_request()
            callers.check_origin(request, self.resolver)
            handler = self._handler(request)
            if handler is None:
                return await self._a2a(request, send)
            answer = await handler(request)
        except ClientGone:
            return None
        except Exception as problem:  # noqa: BLE001 - every error has its answer
            answer = error_response(problem, request)
        if isinstance(answer, Response):
            answer.headers.setdefault("x-request-id", request.request_id)
            if answer.status >= 400:
                answer = _with_request_id(answer, request)
        return await answer.send(request, send)

    def _handler(self, request: AsgiRequest) -> Handler | None:
        """Who answers a request; None for the paths of A2A."""
        path, method = request.path, "GET" if request.method == "HEAD" else request.method
        for extra in self.extra:
            found = extra(request)
            if found is not None:
                return found
        if method == "POST" and path.startswith("/invoke/"):
            return functools.partial(self._invoke, skill=path[len("/invoke/") :])
        path = path.rstrip("/")
        if not path:
            return None
        if method == "GET" and path in self._open:
            return self._open[path]
        if method == "GET" and path in self._cards:
            return self._card(self._cards[path])
        allowed = [verb for verb, pattern, _ in self._patterns if pattern.fullmatch(path)]
        for verb, pattern, handler in self._patterns:
            found_path = pattern.fullmatch(path)
            if found_path and verb == method:
                return _with_names(handler, found_path.groups())
        if allowed or path.startswith("/invoke/") or path in self._open or path in self._cards:
            return _method_not_allowed(
                allowed or (["POST"] if path.startswith("/invoke/") else ["GET", "HEAD"])
            )
        return None

    def _card(self, handler: Handler) -> Handler:
        """Cards are for whoever may call the agent, unless it is marked public."""
        if self.agent.capabilities.get("public") is True:
            return handler

        async def identified(request: AsgiRequest) -> Answer:
            await self.runs.identify(request)
            return await handler(request)

        return identified


def make_app(
    agent: Any,
    *,
    resolver: AuthResolver | None,
    store: RunStore | None,
    grants: Any,
    sandboxes: Any,
    owns_store: bool = True,
    **settings: Any,
) -> SkillApp:
    """See `build_app`; further settings are those of the gate."""
    if grants is not None:
        raise ValueError("file grants are not supported yet: leave grants out")
    instance = agent() if isinstance(agent, type) else agent
    chosen = callers.choose_resolver(instance, resolver)
    kept: RunStore = SqliteRunStore(DEFAULT_STORE) if store is None else store
    gate = RunGate(
        instance, kept, GateSettings(resolver=callers.OncePerRequest(chosen), sandboxes=sandboxes, **settings)
    )
    return SkillApp(instance, gate, chosen, kept if owns_store else None)


def error_response(problem: Exception, request: AsgiRequest) -> Response:
    """Any exception as an answer; one that is not ours is logged and told by its class alone."""
    if isinstance(problem, StoreUnavailable):
        log.error("the run store cannot be used: %s", problem)
        body: JSONObject = {
            "error": f"the run store cannot be used: {problem}",
            "code": "platform-unavailable",
        }
        return json_response({**body, "retry_after": 5}, 503, {"retry-after": "5"})
    report = report_of(problem)
    if report.status == 500 and report.code == "skill-failed":
        log.error("request %s failed", request.request_id, exc_info=problem)
    status = 409 if report.status == 499 else report.status
    headers = dict[str, str]()
    if isinstance(problem, AuthError) and status == 401:
        headers["www-authenticate"] = "Bearer"
    retry_after = report.extras.get("retry_after")
    if status == 503:
        headers["retry-after"] = str(int(retry_after)) if isinstance(retry_after, int | float) else "5"
    return json_response({**report.extras, "error": report.sentence, "code": report.code}, status, headers)


def _with_request_id(answer: Response, request: AsgiRequest) -> Response:
    """The three members that every error has, and `detail` for original clients."""
    from molecule_wire import jsontext

    if answer.media != "application/json" or not answer.body:
        return answer
    body = jsontext.decode(answer.body)
    if isinstance(body, dict) and "error" in body:
        body = {**body, "request_id": request.request_id, "detail": body["error"]}
        answer.body = jsontext.encode(body)
    return answer


def _with_names(handler: Handler, names: tuple[str, ...]) -> Handler:
    async def answer(request: AsgiRequest) -> Answer:
        return await handler(request, *names)

    return answer


def _answering(runs: RunRoutes, member: str, kind: str) -> Handler:
    async def answer(request: AsgiRequest, request_id: str) -> Answer:
        return await runs.answer(request, request_id, member, kind)

    return answer


def _method_not_allowed(allowed: list[str]) -> Handler:
    async def refuse(request: AsgiRequest) -> Answer:
        body: JSONObject = {"error": f"use {' or '.join(allowed)} here", "code": "method-not-allowed"}
        return json_response(body, 405, {"allow": ", ".join(allowed)})

    return refuse
