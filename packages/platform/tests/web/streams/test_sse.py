"""The stream doors: events as server-sent events, from any point and to those who may see them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from molecule_platform.ports.storage import StorageDown
from molecule_platform.services.events import event_feed, subscriptions
from molecule_platform.web.streams import sse

if TYPE_CHECKING:
    from packages.platform.tests.conftest import Eventually, Knock, Visitor

ADMIN_TOKEN = "the-administrator-s-token"
SECONDS = 30.0


class Stream:
    """One event stream, from the browser's side."""

    def __init__(self, knock: Knock) -> None:
        self.knock = knock
        self._blocks: list[str] = []

    @property
    def status(self) -> int:
        return self.knock.status

    @property
    def headers(self) -> dict[str, str]:
        return self.knock.lines

    @property
    def reads(self) -> asyncio.Event:
        return self.knock.reads

    @property
    def leaves(self) -> asyncio.Event:
        return self.knock.leaves

    async def block(self) -> dict[str, str]:
        """The next block by its fields; a comment is under the empty name. Empty at the end of the stream."""
        while not self._blocks:
            chunk = await asyncio.wait_for(self.knock.said.get(), SECONDS)
            if chunk is None:
                return {}
            self._blocks += [text for text in chunk.decode().split("\n\n") if text]
        pairs = (line.partition(": ") for line in self._blocks.pop(0).split("\n"))
        return {name: value for name, _, value in pairs}

    async def event(self, name: str) -> dict[str, str]:
        while (block := await self.block()).get("event") != name:
            assert block, f"the stream ended before {name}"
        return block

    async def until_end(self) -> None:
        while await self.block():
            pass


@asynccontextmanager
async def opened(
    visit: Visitor, target: str = "/events/stream", token: str | None = ADMIN_TOKEN, **headers: str
) -> AsyncGenerator[Stream]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    knock = visit.knocks("GET", target, visit.headers(token) | named)
    stream = Stream(knock)
    serving = asyncio.ensure_future(visit.platform(knock.scope, knock.receive, knock.send))
    await asyncio.wait_for(knock.started.wait(), SECONDS)
    yield stream
    stream.leaves.set()
    stream.reads.set()
    await asyncio.wait_for(serving, SECONDS)


async def test_a_stream_begins_with_how_to_come_back_and_then_follows(visit: Visitor) -> None:
    async with opened(visit) as stream:
        assert (stream.status, stream.headers["content-type"]) == (200, "text/event-stream")
        assert (stream.headers["cache-control"], stream.headers["x-accel-buffering"]) == ("no-store", "no")
        first = await stream.block()
        assert first["retry"] == "2000"
        ada, _ = await visit.workspace()
        block = await stream.event("WORKSPACE_AWAITING_AGENT")
        frame = json.loads(block["data"])
        assert (frame["id"], frame["event"], frame["workspace_id"]) == (block["id"], block["event"], ada)
        assert int(first["id"]) < int(block["id"])


async def test_the_past_comes_first_and_nothing_twice_when_a_stream_is_resumed(
    visit: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "PAGE", 2)
    for number in range(5):
        await visit.workspace(f"W{number}")
    async with opened(visit, "/events/stream?since=0") as stream:
        await visit.workspace("W5")
        seen = [await stream.event("WORKSPACE_AWAITING_AGENT") for _ in range(6)]
    names = [json.loads(block["data"])["payload"]["name"] for block in seen]
    assert names == [f"W{number}" for number in range(6)]
    async with opened(visit, "/events/stream?since=0", last_event_id=seen[3]["id"]) as stream:
        block = await stream.event("WORKSPACE_AWAITING_AGENT")
        assert json.loads(block["data"])["payload"]["name"] == "W4"


async def test_a_browser_that_saw_nothing_yet_still_resumes_without_a_gap(visit: Visitor) -> None:
    async with opened(visit) as stream:
        first = await stream.block()
    await visit.workspace("Missed")
    async with opened(visit, last_event_id=first["id"]) as stream:
        block = await stream.event("WORKSPACE_AWAITING_AGENT")
        assert json.loads(block["data"])["payload"]["name"] == "Missed"


async def test_the_stream_of_one_workspace_tells_of_it_alone(visit: Visitor) -> None:
    ada, token = await visit.agent("Ada")
    bob, bobs = await visit.agent("Bob")
    async with opened(visit, f"/workspaces/{ada}/events/stream?since=0", token) as stream:
        block = await stream.event("WORKSPACE_ONLINE")
        told = json.loads(block["data"])
        assert set(told) == {"type", "timestamp", "data", "id"}
        assert (told["type"], told["id"]) == ("WORKSPACE_ONLINE", block["id"])
        assert abs(told["timestamp"] / 1000 - datetime.now(UTC).timestamp()) < 60
        await visit("POST", f"/workspaces/{bob}/pause")
        await visit("POST", f"/workspaces/{ada}/pause")
        assert json.loads((await stream.event("WORKSPACE_PAUSED"))["data"])["data"]["name"] == "Ada"
    async with opened(visit, f"/workspaces/{ada}/events/stream", bobs) as stream:
        assert stream.status == 403


