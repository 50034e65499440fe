"""Following a task: no gap and no repeat, whoever writes and however slowly somebody reads."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

import pytest

from molecule_platform.domain.tasks import Task, TaskEvent, TaskKey
from molecule_platform.services.messaging.tasks import task_log, task_streams
from molecule_platform.services.messaging.tasks.task_streams import TaskStreams

if TYPE_CHECKING:
    from packages.platform.tests.services.conftest import Rig

KEY_ID = "t1"


async def new_task(rig: Rig) -> TaskKey:
    ada = await rig.agent()
    made = Task(
        workspace_id=ada.id,
        tenant="",
        id=KEY_ID,
        org_id=ada.org_id,
        owner="user:admin",
        context_id="c",
        message_id="m",
        state="submitted",
        status_at=rig.clock.now(),
        created_at=rig.clock.now(),
    )
    await rig.storage.write(lambda tx: tx.tasks.insert(made))
    return made.key


async def say(rig: Rig, key: TaskKey, first: int, many: int = 1, *, publish: bool = True) -> None:
    events = [TaskEvent("artifact", b"%d" % n, "1.0") for n in range(first, first + many)]
    now = rig.clock.now()
    task = await rig.storage.write(lambda tx: task_log.append(tx, key, None, events, now))
    if publish:
        numbered = [event.numbered(task.last_seq - many + 1 + n, "m", now) for n, event in enumerate(events)]
        rig.streams.publish(key, numbered)


async def read(streams: TaskStreams, key: TaskKey, after: int, until: int) -> list[int]:
    seen: list[int] = []
    async with aclosing(streams.follow(key, after)) as batches, asyncio.timeout(30):
        async for batch in batches:
            seen += [event.seq for event in batch]
            if seen and seen[-1] >= until:
                break
    return seen


@pytest.mark.parametrize("publish", [True, False])
async def test_what_was_and_what_comes_is_seen_once_in_order(rig: Rig, publish: bool) -> None:
    key = await new_task(rig)
    await say(rig, key, 1, 3, publish=publish)
    reading = [asyncio.ensure_future(read(rig.streams, key, after, 40)) for after in (0, 2, 3)]
    for first in range(4, 41):
        await say(rig, key, first, publish=publish)
    assert await reading[0] == list(range(1, 41))
    assert await reading[1] == list(range(3, 41))
    assert await reading[2] == list(range(4, 41))


async def test_a_reader_that_stalls_reads_the_store_and_nobody_buffers_for_it(rig: Rig) -> None:
    key = await new_task(rig)
    async with aclosing(rig.streams.follow(key, 0)) as stalled:
        await say(rig, key, 1)
        first = await anext(stalled)
        for n in range(50):
            await say(rig, key, 2 + n * 100, 100)
        recent = rig.streams._recent[key]
        assert len(recent.events) <= 64
        seen = [event.seq for event in first]
        while seen[-1] < 5001:
            seen += [event.seq for event in await anext(stalled)]
    assert seen == list(range(1, 5002))
    assert not rig.streams._recent


async def test_the_beginning_of_a_message_is_found_live_and_afterwards(rig: Rig) -> None:
    ada = await rig.agent()
    sent = (await rig.send(ada)).message
    begun = await rig.streams.beginning(sent.id, 30)
    assert begun is not None
    assert (begun.key.id, begun.seq) == (sent.id, 1)
    assert await rig.streams.beginning("unknown", 0.0) is None


async def test_a_replica_that_stops_ends_its_streams(rig: Rig) -> None:
    key = await new_task(rig)
    reading = asyncio.ensure_future(read(rig.streams, key, 0, 1))
    await asyncio.sleep(0)
    rig.streams.stop()
    assert await reading == []


async def test_rings_that_were_lost_are_made_up_for(rig: Rig) -> None:
    key = await new_task(rig)
    deaf = TaskStreams(rig.storage, rig.signals.__class__(rig.signals._bus))
    reading = asyncio.ensure_future(read(deaf, key, 0, 2))
    await asyncio.sleep(0)
    await say(rig, key, 1, 2, publish=False)
    while not reading.done():
        await deaf.look()
        await asyncio.sleep(0)
    assert await reading == [1, 2]


async def test_what_is_handed_over_is_not_read_again(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_streams, "HANDED_OVER_SECONDS", 60.0)
    key = await new_task(rig)
    called = asyncio.Event()
    follower = rig.streams.join(key, 0, (), called.set)
    assert await follower.next() == []
    for n in range(1, 4):
        called.clear()
        await say(rig, key, n)
        await asyncio.wait_for(called.wait(), 30)
        came = follower.at_hand()
        assert came is not None
        assert [event.seq for event in came] == [n]
        assert follower.at_hand() == []
    rig.streams._look_at_rung()
    assert follower.at_hand() == []
    follower.close()
    assert not rig.streams._recent


async def test_what_nobody_hands_over_is_read_after_a_moment(rig: Rig) -> None:
    key = await new_task(rig)
    called = asyncio.Event()
    follower = rig.streams.join(key, 0, (), called.set)
    assert await follower.next() == []
    await say(rig, key, 1, publish=False)
    await asyncio.wait_for(called.wait(), 30)
    assert follower.at_hand() is None
    came = await follower.next()
    assert came is not None
    assert [event.seq for event in came] == [1]
    follower.close()
    follower.close()
