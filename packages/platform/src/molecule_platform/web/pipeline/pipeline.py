"""The way of a request: id, route, limits of size, credential, rate, rules, body, handler, reply."""

import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from molecule_platform.domain import errors as domain_errors
from molecule_platform.domain.errors import ApiError
from molecule_platform.ports.log import Log
from molecule_platform.ports.storage import StorageDown
from molecule_platform.services.identity.authentication import EndedWithWorkspace
from molecule_platform.services.support.worker_thread import run_in_thread_if_large
from molecule_platform.web.exchange import HttpExchange, pieces
from molecule_platform.web.pipeline import error_responses, query_parser, response_headers
from molecule_platform.web.pipeline.authentication import LIVE, AdmissionControl, AuthContext, Authenticator
from molecule_platform.web.pipeline.calls import Call, Handler, Response, decode
from molecule_platform.web.pipeline.log_sampling import LogSampler
from molecule_platform.web.pipeline.request import EdgeSettings, Request
from molecule_platform.web.pipeline.request_context import REQUEST
from molecule_platform.web.pipeline.request_limits import (
    BodyBudget,
    BodyReader,
    too_large,
)
from molecule_platform.web.pipeline.route_table import TABLE
from molecule_platform.web.pipeline.router import Match, Router
from molecule_wire import ids, times

Fallback = Callable[[str, str], Response | None]

_NO_HEADERS: dict[str, str] = {}
_SHAPES: dict[str, Callable[[ApiError, str], Response]] = {
    "rest": error_responses.rest,
    "jsonrpc": error_responses.jsonrpc,
    "a2a": error_responses.a2a,
    "a2a-rpc": error_responses.a2a_rpc,
}
# What lies below is A2A's, also where nothing is served.
_A2A_BASE = "/agents/"


class Observer(Protocol):
    """Somebody who counts requests."""

    def request(self, method: str, path: str, status: int, seconds: float | None) -> None:
        """One request was answered; `path` is the template of its route. A stream has no duration."""
        ...


@dataclass(slots=True)
class _RequestContext(AuthContext):
    """A visit over HTTP; its body is still to be received."""

    exchange: HttpExchange = field(kw_only=True)
    work: BodyBudget | None = None
    # The outage that the request met, if any.
    outage: str | None = None

    @property
    def path(self) -> str:
        """The template of its route."""
        return self.route.path if self.route else "(none)"


class AccessLogEntry:
    """What is told of a request once it is answered. An answer may take hours, so it holds little."""

    __slots__ = (
        "_pipeline",
        "arrival",
        "began",
        "is_quiet",
        "outage",
        "path",
        "place",
        "principal",
        "status",
    )

    def __init__(self, pipeline: "Pipeline", passage: _RequestContext, status: int, began: float) -> None:
        self._pipeline = pipeline
        self.arrival = passage.request
        self.path = passage.path
        self.place = passage.slot
        self.status = status
        self.principal = passage.caller.text if passage.caller else ""
        self.is_quiet = status < 400 and (passage.route is None or passage.route.quiet)
        self.began = began
        self.outage = passage.outage

    def close(self) -> None:
        """A stream has ended, which has no duration."""
        if self.place is not None:
            self.place.release()
        self._pipeline.observe(self, None)


