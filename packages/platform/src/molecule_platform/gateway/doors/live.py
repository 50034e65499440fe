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
from molecule_platform.domain import authorisation, events
from molecule_platform.domain.events import Event
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.refusals import Refusal
from molecule_platform.services.bells import CREDENTIALS, Bells
from molecule_platform.services.feed import PAGE, Feed, Listener
from molecule_platform.services.identity import Identity, Presented

UNAUTHENTICATED, FORBIDDEN, TOO_SLOW, REVOKED = 4001, 4003, 4008, 4009
LOOK_AGAIN_SECONDS = 15.0
CLIENT_FRAME_MOST = 64 * 1024

_ROUTE = next(route for route in TABLE if route.path == "/ws")


class LiveDoor:
    """Serves WS /ws."""

    def __init__(self, identity: Identity, bells: Bells, feed: Feed, external_url: str | None) -> None:
        self._identity = identity
        self._bells = bells
        self._feed = feed
        self._external_url = external_url

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one WebSocket."""
        await receive()
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            if scope["path"].rstrip("/") != "/ws":
                raise Refusal("not-found", "the only WebSocket is /ws")
            presented = Presented(pipeline.bearer_token(headers), pipeline.session_cookie(headers))
            principal = await self._admit(scope, headers, presented)
            listener, since = _wanted(principal, scope)
        except Refusal as refusal:
            await send({"type": "websocket.accept"})
            code = UNAUTHENTICATED if refusal.status == 401 else FORBIDDEN
            await send({"type": "websocket.close", "code": code, "reason": refusal.code})
            return
        await send({"type": "websocket.accept"})
        await self._serve(listener, since, presented, receive, send)

    async def _admit(self, scope: Scope, headers: Mapping[str, str], presented: Presented) -> Principal:
        principal = await self._identity.authenticate(presented)
        own = self._external_url or pipeline.base_url({**scope, "scheme": _http(scope)}, headers)
        if presented.bearer is None and not pipeline.is_own_origin(headers, own):
            raise Refusal("csrf", "a browser may only connect from our own page")
        authorisation.permit(principal, _ROUTE.who, None, None)
        return principal

    async def _serve(
        self, listener: Listener, since: int | None, presented: Presented, receive: Receive, send: Send
    ) -> None:
        self._feed.join(listener)
        tasks: set[asyncio.Task[int | None]] = {
            asyncio.create_task(_read_client(listener, receive, send)),
            asyncio.create_task(self._write(listener, since, send)),
            asyncio.create_task(self._until_revoked(presented)),
        }
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._feed.leave(listener)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        closing = next((code for task in ended if (code := task.result()) is not None), None)
        if closing is not None:
            with contextlib.suppress(RuntimeError):
                await send({"type": "websocket.close", "code": closing})

    async def _until_revoked(self, presented: Presented) -> int | None:
        """Ends when the credential that opened the socket is no longer good."""

        async def look() -> int | None:
            try:
                await self._identity.authenticate(presented)
            except Refusal:
                return REVOKED
            return None

        while True:
            revoked = await self._bells.wait_for(CREDENTIALS, look, LOOK_AGAIN_SECONDS, LOOK_AGAIN_SECONDS)
            if revoked is not None:
                return revoked

    async def _write(self, listener: Listener, since: int | None, send: Send) -> int | None:
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
        return TOO_SLOW

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


async def _read_client(listener: Listener, receive: Receive, send: Send) -> int | None:
    while True:
        event = await receive()
        if event["type"] == "websocket.disconnect":
            return None
        frame = event.get("text") or ""
        if len(frame) > CLIENT_FRAME_MOST:
            return TOO_SLOW
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
    types = frozenset(name for name in query.get("types", "").split(",") if name)
    workspaces = frozenset(name for name in query.get("workspace_id", "").split(",") if name)
    return Listener(principal, types, workspaces), None if since is None else events.parse_id(since)


def _texts(value: Any) -> frozenset[str]:
    return frozenset(str(item) for item in value) if isinstance(value, list) else frozenset()  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _http(scope: Scope) -> str:
    return "https" if scope.get("scheme") == "wss" else "http"
