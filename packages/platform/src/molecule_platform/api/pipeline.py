"""The way of a request: id, route, limits of size, credential, rules, rate, body, handler, reply."""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from molecule_platform.api import arrival as arrivals
from molecule_platform.api import errors, queries, replies, router
from molecule_platform.api.arrival import Arrival, Edge, Scope
from molecule_platform.api.calls import Call, Handler, Reply, decode
from molecule_platform.api.context import REQUEST
from molecule_platform.api.keyed import Keyed
from molecule_platform.api.limits import FAILED_LOGIN_COSTS, Budget, Limits
from molecule_platform.api.route import Route
from molecule_platform.api.router import Match, Router
from molecule_platform.api.routes import TABLE
from molecule_platform.domain import credentials
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.refusals import Refusal
from molecule_platform.ports.log import Log
from molecule_platform.ports.storage import StorageDown
from molecule_platform.services.authority import Authority
from molecule_platform.services.identity import Identity, Presented
from molecule_wire import ids

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Fallback = Callable[[str, str], Reply | None]

LIVE = "/ws"
_NO_HEADERS: dict[str, str] = {}
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


class Observer(Protocol):
    """Somebody who counts requests."""

    def request(self, method: str, path: str, status: int, seconds: float | None) -> None:
        """One request was answered; `path` is the template of its route. A stream has no duration."""
        ...


@dataclass(frozen=True)
class Gate:
    """Who decides whether a request may come in."""

    identity: Identity
    authority: Authority
    limits: Limits
    keyed: Keyed


@dataclass
class _Passage:
    """What is learnt of one request on its way."""

    arrival: Arrival
    receive: Receive
    match: Match | None = None
    caller: Principal | None = None
    budget: Budget | None = None

    @property
    def path(self) -> str:
        """The template of its route."""
        return self.match.route.path if self.match else "(none)"