class Pipeline:
    """Serves the route table, and nothing else but the pages of the canvas. Every row has a handler."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        gate: AdmissionControl,
        log: Log,
        edge: EdgeSettings,
        fallback: Fallback,
        observer: Observer,
    ) -> None:
        named = {route.name for route in TABLE if route.path != LIVE}
        if named != set(handlers):
            raise RuntimeError(f"routes and handlers differ: {sorted(named ^ set(handlers))}")
        self._handlers = handlers
        self._gate = gate
        self._door = Authenticator(gate)
        self._log = log
        self._edge = edge
        self._bodies = BodyReader(edge)
        self._refusals = LogSampler()
        self._fallback = fallback
        self._observer = observer
        self._router = Router([route for route in TABLE if route.path != LIVE])

    async def __call__(self, exchange: HttpExchange) -> None:
        """Answer one HTTP request."""
        began = time.perf_counter()
        arrival = Request(exchange.head, self._edge)
        passage = _RequestContext(arrival, identify=exchange.identify, exchange=exchange)
        REQUEST.set(arrival)
        try:
            reply = await self._answer(passage)
        except BaseException:
            passage.close()
            raise
        finally:
            if passage.work is not None:
                passage.work.close()
        headers = self._headers(passage, reply)
        seen = AccessLogEntry(self, passage, reply.status, began)
        stream = reply.stream
        if stream is None:
            passage.close()
            await exchange.respond(reply.status, headers, reply.encoded())
            self.observe(seen, time.perf_counter() - began)
            return
        arrival.release()
        del passage
        if reply.length is not None:
            headers.append((b"content-length", b"%d" % reply.length))
        chunks = stream if isinstance(stream, AsyncGenerator) else pieces(stream)
        try:
            await exchange.stream(reply.status, headers, chunks)
        finally:
            seen.close()

    def _headers(self, passage: _RequestContext, reply: Response) -> list[tuple[bytes, bytes]]:
        arrival = passage.request
        extra = response_headers.cors(arrival, self._edge) if "origin" in arrival.headers else _NO_HEADERS
        if passage.budget is not None:
            extra = {**extra, **passage.budget.headers()}
        return response_headers.headers(reply, arrival, extra)

    def observe(self, seen: "AccessLogEntry", seconds: float | None) -> None:
        """Count a request that was answered, and log it unless that is routine."""
        method = seen.arrival.method
        self._observer.request(method, seen.path, seen.status, seconds)
        if seen.is_quiet:
            return
        facts: dict[str, Any] = {"method": method, "path": seen.path, "status": seen.status}
        facts["principal"] = seen.principal
        if seen.outage is not None:
            facts["problem"] = seen.outage
        if seen.status >= 400 and (not seen.principal or seen.status == 429 or seen.outage is not None):
            # Refusing costs nothing; writing a line about each would.
            left_out = self._refusals.take()
            if left_out is None:
                return
            facts |= {"left_out": left_out} if left_out else {}
        took = time.perf_counter() - seen.began if seconds is None else seconds
        # A stream may end in a place where another request is served, or none.
        token = REQUEST.set(seen.arrival)
        self._log.info("request", **facts, ms=round(took * 1000, 1))
        REQUEST.reset(token)

    async def _answer(self, passage: _RequestContext) -> Response:
        arrival = passage.request
        try:
            if arrival.method == "OPTIONS":
                return response_headers.preflight()
            match = self._matched(passage)
            # Probes come by any address, and are told nothing that names one.
            if match is None or not match.route.unlimited:
                self._check_host(passage)
            return self._other(passage) if match is None else await self._serve(passage, match)
        except ApiError as refusal:
            return _refused(passage, refusal)
        except StorageDown as problem:
            passage.outage = str(problem)
            return _refused(passage, error_responses.unavailable())
        except Exception as problem:  # noqa: BLE001 - the caller gets an id, the log gets the rest
            self._log.error("request failed", path=passage.path, exc_info=problem)
            return _refused(passage, error_responses.internal())

    def _matched(self, passage: _RequestContext) -> Match | None:
        try:
            match = self._router.match(passage.request.method, passage.request.path)
        except ApiError:
            self._door.count_anonymous(passage)
            raise
        passage.route = None if match is None else match.route
        return match

    def _check_host(self, passage: _RequestContext) -> None:
        try:
            passage.request.check_host()
        except ApiError:
            self._door.count_anonymous(passage)
            raise

    def _other(self, passage: _RequestContext) -> Response:
        page = self._fallback(passage.request.method, passage.request.path)
        if page is None:
            self._door.count_anonymous(passage)
            if passage.request.path.rstrip("/") == LIVE:
                raise ApiError("invalid-request", f"{LIVE} is a WebSocket: connect with an upgrade")
            raise ApiError("not-found", f"nothing is served at {passage.request.path[:200]}")
        return page

    async def _serve(self, passage: _RequestContext, match: Match) -> Response:
        arrival, exchange, route = passage.request, passage.exchange, match.route
        most = self._edge.max_bytes(route.limit)
        arrival.check_text()
        _check_announced(arrival, most)
        call = Call(route, match.path, arrival, exchange)
        await (self._authenticate_removed if route.gone_first else self._authenticate)(passage, call)
        call.slot = passage.slot
        call.path = match.values
        if not (route.is_public or route.admits_itself):
            await self._authorize(call, match)
        if route.query is not None:
            call.query_params = query_parser.read(route.query, arrival.query)
        if route.takes_body:
            call.raw = await self._received(passage, most)
            if self._edge.json.needs_scan(call.raw):
                await self._bodies.scan(call.raw)
            if route.body is not None:
                call.body = await run_in_thread_if_large(len(call.raw), partial(decode, route.body, call.raw))
        if exchange.is_disconnected:
            raise ApiError("invalid-request", "the caller closed the connection before its turn came")
        handler = self._handlers[route.name]
        return await (
            self._gate.idempotent_handler.run_once(call, handler) if route.creates else handler(call)
        )

    async def _received(self, passage: _RequestContext, most: int) -> bytes:
        caller = passage.caller
        passage.work = self._bodies.account(caller.text if caller else f"address {passage.request.address}")
        return await self._bodies.read(passage.exchange, most, passage.work)

    # Who calls, and whether they may

    async def _authenticate_removed(self, passage: _RequestContext, call: Call) -> None:
        """Tell everyone of a workspace that it is gone, and strangers the same of one that is unclaimed."""
        named = call.path["id"].lower()
        presence = await self._gate.authority.presence(named) if ids.is_uuid(named) else "gone"
        if presence == "known":
            return await self._authenticate(passage, call)
        try:
            # At no cost to a stranger: many agents behind one address may be removed at once.
            call.caller = await self._door.authenticate(passage, call.route, stranger_cost=0)
        except ApiError as refusal:
            if refusal.code == "rate-limited":
                raise
            raise _deleted(named) from refusal
        if presence == "gone":
            raise _deleted(named)
        return None

    async def _authenticate(self, passage: _RequestContext, call: Call) -> None:
        route = call.route
        if route.is_public and (route.is_for_all or not _shows_credential(passage.request)):
            self._door.count_anonymous(passage)
            return
        try:
            call.caller = await self._door.authenticate(passage, route)
        except EndedWithWorkspace as ended:
            if not route.tells_removed:
                raise
            at = None if ended.at is None else times.format_time(ended.at)
            raise domain_errors.workspace_removed(ended.workspace_id, at) from ended

    async def _authorize(self, call: Call, match: Match) -> None:
        route = call.route
        try:
            call.access = await self._gate.authority.authorize(
                call.principal, route.who, match.workspace_id, removed_too=route.removed_too
            )
        except ApiError as refusal:
            if route.gone_first and refusal.code == "workspace-not-found":
                raise _deleted(match.workspace_id or "") from refusal
            raise


def _deleted(named: str) -> ApiError:
    """What a route that tells of ends says of an id that is unknown, removed, or unknown to who asks."""
    extras: dict[str, Any] = {"workspace_id": named[:64], "deleted": True, "status": "removed"}
    return ApiError("workspace-not-found", f"there is no workspace {named[:64]} here", **extras)


def _check_announced(arrival: Request, most: int) -> None:
    announced = arrival.headers.get("content-length", "0")
    if announced.isdecimal() and int(announced) > most:
        raise too_large(most)


def _shows_credential(arrival: Request) -> bool:
    """Whether a visit to a route that needs no credential shows one; a cookie counts for reading alone."""
    return arrival.bearer is not None or (arrival.method in ("GET", "HEAD") and arrival.session is not None)


def _refused(passage: _RequestContext, refusal: ApiError) -> Response:
    unserved = "a2a" if passage.request.path.startswith(_A2A_BASE) else "rest"
    shape = unserved if passage.route is None else passage.route.errors
    return _SHAPES[shape](refusal, passage.request.request_id)
