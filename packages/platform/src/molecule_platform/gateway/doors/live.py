"""The live door: events over a WebSocket, replayed from any point and then followed."""

import asyncio
import contextlib
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from molecule_platform.api import pipeline
from molecule_platform.api.pipeline import Receive, Scope, Send
from molecule_platform.api.routes import TABLE
from molecule_platform.domain import authorisation
from molecule_platform.domain.events import Event
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.refusals import Refusal
from molecule_platform.services.feed import PAGE, Feed, Listener
from molecule_platform.services.identity import Identity, Presented

UNAUTHENTICATED, FORBIDDEN, TOO_SLOW = 4001, 4003, 4008
CLIENT_FRAME_MOST = 64 * 1024

_ROUTE = next(route for route in TABLE if route.path == "/ws")


class LiveDoor:
    """Serves WS /ws."""

    def __init__(self, identity: Identity, feed: Feed, external_url: str | None) -> None:
        self._identity = identity
        self._feed = feed
        self._external_url = external_url

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one WebSocket."""
        await receive()
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            if scope["path"].rstrip("/") != "/ws":
                raise Refusal("not-found", "the only WebSocket is /ws")
            principal = await self._admit(scope, headers)
            listener, since = _wanted(principal, scope)
        except Refusal as refusal:
            await send({"type": "websocket.accept"})
            code = UNAUTHENTICATED if refusal.status == 401 else FORBIDDEN
            await send({"type": "websocket.close", "code": code, "reason": refusal.code})
            return
        await send({"type": "websocket.accept"})
        await self._serve(listener, since, receive, send)

    async def _admit(self, scope: Scope, headers: Mapping[str, str]) -> Principal:
        presented = Presented(pipeline.bearer_token(headers), pipeline.session_cookie(headers))
        principal = await self._identity.authenticate(presented)
        own = self._external_url or pipeline.base_url({**scope, "scheme": _http(scope)}, headers)
        if presented.bearer is None and not pipeline.is_own_origin(headers, own):
            raise Refusal("csrf", "a browser may only connect from our own page")
        authorisation.permit(principal, _ROUTE.who, None, None)
        return principal

    async def _serve(self, listener: Listener, since: int | None, receive: Receive, send: Send) -> None:
        self._feed.join(listener)
        reader = asyncio.ensure_future(_read_client(listener, receive, send))
        writer = asyncio.ensure_future(self._write(listener, since, send))
        try:
            await asyncio.wait({reader, writer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._feed.leave(listener)
            for task in (reader, writer):
                task.cancel()
            await asyncio.gather(reader, writer, return_exceptions=True)

    async def _write(self, listener: Listener, since: int | None, send: Send) -> None:
        last = since or 0
        if since is not None:
            last = await self._replay(listener, since, send)
        while not listener.lagged.is_set():
            event = await _next(listener)
            if event is None:
                break
            if event.id is None or event.id > last:
                last = event.id or last
                await _send_frame(send, event)
        with contextlib.suppress(RuntimeError):
            await send(
                {"type": "websocket.close", "code": TOO_SLOW, "reason": "too slow: resume from the last id"}
            )

    async def _replay(self, listener: Listener, since: int, send: Send) -> int:
        last = since
        while True:
            page = await self._feed.history(listener, last)
            for event in page:
                last = event.id or last
                if listener.wants(event):
                    await _send_frame(send, event)
            if len(page) < PAGE:
                return last


async def _next(listener: Listener) -> Event | None:
    """The next event, None when the listener fell behind."""
    getting = asyncio.ensure_future(listener.queue.get())
    lagging = asyncio.ensure_future(listener.lagged.wait())
    try:
        await asyncio.wait({getting, lagging}, return_when=asyncio.FIRST_COMPLETED)
        return getting.result() if getting.done() else None
    finally:
        getting.cancel()
        lagging.cancel()


async def _send_frame(send: Send, event: Event) -> None:
    await send({"type": "websocket.send", "text": msgspec.json.encode(event.frame()).decode()})


async def _read_client(listener: Listener, receive: Receive, send: Send) -> None:
    while True:
        event = await receive()
        if event["type"] == "websocket.disconnect":
            return
        frame = event.get("text") or ""
        if len(frame) > CLIENT_FRAME_MOST:
            return
        try:
            asked: Any = json.loads(frame or "{}")
        except ValueError:
            continue
        await _obey(listener, asked if isinstance(asked, dict) else {}, send)  # pyright: ignore[reportUnknownArgumentType]


async def _obey(listener: Listener, asked: dict[str, Any], send: Send) -> None:
    if asked.get("op") == "ping":
        await send({"type": "websocket.send", "text": '{"op":"pong"}'})
    elif asked.get("op") == "subscribe":
        listener.types = _texts(asked.get("types"))
        listener.workspace_ids = _texts(asked.get("workspace_ids"))


def _wanted(principal: Principal, scope: Scope) -> tuple[Listener, int | None]:
    query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
    since = query.get("since")
    if since is not None and not since.isdigit():
        raise Refusal("invalid-request", "since is the id of an event", field="since")
    types = frozenset(name for name in query.get("types", "").split(",") if name)
    workspaces = frozenset(name for name in query.get("workspace_id", "").split(",") if name)
    return Listener(principal, types, workspaces), None if since is None else int(since)


def _texts(value: Any) -> frozenset[str]:
    return frozenset(str(item) for item in value) if isinstance(value, list) else frozenset()  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _http(scope: Scope) -> str:
    return "https" if scope.get("scheme") == "wss" else "http"