class Pipeline:
    """Serves the route table, and nothing else but the pages of the canvas. Every row has a handler."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        gate: Gate,
        log: Log,
        edge: Edge,
        fallback: Fallback,
        observer: Observer,
    ) -> None:
        named = {route.name for route in TABLE if route.path != LIVE}
        if named != set(handlers):
            raise RuntimeError(f"routes and handlers differ: {sorted(named ^ set(handlers))}")
        self._handlers = handlers
        self._gate = gate
        self._log = log
        self._edge = edge
        self._fallback = fallback
        self._observer = observer
        self._router = Router([route for route in TABLE if route.path != LIVE])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        began = time.perf_counter()
        passage = _Passage(Arrival(scope, self._edge), receive)
        arrival = passage.arrival
        REQUEST.set(arrival)
        reply = await self._answer(passage)
        extra = replies.cors(arrival, self._edge) if "origin" in arrival.headers else _NO_HEADERS
        if passage.budget is not None:
            extra = {**extra, **passage.budget.headers()}
        await replies.send(send, reply, arrival, extra, lambda: _until_disconnected(receive))
        self._observe(passage, reply, time.perf_counter() - began)

    def _observe(self, passage: _Passage, reply: Reply, seconds: float) -> None:
        method = passage.arrival.method
        self._observer.request(method, passage.path, reply.status, None if reply.stream else seconds)
        if reply.status < 400 and (passage.match is None or passage.match.route.quiet):
            return
        principal = passage.caller.text if passage.caller else ""
        facts = {"method": method, "path": passage.path, "status": reply.status, "principal": principal}
        self._log.info("request", **facts, ms=round(seconds * 1000, 1))

    async def _answer(self, passage: _Passage) -> Reply:
        arrival = passage.arrival
        try:
            if arrival.method == "OPTIONS":
                return replies.preflight()
            passage.match = self._router.match(arrival.method, arrival.path)
            if passage.match is None:
                return self._other(passage)
            return await self._serve(passage, passage.match)
        except Refusal as refusal:
            return _refused(passage, refusal)
        except StorageDown as problem:
            self._log.error("storage is down", problem=str(problem))
            return _refused(passage, errors.unavailable())
        except Exception as problem:  # noqa: BLE001 - the caller gets an id, the log gets the rest
            self._log.error("request failed", path=passage.path, exc_info=problem)
            return _refused(passage, errors.internal())

    def _other(self, passage: _Passage) -> Reply:
        page = self._fallback(passage.arrival.method, passage.arrival.path)
        if page is None:
            self._count_stranger(passage, 1)
            raise Refusal("not-found", f"nothing is served at {passage.arrival.path[:200]}")
        return page

    async def _serve(self, passage: _Passage, match: Match) -> Reply:
        arrival, route = passage.arrival, match.route
        arrival.check_text()
        self._check_announced(route, arrival)
        workspace_id = await self._workspace_id(route, match) if "id" in match.path else None
        path = match.path if workspace_id is None else {**match.path, "id": workspace_id}
        call = Call(route, path, arrival, passage.receive)
        await self._admit(passage, call, workspace_id)
        call.asked = None if route.query is None else queries.read(route.query, arrival.query)
        call.raw = await self._read(route, passage.receive)
        call.body = decode(route, call.raw)
        handler = self._handlers[route.name]
        return await (self._gate.keyed.once(call, handler) if route.creates else handler(call))

    async def _workspace_id(self, route: Route, match: Match) -> str | None:
        if not route.gone_first:
            return router.checked_id(match)
        named = match.path["id"].lower()
        if not ids.is_uuid(named) or await self._gate.authority.gone(named):
            extras: dict[str, Any] = {"workspace_id": named[:64], "deleted": True, "status": "removed"}
            raise Refusal("workspace-not-found", f"there is no workspace {named[:64]} here", **extras)
        return named

    # Who calls, and whether they may

    async def _admit(self, passage: _Passage, call: Call, workspace_id: str | None) -> None:
        presented = _presented(passage.arrival, call.route)
        if call.route.is_public and (presented.bearer is None or call.route.is_for_all):
            self._count_stranger(passage, 1)
            return
        try:
            call.caller = passage.caller = await self._authenticate(call, presented)
        except Refusal as refusal:
            if refusal.status == 401:
                self._count_stranger(passage, FAILED_LOGIN_COSTS)
            if refusal.extras.get("removed") is True and call.route.tells_removed:
                raise Refusal("workspace-removed", "the workspace of this token was removed") from refusal
            raise
        self._count(passage, call.caller)
        if not call.route.is_public and not call.route.admits_itself:
            call.admission = await self._gate.authority.admit(
                call.caller, call.route.who, workspace_id, removed_too=call.route.removed_too
            )

    async def _authenticate(self, call: Call, presented: Presented) -> Principal:
        authority = self._gate.authority
        principal = await self._gate.identity.authenticate(presented)
        if presented.is_cookie and call.route.method not in _SAFE_METHODS:
            self._check_csrf(call)
        org = call.headers.get("x-molecule-org-id")
        if org is not None:
            principal = await authority.check_org(principal, org)
        for header in ("x-workspace-id", "x-source-workspace-id"):
            named = call.headers.get(header)
            if named:
                principal = await authority.acting_as(principal, named, call.request_id)
        return principal

    def _check_csrf(self, call: Call) -> None:
        shown = call.headers.get("x-csrf-token", "")
        expected = credentials.csrf_token(call.session_token or "")
        own = arrivals.is_own_origin(call.headers, call.base_url, self._edge.cors_origins)
        if not credentials.same(shown, expected) or not own:
            raise Refusal("csrf", "a change from the browser needs X-CSRF-Token and comes from our own page")

    # How often

    def _count(self, passage: _Passage, caller: Principal) -> None:
        """One more request of a known caller."""
        route = passage.match.route if passage.match else None
        if route is None or route.unlimited:
            return
        key = caller.text if route.rate is None else f"{route.name} {caller.text}"
        passage.budget = self._gate.limits.take(key, known=True, own=route.rate)
        if passage.budget is not None:
            passage.budget.check()

    def _count_stranger(self, passage: _Passage, cost: int) -> None:
        """One more request that shows no credential, or a wrong one."""
        route = passage.match.route if passage.match else None
        if route is not None and route.unlimited:
            return
        rate = None if route is None else route.rate
        key = f"address {passage.arrival.address}" + (f" {route.name}" if route and rate else "")
        passage.budget = self._gate.limits.take(key, known=False, cost=1 if rate else cost, own=rate)
        if passage.budget is not None:
            passage.budget.check()

    # The body

    def _most(self, route: Route) -> int:
        return self._edge.a2a_max_body_bytes if route.a2a_body else self._edge.max_body_bytes

    def _check_announced(self, route: Route, arrival: Arrival) -> None:
        announced = arrival.headers.get("content-length", "0")
        if announced.isdecimal() and int(announced) > self._most(route):
            raise too_large(self._most(route))

    async def _read(self, route: Route, receive: Receive) -> bytes:
        if route.body is None and not route.a2a_body:
            return b""
        chunks: list[bytes] = []
        size = 0
        while True:
            event = await receive()
            if event["type"] == "http.disconnect":
                raise Refusal("invalid-request", "the connection closed before the body was whole")
            chunks.append(event.get("body", b""))
            size += len(chunks[-1])
            if size > self._most(route):
                raise too_large(self._most(route))
            if not event.get("more_body"):
                return b"".join(chunks)


def too_large(most: int) -> Refusal:
    """The body is over its limit."""
    return Refusal("payload-too-large", f"the body is larger than {most} bytes", limit_bytes=most)


def _presented(arrival: Arrival, route: Route) -> Presented:
    ticket = arrival.first("ticket") if route.stream else None
    return Presented(arrival.bearer, arrival.session, ticket)


def _refused(passage: _Passage, refusal: Refusal) -> Reply:
    match, request_id = passage.match, passage.arrival.request_id
    if match is not None and match.route.errors == "jsonrpc":
        return errors.jsonrpc(refusal, request_id)
    return errors.rest(refusal, request_id)


async def _until_disconnected(receive: Receive) -> None:
    while True:
        if (await receive())["type"] == "http.disconnect":
            return
