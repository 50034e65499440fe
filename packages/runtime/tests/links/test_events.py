"""The event link against a real WebSocket server."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from websockets.asyncio.server import ServerConnection, serve

from molecule_runtime.links import tokens
from molecule_runtime.links.events import EventLink
from molecule_runtime.links.time_source import TimeSource
from molecule_wire import JSONObject


class Feed:
    """Sends the frames of each connection in turn, then closes it; the last stays open."""

    def __init__(self, *connections: list[Any]) -> None:
        self.connections = list(connections)
        self.queries: list[dict[str, list[str]]] = []
        self.tokens: list[str] = []

    async def answer(self, connection: ServerConnection) -> None:
        assert connection.request is not None
        self.queries.append(parse_qs(urlsplit(connection.request.path).query))
        self.tokens.append(connection.request.headers["Authorization"])
        for frame in self.connections.pop(0):
            await connection.send(frame if isinstance(frame, str) else json.dumps(frame))
        if not self.connections:
            await connection.wait_closed()


@asynccontextmanager
async def listening(feed: Feed, events: "asyncio.Queue[str]") -> AsyncGenerator[None]:
    def handle(name: str, event: JSONObject) -> None:
        if name == "BROKEN":
            raise RuntimeError("a handler's mistake")
        events.put_nowait(f"{name} {event.get('workspace_id')}")

    async with serve(feed.answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        link = EventLink(f"http://127.0.0.1:{port}", ["A", "B"], handle)
        running = asyncio.create_task(link.run())
        try:
            yield
        finally:
            running.cancel()


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "get_token", lambda: "t-1")


async def test_events_are_heard_and_a_lost_connection_goes_on_after_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("molecule_runtime.links.events.FIRST_PAUSE_SECONDS", 0.01)
    first = [{"id": "7", "event": "A", "workspace_id": "w"}]
    feed, events = Feed(first, [{"id": "8", "event": "B", "workspace_id": "x"}]), asyncio.Queue[str]()
    async with listening(feed, events):
        names = [await asyncio.wait_for(events.get(), 5) for _ in range(2)]
    assert names == ["A w", "B x"]
    assert feed.queries == [{"types": ["A,B"]}, {"types": ["A,B"], "since": ["7"]}]
    assert feed.tokens == ["Bearer t-1"] * 2


async def test_a_frame_that_is_no_event_and_a_handler_that_fails_cost_no_later_event() -> None:
    frames = ["not json", "[]", {"event": 1}, {"id": "1", "event": "BROKEN"}, {"id": "2", "event": "A"}]
    feed, events = Feed(frames), asyncio.Queue[str]()
    async with listening(feed, events):
        assert await asyncio.wait_for(events.get(), 5) == "A None"


async def test_a_connection_that_breaks_after_it_was_good_is_made_again_soon() -> None:
    async def breaks(connection: ServerConnection) -> None:
        connection.transport.abort()

    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 4:
            raise asyncio.CancelledError

    async with serve(breaks, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        link = EventLink(
            f"http://127.0.0.1:{port}", ["A"], lambda name, event: None, time_source=TimeSource(sleep=sleep)
        )
        with pytest.raises(asyncio.CancelledError):
            await link.run()
    assert max(waits) <= 1.25
