"""The live feed and the bells: nothing missed, nothing twice, and the slow are told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from molecule_platform.domain.events import Event
from molecule_platform.ports.storage import StorageDown
from molecule_platform.services.events.event_feed import (
    BUFFER,
    EventFilter,
    FeedSubscriber,
    StreamEnd,
    StreamEnded,
)
from molecule_platform.services.support import signals

if TYPE_CHECKING:
    from packages.platform.tests.conftest import Eventually
    from packages.platform.tests.services.conftest import Refuses, Rig

BEFORE_A_SECOND_LOOK = 30.0


@pytest.fixture
async def running(rig: Rig) -> AsyncIterator[Rig]:
    """The services with the feed following the log."""
    await rig.feed.start()
    yield rig
    await rig.feed.stop()


async def happen(rig: Rig, name: str, org: str | None = None, workspace: str = "w1") -> int:
    def work(tx: Any) -> int:
        tx.signal("events")
        return tx.events.append(Event(name, org or rig.org.id, workspace, {}, rig.clock.now()))

    return await rig.storage.write(work)


def heard(listener: FeedSubscriber) -> list[str]:
    return [event.event_type for event in listener._waiting]


async def test_a_listener_hears_what_happens_in_order_and_nothing_from_before(
    running: Rig, eventually: Eventually
) -> None:
    await happen(running, "BEFORE")
    await running.feed.stop()
    await running.feed.start()
    listener = FeedSubscriber(running.admin)
    await running.feed.join(listener)
    for number in range(20):
        await happen(running, f"E{number}")
    await eventually(lambda: len(heard(listener)) == 20)
    assert [event.event_type for event in await listener.take(30)] == [f"E{number}" for number in range(20)]
    running.feed.leave(listener)
    await happen(running, "AFTER")
    assert await listener.take(0) == []


async def test_steps_of_messages_are_part_of_the_feed(running: Rig, eventually: Eventually) -> None:
    ada = await running.agent()
    listener = FeedSubscriber(running.admin, frozenset({"MESSAGE_ACCEPTED"}))
    await running.feed.join(listener)
    await running.send(ada)
    await eventually(lambda: heard(listener) == ["MESSAGE_ACCEPTED"])


async def test_a_listener_hears_its_organisation_alone_and_what_it_asked_for(rig: Rig) -> None:
    person = replace(rig.admin, scopes=frozenset({"org.read"}))
    listener = FeedSubscriber(person, frozenset({"A"}), frozenset({"w1"}))
    at = rig.clock.now()
    assert listener.wants(Event("A", rig.org.id, "w1", {}, at))
    assert not listener.wants(Event("A", "org-two", "w1", {}, at))
    assert not listener.wants(Event("B", rig.org.id, "w1", {}, at))
    assert not listener.wants(Event("A", rig.org.id, "w2", {}, at))
    assert not FeedSubscriber(rig.admin).wants(Event("A", "org-two", "w1", {}, at))


async def test_a_listener_that_falls_behind_is_told_to_resume(rig: Rig) -> None:
    slow, quick, reading = FeedSubscriber(rig.admin), FeedSubscriber(rig.admin), FeedSubscriber(rig.admin)
    reading.catches_up = True
    for listener in (slow, quick, reading):
        await rig.feed.join(listener)
    for number in range(BUFFER + 1):
        rig.feed._hand_out(Event("E", rig.org.id, "w1", {}, rig.clock.now(), number + 1))
        await quick.take(1)
    assert (slow.why, quick.why, reading.why) == (StreamEnd.SLOW, None, None)
    assert (reading.overflowed, heard(slow)) == (True, [])
    with pytest.raises(StreamEnded) as ended:
        await slow.take(1)
    assert ended.value.why == StreamEnd.SLOW


async def test_a_house_that_drains_ends_every_stream_and_takes_no_new_one(rig: Rig) -> None:
    early, late = FeedSubscriber(rig.admin), FeedSubscriber(rig.admin)
    await rig.feed.join(early)
    rig.feed.drain()
    await rig.feed.join(late)
    assert (early.why, late.why) == (StreamEnd.DRAINING, StreamEnd.DRAINING)


async def test_the_feed_goes_on_when_the_database_comes_back(
    running: Rig, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener = FeedSubscriber(running.admin)
    await running.feed.join(listener)

    async def down(_work: Any) -> None:
        raise StorageDown("away")

    with monkeypatch.context() as patched:
        patched.setattr(running.storage, "read", down)
        await happen(running, "MISSED")
        await eventually(lambda: bool(running.log.said))
    await eventually(lambda: heard(listener) == ["MISSED"])


async def test_lists_are_of_one_organisation_newest_first_or_after_a_number(running: Rig) -> None:
    for number in range(3):
        await happen(running, f"E{number}")
    newest = await running.feed.newest(running.admin, EventFilter(running.org.id), 2)
    assert [event.event_type for event in newest] == ["E2", "E1"]
    after = await running.feed.since(
        running.admin, EventFilter(running.org.id, types=["E2"]), newest[-1].id or 0, 10
    )
    assert [event.event_type for event in after] == ["E2"]
    assert await running.feed.newest(running.admin, EventFilter("org-two"), 10) == []


async def test_a_list_says_when_what_it_should_begin_with_is_forgotten(
    running: Rig, refuses: Refuses
) -> None:
    first, second = await happen(running, "E0"), await happen(running, "E1")
    long_after = running.clock.advance(60)
    await running.storage.write(lambda tx: tx.events.prune(long_after, 1))
    refused = await refuses(
        running.feed.since(running.admin, EventFilter(running.org.id), 0, 10), "cursor-lost"
    )
    assert refused.extras["oldest_id"] == str(first)
    kept = await running.feed.since(running.admin, EventFilter(running.org.id), first, 10)
    assert [event.id for event in kept] == [second]


# Bells


@pytest.mark.usefixtures("only_bells")
async def test_whoever_waits_is_woken_by_the_bell(rig: Rig) -> None:
    seen: list[int] = []
    looked = asyncio.Event()

    async def look() -> int | None:
        seen.append(1)
        looked.set()
        return 7 if len(seen) == 2 else None

    waiting = asyncio.ensure_future(rig.signals.wait_for("mail.w1", look, 60))
    await looked.wait()
    rig.signals.notify(["mail.w2", "mail.w1"])
    assert await asyncio.wait_for(waiting, BEFORE_A_SECOND_LOOK) == 7


async def test_a_bell_that_was_lost_is_made_up_for_within_a_second(rig: Rig) -> None:
    looks = iter([None, 7])

    async def look() -> int | None:
        return next(looks)

    assert signals.LOOK_AGAIN_SECONDS <= 1
    assert await asyncio.wait_for(rig.signals.wait_for("mail.w1", look, 60), BEFORE_A_SECOND_LOOK) == 7


async def test_nobody_listens_any_more_when_all_have_gone(rig: Rig) -> None:
    with rig.signals.listen("mail.w1"), rig.signals.listen("mail.w1"):
        assert len(rig.signals._listeners["mail.w1"]) == 2
    assert rig.signals._listeners == {}
