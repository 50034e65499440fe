"""The live feed and the bells: nothing missed, nothing twice, and the slow are told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from molecule_platform.domain.events import Event
from molecule_platform.ports.storage import StorageDown
from molecule_platform.services.feed import BUFFER, Listener

if TYPE_CHECKING:
    from packages.platform.tests.conftest import Eventually
    from packages.platform.tests.services.conftest import Rig


@pytest.fixture
async def running(rig: Rig) -> AsyncIterator[Rig]:
    """The services with the feed following the log."""
    await rig.feed.start()
    yield rig
    await rig.feed.stop()


async def happen(rig: Rig, name: str, org: str | None = None, workspace: str = "w1") -> Event:
    def work(tx: Any) -> Event:
        tx.signal("events")
        return tx.events.append(Event(name, org or rig.org.id, workspace, {}, rig.clock.now()))

    return await rig.storage.write(work)


def heard(listener: Listener) -> list[str]:
    return [listener.queue.get_nowait().event_type for _ in range(listener.queue.qsize())]


async def test_a_listener_hears_what_happens_in_order_and_nothing_from_before(
    running: Rig, eventually: Eventually
) -> None:
    await happen(running, "BEFORE")
    await running.feed.stop()
    await running.feed.start()
    listener = Listener(running.admin)
    running.feed.join(listener)
    for number in range(20):
        await happen(running, f"E{number}")
    await eventually(lambda: listener.queue.qsize() == 20)
    assert heard(listener) == [f"E{number}" for number in range(20)]
    running.feed.leave(listener)
    await happen(running, "AFTER")
    assert heard(listener) == []


async def test_history_and_live_meet_without_gap_or_repeat(running: Rig, eventually: Eventually) -> None:
    stop = asyncio.Event()

    async def write() -> None:
        number = 0
        while not stop.is_set():
            await happen(running, f"E{number}")
            number += 1

    writer = asyncio.ensure_future(write())
    await eventually(lambda: running.feed._at > 20)
    listener = Listener(running.admin)
    running.feed.join(listener)
    history = await running.feed.history(listener, 0)
    last = history[-1].id or 0
    await eventually(lambda: running.feed._at > last + 20)
    stop.set()
    await writer
    live = [listener.queue.get_nowait() for _ in range(listener.queue.qsize())]
    numbers = [event.id or 0 for event in history] + [
        event.id or 0 for event in live if (event.id or 0) > last
    ]
    assert numbers == list(range(1, numbers[-1] + 1))


async def test_steps_of_messages_are_part_of_the_feed(running: Rig, eventually: Eventually) -> None:
    ada = await running.agent()
    listener = Listener(running.admin, frozenset({"MESSAGE_ACCEPTED"}))
    running.feed.join(listener)
    await running.send(ada)
    await eventually(lambda: listener.queue.qsize() == 1)


async def test_a_listener_hears_its_organisation_alone_and_what_it_asked_for(rig: Rig) -> None:
    person = replace(rig.admin, scopes=frozenset({"org.read"}))
    listener = Listener(person, frozenset({"A"}), frozenset({"w1"}))
    at = rig.clock.now()
    assert listener.wants(Event("A", rig.org.id, "w1", {}, at))
    assert not listener.wants(Event("A", "org-two", "w1", {}, at))
    assert not listener.wants(Event("B", rig.org.id, "w1", {}, at))
    assert not listener.wants(Event("A", rig.org.id, "w2", {}, at))
    assert Listener(rig.admin).wants(Event("A", "org-two", "w1", {}, at))


async def test_a_listener_that_falls_behind_is_told_so_and_keeps_what_it_has(rig: Rig) -> None:
    slow, quick = Listener(rig.admin), Listener(rig.admin)
    for listener in (slow, quick):
        rig.feed.join(listener)
    for number in range(BUFFER + 1):
        rig.feed._hand_out(Event("E", rig.org.id, "w1", {}, rig.clock.now(), number + 1))
        quick.queue.get_nowait()
    assert (slow.lagged.is_set(), slow.queue.qsize()) == (True, BUFFER)
    assert not quick.lagged.is_set()


async def test_the_feed_goes_on_when_the_database_comes_back(
    running: Rig, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener = Listener(running.admin)
    running.feed.join(listener)

    async def down(_work: Any) -> None:
        raise StorageDown("away")

    with monkeypatch.context() as patched:
        patched.setattr(running.storage, "read", down)
        await happen(running, "MISSED")
        await eventually(lambda: bool(running.log.said))
    await eventually(lambda: listener.queue.qsize() == 1)
    assert heard(listener) == ["MISSED"]


async def test_lists_are_of_one_organisation_newest_first_or_after_a_number(running: Rig) -> None:
    for number in range(3):
        await happen(running, f"E{number}")
    newest = await running.feed.newest(running.admin, 2, None, None)
    assert [event.event_type for event in newest] == ["E2", "E1"]
    after = await running.feed.since(running.admin, newest[-1].id or 0, 10, None, ["E2"])
    assert [event.event_type for event in after] == ["E2"]
    stranger = replace(running.admin, org_id="org-two")
    assert await running.feed.newest(stranger, 10, None, None) == []


# Bells


async def test_whoever_waits_is_woken_by_the_bell(rig: Rig) -> None:
    seen: list[int] = []

    async def look() -> int | None:
        seen.append(1)
        return 7 if len(seen) == 2 else None

    waiting = asyncio.ensure_future(rig.bells.wait_for("mail.w1", look, 10))
    await asyncio.sleep(0.02)
    rig.bells.ring(["mail.w2", "mail.w1"])
    assert await asyncio.wait_for(waiting, 0.9) == 7


async def test_a_bell_that_was_lost_is_made_up_for_within_a_second(rig: Rig) -> None:
    looks = iter([None, 7])

    async def look() -> int | None:
        return next(looks)

    assert await asyncio.wait_for(rig.bells.wait_for("mail.w1", look, 10), 3) == 7


async def test_nobody_listens_any_more_when_all_have_gone(rig: Rig) -> None:
    with rig.bells.listen("mail.w1"), rig.bells.listen("mail.w1"):
        assert len(rig.bells._listeners["mail.w1"]) == 2
    assert rig.bells._listeners == {}
