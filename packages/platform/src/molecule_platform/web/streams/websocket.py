"""The live door: events over a WebSocket, replayed from any point and then followed."""

import asyncio
import contextlib
import json
from functools import partial
from typing import Any, cast

import msgspec

from molecule_a2a import asgi
from molecule_a2a.asgi import Receive, Scope, Send
from molecule_platform.domain import authorisation, events
from molecule_platform.domain.errors import ApiError
from molecule_platform.ports.storage import StorageDown
from molecule_platform.services.events.event_feed import FeedSubscriber, StreamEnd, StreamEnded
from molecule_platform.services.events.subscriptions import EventSubscription, EventSubscriptions
from molecule_platform.web.exchange import as_socket_response, read_head
from molecule_platform.web.pipeline import error_responses, response_headers
from molecule_platform.web.pipeline.authentication import (
    LIVE,
    AdmissionControl,
    AuthContext,
    Authenticator,
    presented_credential,
)
from molecule_platform.web.pipeline.query_parser import MAX_NAMES, names
from molecule_platform.web.pipeline.request import EdgeSettings, Request
from molecule_platform.web.pipeline.route_table import TABLE

UNAUTHENTICATED, FORBIDDEN = 4001, 4003
CLOSING = {
    StreamEnd.SLOW: 4008,
    StreamEnd.REVOKED: 4009,
    StreamEnd.DRAINING: 1012,
    StreamEnd.UNAVAILABLE: 1012,
}
QUIET_SECONDS = 60.0
CLOSING_SECONDS = 5.0

_ROUTE = next(route for route in TABLE if route.path == LIVE)


class EventWebSocket:
    """Serves WS /ws."""

    def __init__(self, gate: AdmissionControl, followers: EventSubscriptions, edge: EdgeSettings) -> None:
        self._door = Authenticator(gate)
        self._followers = followers
        self._edge = edge

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one WebSocket."""
        await receive()
        arrival = Request(read_head(scope), self._edge)
        visit = AuthContext(arrival, identify=partial(asgi.count_connection, scope))
        try:
            self._check_target(visit)
            listener, since = await self._admit(visit)
            await self._serve(listener, since, receive, send)
        except ApiError as refusal:
            shows = presented_credential(arrival, _ROUTE)
            if visit.route is None or not (shows.bearer or shows.session or shows.ticket):
                await self._reject(send, refusal, arrival)
                return
            # A browser can read the code of a closed WebSocket, but not the status of a refused handshake.
            code = UNAUTHENTICATED if refusal.status == 401 else FORBIDDEN
            await _turn_away(send, code, refusal.code)
        except StorageDown:
            await _turn_away(send, CLOSING[StreamEnd.UNAVAILABLE], "platform-unavailable")
        finally:
            visit.close()

    def _check_target(self, visit: AuthContext) -> None:
        arrival = visit.request
        try:
            arrival.check_host()
            arrival.check_text()
            if arrival.path.rstrip("/") != LIVE:
                raise ApiError("not-found", f"the only WebSocket is {LIVE}")
        except ApiError:
            self._door.count_anonymous(visit)
            raise
        visit.route = _ROUTE

    async def _admit(self, visit: AuthContext) -> tuple[FeedSubscriber, int | None]:
        arrival = visit.request
        principal = await self._door.authenticate(visit, _ROUTE)
        authorisation.permit(principal, _ROUTE.who, None, None)
        listener = FeedSubscriber(
            principal, names(arrival.first("types")), names(arrival.first("workspace_id"))
        )
        since = arrival.first("since")
        return listener, events.parse_id(since) if since else None

    async def _reject(self, send: Send, refusal: ApiError, arrival: Request) -> None:
        reply = error_responses.rest(refusal, arrival.request_id)
        headers = response_headers.headers(reply, arrival, {})
        for event in as_socket_response(reply.status, headers, reply.encoded()):
            await send(event)

    async def _serve(self, listener: FeedSubscriber, since: int | None, receive: Receive, send: Send) -> None:
        async with self._followers.follow(listener, since) as follower:
            # Not before: whoever is told that it is connected misses nothing from then on.
            await send({"type": "websocket.accept"})
            tasks: set[asyncio.Task[int | None]] = {
                asyncio.create_task(_read_client(listener, receive, send)),
                asyncio.create_task(_write(follower, send)),
                asyncio.create_task(_until_ended(listener)),
            }
            try:
                ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        code = next((code for task in ended if (code := task.result()) is not None), None)
        if code is not None:
            await _close(send, code)


async def _turn_away(send: Send, code: int, reason: str) -> None:
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.close", "code": code, "reason": reason})


async def _close(send: Send, code: int) -> None:
    """Say why, unless the client takes nothing more."""
    with contextlib.suppress(OSError, RuntimeError, TimeoutError):
        async with asyncio.timeout(CLOSING_SECONDS):
            await send({"type": "websocket.close", "code": code})


async def _until_ended(listener: FeedSubscriber) -> int | None:
    await listener.ended.wait()
    return None if listener.why is None else CLOSING[listener.why]


async def _write(follower: EventSubscription, send: Send) -> int | None:
    try:
        while True:
            for event in await follower.next(QUIET_SECONDS):
                frame = msgspec.json.encode(event.frame()).decode()
                await send({"type": "websocket.send", "text": frame})
    except StreamEnded as ended:
        return CLOSING[ended.why]
    except OSError:
        return None


async def _read_client(listener: FeedSubscriber, receive: Receive, send: Send) -> int | None:
    while True:
        event = await receive()
        if event["type"] == "websocket.disconnect":
            return None
        try:
            asked: Any = json.loads(event.get("text") or "{}")
        except (ValueError, RecursionError):
            continue
        await _obey(listener, asked if isinstance(asked, dict) else {}, send)  # pyright: ignore[reportUnknownArgumentType]


async def _obey(listener: FeedSubscriber, asked: dict[str, Any], send: Send) -> None:
    """`ping` and `subscribe`; an `ack` needs nothing, because a client resumes from the number it names."""
    if asked.get("op") == "ping":
        await send({"type": "websocket.send", "text": '{"op":"pong"}'})
    elif asked.get("op") == "subscribe":
        listener.types = _texts(asked.get("types"))
        listener.workspace_ids = _texts(asked.get("workspace_ids"))


def _texts(value: Any) -> frozenset[str]:
    listed = cast("list[Any]", value) if isinstance(value, list) else []
    return frozenset(str(item) for item in listed[:MAX_NAMES])