async def test_what_is_not_kept_has_no_number(visit: Visitor) -> None:
    ada, token = await visit.agent("Ada")
    async with opened(visit, "/events/stream?types=TASK_UPDATED") as stream:
        await stream.block()
        beat = {"workspace_id": ada, "current_task": "reading", "active_tasks": 1}
        await visit("POST", "/registry/heartbeat", beat, token=token)
        block = await stream.event("TASK_UPDATED")
        assert "id" not in block
        assert json.loads(block["data"])["payload"]["current_task"] == "reading"


async def test_a_quiet_stream_is_kept_alive(visit: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "KEEP_ALIVE_SECONDS", 0.01)
    async with opened(visit, "/events/stream?types=NEVER") as stream:
        await stream.block()
        assert await stream.block() == {"": "keep-alive"}


async def test_a_cursor_that_is_forgotten_makes_a_resync_the_first_event(breaking: Visitor) -> None:
    await breaking.workspace("Ada")
    storage = breaking.platform._services.feed._storage
    long_after = datetime.now(UTC) + timedelta(days=1)
    await storage.write(lambda tx: tx.events.prune(long_after, 1))
    oldest = await storage.read(lambda tx: tx.events.oldest_kept())
    async with opened(breaking, "/events/stream?since=0") as stream:
        await stream.block()
        assert await stream.block() == {
            "event": "resync",
            "data": json.dumps({"oldest_id": str(oldest)}, separators=(",", ":")),
        }
    listed = await breaking("GET", "/events?since=0")
    assert (listed.status, listed.json["code"], listed.json["oldest_id"]) == (410, "cursor-lost", str(oldest))


async def test_a_reader_that_is_too_slow_finds_the_stream_ended_and_resumes(
    visit: Visitor, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_feed, "BUFFER", 2)
    async with opened(visit) as stream:
        last = (await stream.block())["id"]
        stream.reads.clear()
        for number in range(6):
            await visit.workspace(f"W{number}")
        await eventually(lambda: all(one.ended.is_set() for one in visit.platform._services.feed._listeners))
        stream.reads.set()
        while block := await stream.block():
            last = block.get("id", last)
    async with opened(visit, last_event_id=last) as stream:
        while json.loads((await stream.event("WORKSPACE_AWAITING_AGENT"))["data"])["payload"]["name"] != "W5":
            pass


async def test_a_stream_ends_with_its_credential_and_with_its_house(breaking: Visitor) -> None:
    ada, token = await breaking.agent("Ada")
    async with opened(breaking, token=token) as stream, opened(breaking) as other:
        await stream.block()
        await breaking("DELETE", f"/workspaces/{ada}?confirm=true")
        await stream.until_end()
        await breaking.platform.drain()
        await other.until_end()


async def test_a_stream_that_meets_an_outage_ends_with_an_event(
    visit: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def down(_work: Any) -> None:
        raise StorageDown("away")

    await visit.workspace("Ada")
    with monkeypatch.context() as patched:
        patched.setattr(visit.platform._health._storage, "read", down)
        async with opened(visit, "/events/stream?since=0") as stream:
            ended = json.loads((await stream.event("unavailable"))["data"])
            assert await stream.block() == {}
    assert (ended["code"], ended["retry_after"]) == ("platform-unavailable", 2)


async def test_nobody_stays_in_the_feed_when_the_reader_has_gone(visit: Visitor) -> None:
    async with opened(visit) as stream:
        await stream.block()
        assert len(visit.platform._services.feed._listeners) == 1
    assert visit.platform._services.feed._listeners == set()


async def test_a_ticket_opens_one_stream_and_nothing_else(visit: Visitor) -> None:
    _, token = await visit.agent("Ada")
    minted = await visit("POST", "/auth/ticket", {}, token=token)
    assert (minted.status, set(minted.json)) == (201, {"ticket", "expires_at"})
    ticket = minted.json["ticket"]
    assert (await visit("GET", f"/auth/session?ticket={ticket}", token=None)).status == 401
    async with opened(visit, f"/events/stream?ticket={ticket}", None) as stream:
        assert stream.status == 200
    async with opened(visit, f"/events/stream?ticket={ticket}", None) as stream:
        assert stream.status == 401


@pytest.mark.parametrize(
    ("target", "token", "status"),
    [
        ("/events/stream", None, 401),
        ("/events/stream?since=x", ADMIN_TOKEN, 400),
        ("/workspaces/x/events/stream", ADMIN_TOKEN, 400),
        ("/workspaces/5b1f6f0e-6d0d-4d0e-9d53-000000000000/events/stream", ADMIN_TOKEN, 404),
    ],
)
async def test_what_cannot_be_followed_is_refused_before_the_stream_begins(
    visit: Visitor, target: str, token: str | None, status: int
) -> None:
    async with opened(visit, target, token) as stream:
        assert stream.status == status
