"""Following a message: its steps and the events of its task, in order, once, to the end."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pytest

from molecule_platform.domain.events import Transition
from molecule_platform.domain.messages import Message
from molecule_platform.domain.tasks import TaskEvent
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.services.messaging.inbox.inbox_answers import InboxAnswer
from molecule_platform.services.messaging.inbox.inbox_progress import InboxProgress, ProgressReport
from molecule_platform.services.messaging.messages import message_streams
from molecule_platform.services.messaging.messages.message_streams import (
    EventsPruned,
    Happening,
    MessageStreams,
)
from molecule_platform.services.messaging.tasks.task_service import TaskQuery

if TYPE_CHECKING:
    from packages.platform.tests.services.conftest import Rig


class Scene:
    """A message to an agent that polls, and whoever follows it."""

    def __init__(self, rig: Rig, ada: Workspace, message: Message) -> None:
        self.rig, self.ada, self.message = rig, ada, message
        self.streams = MessageStreams(rig.storage, rig.signals, rig.streams)
        self.progress = InboxProgress(rig.storage, rig.clock)
        self.token = ""

    async def lease(self) -> None:
        self.rig.clock.advance(1)
        [item] = await self.rig.lease(self.ada)
        self.token = item["lease"]["token"]

    async def report(self, words: str) -> None:
        self.rig.clock.advance(1)
        report = ProgressReport(parts=[{"text": words}])
        await self.progress.report(self.ada, self.message.id, self.token, report)

    async def answer(self, state: str = "completed") -> None:
        self.rig.clock.advance(1)
        await self.rig.inbox.answer(
            self.ada, self.message.id, self.token, InboxAnswer([{"text": "four"}], state)
        )

    async def told(self, after: int | None = None) -> list[str]:
        return await collected(self.streams.follow(self.message, after))

    async def told_of_task(self, after: int | None = None) -> list[str]:
        task = await self.rig.tasks.find(TaskQuery(self.rig.admin, self.ada), self.message.id)
        return await collected(self.streams.follow_task(task, after))


def named(happening: Happening) -> str:
    if isinstance(happening, TaskEvent):
        return f"{happening.seq}:{happening.kind}"
    return f"lost:{happening.oldest}" if isinstance(happening, EventsPruned) else happening.kind


async def collected(batches: Any) -> list[str]:
    async with asyncio.timeout(30), aclosing(batches):
        return [named(one) async for batch in batches for one in batch]


@pytest.fixture
async def scene(rig: Rig) -> Scene:
    ada = await rig.agent()
    message = (await rig.send(ada, "two and two?", dialect="1.0")).message
    return Scene(rig, ada, message)


WHOLE = ["accepted", "1:task", "leased", "2:status", "3:status", "4:status", "answered"]


async def test_what_is_over_is_told_from_the_beginning_to_the_end(scene: Scene) -> None:
    await scene.lease()
    await scene.report("thinking")
    await scene.answer()
    assert await scene.told() == WHOLE


async def test_whoever_follows_from_the_start_is_told_the_same_as_it_happens(scene: Scene) -> None:
    following = asyncio.ensure_future(scene.told())
    await asyncio.sleep(0)
    await scene.lease()
    await scene.report("thinking")
    await scene.answer()
    assert await following == WHOLE


async def test_whoever_comes_back_is_told_only_the_events_it_has_not_seen(scene: Scene) -> None:
    await scene.lease()
    await scene.report("thinking")
    await scene.answer()
    assert await scene.told(after=3) == ["accepted", "leased", "4:status", "answered"]


async def test_a_message_that_waits_again_goes_on(scene: Scene) -> None:
    await scene.lease()
    await scene.rig.inbox.release(scene.ada, scene.message.id, scene.token)
    await scene.rig.cancellation.cancel_message(scene.rig.admin, scene.message.id, None)
    steps = [one for one in await scene.told() if ":" not in one]
    assert steps == ["accepted", "leased", "released", "cancelled"]


async def test_a_long_log_is_told_page_by_page_and_the_last_step_comes_last(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_streams, "PAGE", 2)
    await scene.lease()
    await scene.report("thinking")
    await scene.answer()
    assert await scene.told() == WHOLE


async def test_a_quiet_stream_gives_a_sign_of_life(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_streams, "QUIET_SECONDS", 0.05)
    async with aclosing(scene.streams.follow(scene.message, None)) as batches:
        first, second = await anext(batches), await anext(batches)
    assert isinstance(first[0], Transition)
    assert list(second) == []


async def test_when_the_house_closes_the_stream_ends(scene: Scene) -> None:
    told: list[str] = []
    async with asyncio.timeout(30), aclosing(scene.streams.follow(scene.message, None)) as batches:
        async for batch in batches:
            told += [named(one) for one in batch]
            if "1:task" in told:
                # While it waits for more.
                asyncio.get_running_loop().call_later(0.05, scene.rig.signals.close)
    assert told == ["accepted", "1:task"]


async def test_only_its_own_events_of_a_task_are_a_message_s(scene: Scene, rig: Rig) -> None:
    await scene.lease()
    await scene.report("thinking")
    await scene.answer("input-required")
    task = await rig.tasks.find(TaskQuery(rig.admin, scene.ada), scene.message.id)
    more = (await rig.send(scene.ada, "and five?", dialect="1.0", continues=task)).message
    await rig.delivery.show(more.id)
    second = Scene(rig, scene.ada, more)
    await second.lease()
    await second.answer()
    assert await scene.told() == WHOLE
    told = await second.told()
    assert [one for one in told if ":" in one][0].startswith("5:")
    assert await scene.told_of_task() == [f"{n}:{k}" for n, k in enumerate(("task", *["status"] * 3), 1)] + [
        one for one in told if ":" in one
    ]


async def test_a_task_is_told_to_its_end_and_resumed_after_any_number(scene: Scene) -> None:
    await scene.rig.delivery.show(scene.message.id)
    following = asyncio.ensure_future(scene.told_of_task())
    await asyncio.sleep(0)
    await scene.lease()
    await scene.report("thinking")
    await scene.answer()
    assert await following == ["1:task", "2:status", "3:status", "4:status"]
    assert await scene.told_of_task(after=2) == ["3:status", "4:status"]
    assert await scene.told_of_task(after=4) == []


async def test_whoever_comes_back_too_late_is_told_where_the_log_goes_on(scene: Scene, rig: Rig) -> None:
    await scene.lease()
    await scene.report("thinking")
    await scene.answer()
    rig.clock.advance(3600)
    await rig.storage.write(lambda tx: tx.retention.message_events(rig.clock.now(), 100))
    assert await scene.told_of_task(after=1) == ["lost:4"]
    assert await scene.told() == ["accepted", "leased", "answered"]
