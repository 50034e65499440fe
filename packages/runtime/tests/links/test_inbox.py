"""The pull link: a lease that is lost after the turn costs no second turn."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TypeVar

import pytest

from molecule_agent.testing import FakePlatform
from molecule_runtime.kit.turns.executor import Turn, TurnExecutor
from molecule_runtime.kit.turns.runner import TurnRunner
from molecule_runtime.links.inbox import InboxLink
from molecule_runtime.links.lease_output import LEASE_SECONDS
from molecule_runtime.links.platform_client import PlatformClient
from molecule_runtime.links.task_store import TaskStore
from molecule_wire.calls import CallFailed, Reply, Request
from molecule_wire.calls.inbox import Leased
from packages.runtime.tests.links.manual_time import until

T = TypeVar("T")


class Engine(TurnExecutor):
    """Answers when it is let go, and counts its turns."""

    def __init__(self) -> None:
        super().__init__(SimpleNamespace(runtime_config={}))
        self.turns = 0
        self.gate = asyncio.Event()

    async def run_turn(self, turn: Turn) -> str:
        self.turns += 1
        await self.gate.wait()
        return f"turn {self.turns}"


class Calls:
    """The calls of a platform client; while `is_away` no settlement reaches the platform."""

    def __init__(self, client: PlatformClient) -> None:
        self.workspace_id = client.workspace_id
        self._client = client
        self.is_away = False
        self.leased = self.lost = self.refused = 0

    async def perform(self, request: Request, read: Callable[[Reply], T]) -> T:
        if self.is_away and request.path.endswith("/answer"):
            self.lost += 1
            raise ConnectionError("the platform is away")
        try:
            done = await self._client.perform(request, read)
        except CallFailed:
            self.refused += 1
            raise
        if isinstance(done, Leased):
            self.leased += len(done.messages)
        return done


class Scene:
    """A link that leases as often as it is permitted, and its platform."""

    def __init__(self, platform: FakePlatform, client: PlatformClient, store: TaskStore) -> None:
        self.platform = platform
        self.calls = Calls(client)
        self.engine = Engine()
        self.permits = 1
        self.link = InboxLink(self.calls, TurnRunner(self.engine), store, "worker", self._may_take)
        self.message_id = platform.send_user_message(client.workspace_id, "hello")

    def _may_take(self) -> bool:
        self.permits -= 1
        return self.permits >= 0

    def permit(self) -> None:
        """Let the link lease once more."""
        self.permits = 1
        self.link.wake.set()


@pytest.fixture
async def scene(platform: FakePlatform, registered: PlatformClient, tmp_path: Path) -> AsyncIterator[Scene]:
    store = TaskStore(tmp_path / "tasks.db")
    made = Scene(platform, registered, store)
    running = asyncio.create_task(made.link.run())
    yield made
    running.cancel()
    await made.link.finish(1)
    store.close()


async def test_an_answer_that_came_after_its_lease_is_told_with_the_next_one(scene: Scene) -> None:
    await until(lambda: scene.engine.turns == 1)
    scene.platform.advance(LEASE_SECONDS + 1)
    scene.engine.gate.set()
    await until(lambda: scene.calls.refused)
    assert scene.platform.outcome(scene.message_id).status == "accepted"
    scene.platform.advance(60)
    scene.permit()
    await until(lambda: scene.platform.outcome(scene.message_id).status == "answered")
    assert (scene.platform.outcome(scene.message_id).text, scene.engine.turns) == ("turn 1", 1)


async def test_an_answer_that_waits_for_the_platform_is_told_with_the_newest_lease(scene: Scene) -> None:
    await until(lambda: scene.engine.turns == 1)
    scene.calls.is_away = True
    scene.engine.gate.set()
    await until(lambda: scene.calls.lost)
    scene.platform.advance(LEASE_SECONDS + 1)
    assert scene.platform.outcome(scene.message_id).status == "accepted"
    scene.platform.advance(60)
    scene.permit()
    await until(lambda: scene.calls.leased == 2)
    scene.calls.is_away = False
    await until(lambda: scene.platform.outcome(scene.message_id).status == "answered")
    assert (scene.platform.outcome(scene.message_id).text, scene.engine.turns) == ("turn 1", 1)
