"""The way of a request: id, route, credential, rules, body, handler, reply. One pipeline for every route."""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from molecule_platform.api import errors, router
from molecule_platform.api.calls import Call, Handler, Reply, decode
from molecule_platform.api.router import Match, Router
from molecule_platform.api.routes import TABLE, Route
from molecule_platform.domain import credentials
from molecule_platform.domain.authorisation import PUBLIC
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.refusals import Refusal
from molecule_platform.ports.log import Log
from molecule_platform.ports.storage import StorageDown
from molecule_platform.services.authority import Authority
from molecule_platform.services.identity import Identity, Presented
from molecule_wire import ids

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Fallback = Callable[[str, str], Reply | None]

SESSION_COOKIE = "molecule_session"
LIVE = "/ws"
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")

SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"strict-origin-when-cross-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
)
_API_HEADERS = {"content-security-policy": "default-src 'none'", "cache-control": "no-store"}


@dataclass(frozen=True)
class Edge:
    """What the pipeline is told by the operator."""

    max_body_bytes: int = 1024 * 1024
    a2a_max_body_bytes: int = 16 * 1024 * 1024
    external_url: str | None = None


class Pipeline:
    """Serves the route table, and nothing else but the pages of the canvas. Every row has a handler."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        identity: Identity,
        authority: Authority,
        log: Log,
        edge: Edge,
        fallback: Fallback,
    ) -> None:
        named = {route.name for route in TABLE if route.path != LIVE}
        if named != set(handlers):
            raise RuntimeError(f"routes and handlers differ: {sorted(named ^ set(handlers))}")
        self._handlers = handlers
        self._identity = identity
        self._authority = authority
        self._log = log
        self._edge = edge
        self._fallback = fallback
        self._router = Router([route for route in TABLE if route.path != LIVE])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        request_id = _request_id(headers)
        reply = await self._answer(scope, headers, request_id, receive)
        await _respond(send, reply, request_id, bare=scope["method"] == "HEAD")

    async def _answer(
        self, scope: Scope, headers: dict[str, str], request_id: str, receive: Receive
    ) -> Reply:
        match: Match | None = None
        try:
            match = self._router.match(scope["method"], scope["path"])
            if match is None:
                return self._other(scope)
            return await self._serve(scope, headers, request_id, receive, match)
        except Refusal as refusal:
            return _refused(match, refusal, request_id)
        except StorageDown as problem:
            self._log.error("storage is down", request_id=request_id, problem=str(problem))
            return _refused(match, errors.unavailable(), request_id)
        except Exception as problem:  # noqa: BLE001 - the caller gets an id, the log gets the rest
            self._log.error("request failed", request_id=request_id, path=scope["path"], exc_info=problem)
            return _refused(match, errors.internal(), request_id)

    def _other(self, scope: Scope) -> Reply:
        page = self._fallback(scope["method"], scope["path"])
        if page is None:
            raise Refusal("not-found", f"nothing is served at {scope['path'][:200]}")
        return page

    async def _serve(
        self, scope: Scope, headers: dict[str, str], request_id: str, receive: Receive, match: Match
    ) -> Reply:
        route = match.route
        call = Call(
            route=route,
            path=match.path,
            query=_query(scope),
            headers=headers,
            request_id=request_id,
            base_url=self._edge.external_url or base_url(scope, headers),
            raw=b"",
            disconnected=lambda: _until_disconnected(receive),
            session_token=session_cookie(headers),
        )
        workspace_id = await self._workspace_id(route, match)
        call.path = call.path if workspace_id is None else {**call.path, "id": workspace_id}
        await self._admit(call, workspace_id)
        call.raw = await self._read(route, headers, receive)
        call.body = decode(route, call.raw)
        return await self._handlers[route.name](call)

    async def _workspace_id(self, route: Route, match: Match) -> str | None:
        if not route.gone_first:
            return router.checked_id(match)
        named = match.path["id"].lower()
        if not ids.is_uuid(named) or await self._authority.gone(named):
            extras: dict[str, Any] = {"workspace_id": named[:64], "deleted": True, "status": "removed"}
            raise Refusal("workspace-not-found", f"there is no workspace {named[:64]} here", **extras)
        return named

    async def _admit(self, call: Call, workspace_id: str | None) -> None:
        presented = Presented(bearer_token(call.headers), call.session_token)
        if call.route.is_public and (presented.bearer is None or call.route.who == (PUBLIC,)):
            return
        call.caller = await self._authenticate_or_gone(call, presented)
        if not call.route.is_public and not call.route.admits_itself and not _names_itself(call.route):
            call.admission = await self._authority.admit(call.caller, call.route.who, workspace_id)

    async def _authenticate_or_gone(self, call: Call, presented: Presented) -> Principal:
        try:
            return await self._authenticate(call, presented)
        except Refusal as refusal:
            if refusal.extras.get("removed") is True and (_names_itself(call.route) or call.route.is_public):
                raise Refusal("workspace-removed", "the workspace of this token was removed") from refusal
            raise

    async def _authenticate(self, call: Call, presented: Presented) -> Principal:
        principal = await self._identity.authenticate(presented)
        if presented.bearer is None and call.route.method not in _SAFE_METHODS:
            _check_csrf(call)
        await self._authority.check_org(principal, call.headers.get("x-molecule-org-id"))
        for header in ("x-workspace-id", "x-source-workspace-id"):
            named = call.headers.get(header)
            if named:
                principal = await self._authority.acting_as(principal, named)
        return principal

    async def _read(self, route: Route, headers: Mapping[str, str], receive: Receive) -> bytes:
        if route.body is None and not route.a2a_body:
            return b""
        most = self._edge.a2a_max_body_bytes if route.a2a_body else self._edge.max_body_bytes
        announced = headers.get("content-length", "0")
        if announced.isdecimal() and int(announced) > most:
            raise too_large(most)
        chunks: list[bytes] = []
        size = 0
        while True:
            event = await receive()
            if event["type"] == "http.disconnect":
                raise Refusal("invalid-request", "the connection closed before the body was whole")
            chunks.append(event.get("body", b""))
            size += len(chunks[-1])
            if size > most:
                raise too_large(most)
            if not event.get("more_body"):
                return b"".join(chunks)


def too_large(most: int) -> Refusal:
    """The body is over its limit."""
    return Refusal("payload-too-large", f"the body is larger than {most} bytes", limit_bytes=most)


def base_url(scope: Scope, headers: Mapping[str, str]) -> str:
    """The origin that the caller used."""
    host = headers.get("host") or "{}:{}".format(*(scope.get("server") or ("localhost", 80)))
    return f"{scope.get('scheme', 'http')}://{host}"


def bearer_token(headers: Mapping[str, str]) -> str | None:
    """The token of the Authorization header, if it is one."""
    kind, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" and token.strip() else None


def session_cookie(headers: Mapping[str, str]) -> str | None:
    """The session of the Cookie header, if there is one."""
    for pair in headers.get("cookie", "").split(";"):
        name, _, value = pair.strip().partition("=")
        if name == SESSION_COOKIE and value:
            return value.strip('"')
    return None


def is_own_origin(headers: Mapping[str, str], base: str) -> bool:
    """Whether a browser says that the request comes from our own page."""
    said = headers.get("origin") or headers.get("referer", "")
    parts = urlsplit(said)
    return f"{parts.scheme}://{parts.netloc}" == base


def _query(scope: Scope) -> dict[str, str]:
    query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
    if "\0" in scope["path"] or any("\0" in value for value in query.values()):
        raise Refusal("invalid-request", "no path and no query may contain NUL", field="path")
    return query


def _check_csrf(call: Call) -> None:
    shown = call.headers.get("x-csrf-token", "")
    expected = credentials.csrf_token(call.session_token or "")
    if not credentials.same(shown, expected) or not is_own_origin(call.headers, call.base_url):
        raise Refusal("csrf", "a change from the browser needs X-CSRF-Token and comes from our own page")


def _names_itself(route: Route) -> bool:
    """Routes whose workspace is named in the body: the handler compares it with the token's."""
    return route.name in ("registry.heartbeat", "registry.card")


def _request_id(headers: Mapping[str, str]) -> str:
    given = headers.get("x-request-id", "")
    return given if _REQUEST_ID.fullmatch(given) else ids.uuid7()


def _refused(match: Match | None, refusal: Refusal, request_id: str) -> Reply:
    if match is not None and match.route.errors == "jsonrpc":
        return errors.jsonrpc(refusal, request_id)
    return errors.rest(refusal, request_id)


async def _until_disconnected(receive: Receive) -> None:
    while True:
        if (await receive())["type"] == "http.disconnect":
            return


async def _respond(send: Send, reply: Reply, request_id: str, *, bare: bool) -> None:
    body = reply.encoded()
    own = dict(reply.headers)
    defaults = {**_API_HEADERS, "content-type": reply.content_type, "x-request-id": request_id}
    headers = [*SECURITY_HEADERS]
    headers += [(name.encode(), value.encode("latin-1")) for name, value in {**defaults, **own}.items()]
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if bare else body})
