"""The live door: events from any point, without gap or repeat, for those who may see them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, MutableMapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from molecule_platform.services.events import event_feed, subscriptions

if TYPE_CHECKING:
    from packages.platform.tests.conftest import Eventually, Visitor

SECONDS = 30.0


class Socket:
    """One WebSocket, from the browser's side."""

    def __init__(self) -> None:
        self.to_server: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.from_server: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.to_server.put_nowait({"type": "websocket.connect"})
        self.reads = asyncio.Event()
        self.reads.set()

    async def send(self, event: MutableMapping[str, Any]) -> None:
        await self.reads.wait()
        await self.from_server.put(dict(event))

    async def next(self) -> dict[str, Any]:
        return await asyncio.wait_for(self.from_server.get(), SECONDS)

    async def frame(self) -> dict[str, Any]:
        return json.loads((await self.next())["text"])

    async def named(self, name: str) -> dict[str, Any]:
        while (frame := await self.frame()).get("event") != name:
            continue
        return frame

    def say(self, text: str) -> None:
        self.to_server.put_nowait({"type": "websocket.receive", "text": text})


@asynccontextmanager
async def connected(
    visit: Visitor, query: str = "", path: str = "/ws", **headers: str
) -> AsyncGenerator[Socket]:
    socket = Socket()
    sent = {"host": "platform", **headers} if headers else visit.headers()
    scope = {
        "type": "websocket",
        "path": path,
        "scheme": "ws",
        "query_string": query.encode(),
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in sent.items()],
    }
    serving = asyncio.ensure_future(visit.platform(scope, socket.to_server.get, socket.send))
    yield socket
    socket.to_server.put_nowait({"type": "websocket.disconnect"})
    await asyncio.wait_for(serving, SECONDS)


async def closed(socket: Socket) -> tuple[int, str]:
    event = await socket.next()
    while event["type"] != "websocket.close":
        event = await socket.next()
    return event["code"], event.get("reason", "")


async def test_what_happens_is_seen_at_once(visit: Visitor) -> None:
    async with connected(visit) as socket:
        assert (await socket.next())["type"] == "websocket.accept"
        ada, _ = await visit.workspace()
        frame = await socket.named("WORKSPACE_AWAITING_AGENT")
        assert frame["workspace_id"] == ada
        assert set(frame) == {"id", "event", "workspace_id", "timestamp", "payload"}


async def test_the_past_is_replayed_from_any_point_and_then_followed(
    visit: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "PAGE", 2)
    for number in range(5):
        await visit.workspace(f"W{number}")
    async with connected(visit, "since=0") as socket:
        await socket.next()
        await visit.workspace("W5")
        frames = [await socket.named("WORKSPACE_AWAITING_AGENT") for _ in range(6)]
    assert [frame["payload"]["name"] for frame in frames] == [f"W{number}" for number in range(6)]
    async with connected(visit, f"since={frames[3]['id']}") as socket:
        await socket.next()
        assert (await socket.frame())["payload"]["name"] == "W4"


async def test_a_listener_may_ask_for_less_at_first_and_later(visit: Visitor) -> None:
    async with connected(visit, "types=WORKSPACE_ONLINE") as socket:
        await socket.next()
        ada, _ = await visit.agent("Ada")
        assert (await socket.frame())["event"] == "WORKSPACE_ONLINE"
        socket.say(json.dumps({"op": "subscribe", "types": ["WORKSPACE_PAUSED"], "workspace_ids": [ada]}))
        socket.say("{}")
        socket.say("no JSON")
        socket.say("[]")
        socket.say(json.dumps({"op": "ack", "id": "1"}))
        socket.say(json.dumps({"op": "ping"}))
        assert await socket.frame() == {"op": "pong"}
        bob, _ = await visit.agent("Bob")
        for workspace in (bob, ada):
            await visit("POST", f"/workspaces/{workspace}/pause")
        frame = await socket.frame()
        assert (frame["event"], frame["workspace_id"]) == ("WORKSPACE_PAUSED", ada)


@pytest.mark.parametrize(
    ("query", "path", "headers", "code", "reason"),
    [
        ("", "/ws", {"authorization": "Bearer made up"}, 4001, "invalid-token"),
        ("since=x", "/ws", {}, 4003, "invalid-request"),
        ("since=\u00b2", "/ws", {}, 4003, "invalid-request"),
    ],
)
async def test_whoever_may_not_listen_is_told_why(
    visit: Visitor, query: str, path: str, headers: dict[str, str], code: int, reason: str
) -> None:
    async with connected(visit, query, path, **headers) as socket:
        assert await closed(socket) == (code, reason)


@pytest.mark.parametrize(
    ("path", "headers", "status", "code"),
    [
        ("/ws", {"x": "y"}, 401, "unauthenticated"),
        ("/elsewhere", {}, 404, "not-found"),
        ("/ws", {"host": "evil"}, 421, "misdirected-request"),
    ],
)
async def test_a_handshake_without_a_credential_or_for_another_place_is_refused(
    visit: Visitor, path: str, headers: dict[str, str], status: int, code: str
) -> None:
    async with connected(visit, path=path, **headers) as socket:
        head, body = await socket.next(), await socket.next()
    assert (head["type"], head["status"]) == ("websocket.http.response.start", status)
    assert json.loads(body["body"])["code"] == code


async def test_a_workspace_listens_to_what_concerns_it(visit: Visitor) -> None:
    ada, token = await visit.agent("Ada")
    bob, _ = await visit.agent("Bob")
    stranger, _ = await visit.workspace("Stranger", parent_id=bob)
    async with connected(visit, authorization=f"Bearer {token}") as socket:
        await socket.next()
        for workspace in (stranger, bob, ada):
            await visit("POST", f"/workspaces/{workspace}/pause")
        assert (await socket.named("WORKSPACE_PAUSED"))["workspace_id"] == bob
        assert (await socket.named("WORKSPACE_PAUSED"))["workspace_id"] == ada


async def test_a_token_without_the_scope_may_not_listen(visit: Visitor) -> None:
    ada, _ = await visit.agent("Ada")
    minted = await visit("POST", f"/workspaces/{ada}/tokens", {"scopes": ["ws.inbox"]})
    async with connected(visit, authorization=f"Bearer {minted.json['auth_token']}") as socket:
        assert await closed(socket) == (4003, "scope-required")


async def test_a_listener_that_names_another_workspace_as_its_own_is_turned_away(visit: Visitor) -> None:
    _, token = await visit.agent("Ada")
    bob, _ = await visit.agent("Bob")
    async with connected(visit, authorization=f"Bearer {token}", x_workspace_id=bob) as socket:
        assert await closed(socket) == (4003, "identity-mismatch")


async def test_a_ticket_opens_one_socket_as_whoever_asked_for_it(visit: Visitor) -> None:
    ada, token = await visit.agent("Ada")
    ticket = (await visit("POST", "/auth/ticket", {}, token=token)).json["ticket"]
    async with connected(visit, f"ticket={ticket}", x="y") as socket:
        assert (await socket.next())["type"] == "websocket.accept"
        await visit("POST", f"/workspaces/{ada}/pause")
        assert (await socket.named("WORKSPACE_PAUSED"))["workspace_id"] == ada
    async with connected(visit, f"ticket={ticket}", x="y") as socket:
        assert await closed(socket) == (4001, "invalid-token")


async def test_a_socket_opened_with_a_ticket_closes_with_the_credential_behind_it(visit: Visitor) -> None:
    ada, _ = await visit.agent("Ada")
    minted = (await visit("POST", f"/workspaces/{ada}/tokens", {})).json
    ticket = (await visit("POST", "/auth/ticket", {}, token=minted["auth_token"])).json["ticket"]
    async with connected(visit, f"ticket={ticket}", x="y") as socket:
        await socket.next()
        tokens = (await visit("GET", f"/workspaces/{ada}/tokens")).json["tokens"]
        mine = next(one["id"] for one in tokens if minted["auth_token"].startswith(one["prefix"]))
        await visit("DELETE", f"/workspaces/{ada}/tokens/{mine}")
        assert (await closed(socket))[0] == 4009


async def test_a_listener_whose_past_is_forgotten_is_told_to_read_anew(breaking: Visitor) -> None:
    await breaking.workspace("Ada")

    storage = breaking.platform._services.feed._storage
    long_after = datetime.now(UTC) + timedelta(days=1)
    await storage.write(lambda tx: tx.events.prune(long_after, 1))
    async with connected(breaking, "since=0") as socket:
        await socket.next()
        frame = await socket.frame()
        oldest = await storage.read(lambda tx: tx.events.oldest_kept())
        assert (frame["event"], frame["payload"]) == ("RESYNC_REQUIRED", {"oldest_id": str(oldest)})


async def test_a_house_that_stops_says_so_to_its_listeners(breaking: Visitor) -> None:
    async with connected(breaking) as socket:
        await socket.next()
        await breaking.platform.drain()
        assert (await closed(socket))[0] == 1012
    async with connected(breaking) as socket:
        assert (await closed(socket))[0] == 1012


@pytest.mark.parametrize(("origin", "allowed"), [("http://platform", True), ("http://evil", False)])
async def test_a_browser_listens_from_our_own_page_only(visit: Visitor, origin: str, allowed: bool) -> None:
    code = (await visit("POST", "/auth/login-codes", {"user": "ann", "role": "viewer"})).json["code"]
    signed_in = await visit("POST", "/auth/login", {"code": code}, token=None)
    cookie = signed_in.headers["set-cookie"].split(";")[0]
    async with connected(visit, cookie=cookie, origin=origin) as socket:
        if not allowed:
            assert await closed(socket) == (4003, "csrf")
            return
        await socket.next()
        await visit.workspace()
        assert (await socket.frame())["event"] == "WORKSPACE_AWAITING_AGENT"


async def test_a_listener_that_is_too_slow_is_told_to_resume(
    visit: Visitor, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_feed, "BUFFER", 2)
    async with connected(visit) as socket:
        await socket.next()
        socket.reads.clear()
        for number in range(6):
            await visit.workspace(f"W{number}")
        await eventually(lambda: all(one.ended.is_set() for one in visit.platform._services.feed._listeners))
        socket.reads.set()
        assert (await closed(socket))[0] == 4008
