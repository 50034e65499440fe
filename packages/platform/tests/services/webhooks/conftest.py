"""Tasks that are watched, over a real SQLite store, and real webhooks that are told of them."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from molecule_platform.agents.webhook_client import WebhookClient
from molecule_platform.bus.memory import MemoryBus
from molecule_platform.domain import principals
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.push import PushConfig
from molecule_platform.domain.tasks import Task, TaskEvent, TaskKey
from molecule_platform.egress import guard
from molecule_platform.egress.connector import Outbound
from molecule_platform.ports.people import Org
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services.keys.key_rotation import SealedTextColumn
from molecule_platform.services.messaging.tasks import task_log
from molecule_platform.services.messaging.webhooks.notifier import Notifier
from molecule_platform.services.messaging.webhooks.push_configs import PushConfigService
from molecule_platform.services.support.signals import Signals
from molecule_platform.storage.sqlite import SqliteStorage
from molecule_platform.testing import servers

if TYPE_CHECKING:
    from packages.platform.tests.conftest import FakeClock, MakeWorkspace

LOOPBACK = guard.caller_policy(push_allow_private=True)
UNKNOWN = "unknown.example"
"""A name that nobody resolves."""
ANN = Principal("user:ann", "org-one", principals.ROLE_SCOPES["member"], "Ann")


@dataclass(frozen=True)
class Heard:
    """One request that a webhook got."""

    path: str
    headers: Mapping[str, str]
    body: Any
    raw: bytes

    @property
    def seq(self) -> int:
        return int(self.headers["X-Molecule-Sequence"])


class Hooks:
    """Webhooks, one for each path: they remember what they were told and answer what they are told to."""

    def __init__(self) -> None:
        self.port = servers.free_port()
        self.heard: list[Heard] = []
        self.answers: dict[str, list[web.Response]] = {}
        self.always: dict[str, Callable[[], web.Response]] = {}
        self.shut: dict[str, asyncio.Event] = {}
        self.at_once = self.most_at_once = 0

    async def handle(self, request: web.BaseRequest) -> web.Response:
        raw = await request.read()
        path = request.path
        self.heard.append(Heard(path, dict(request.headers), json.loads(raw), raw))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if path in self.shut:
                await self.shut[path].wait()
        finally:
            self.at_once -= 1
        if self.answers.get(path):
            return self.answers[path].pop(0)
        return self.always.get(path, lambda: web.Response(status=204))()

    def of(self, path: str) -> list[Heard]:
        return [one for one in self.heard if one.path == path]

    def seqs(self, path: str) -> list[int]:
        return [one.seq for one in self.of(path)]

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def shut_at(self, path: str) -> asyncio.Event:
        """Let nobody out at that path until the event is set."""
        return self.shut.setdefault(path, asyncio.Event())


@pytest.fixture
async def hooks() -> AsyncIterator[Hooks]:
    """A server with webhooks."""
    one = Hooks()
    runner = web.ServerRunner(web.Server(one.handle), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", one.port).start()
    yield one
    for gate in one.shut.values():
        gate.set()
    await runner.cleanup()


class Lines:
    """A log that keeps its lines."""

    def __init__(self) -> None:
        self.said: list[tuple[str, dict[str, Any]]] = []

    def info(self, event: str, **fields: Any) -> None:
        self.said.append((event, fields))

    warning = error = info


def _seal(text: str, place: str) -> str:
    return f"k1.{place}.{text[::-1]}"


def _open(line: str, place: str) -> str:
    start = f"k1.{place}."
    if not line.startswith(start):
        raise ValueError("cannot be opened")
    return line.removeprefix(start)[::-1]


async def _check(url: str) -> str | None:
    try:
        checked = guard.check_url(url, LOOPBACK)
    except guard.UnsafeUrl as problem:
        raise ApiError("invalid-url", str(problem)) from problem
    return "it has no address" if checked.host == UNKNOWN else None


class Desk:
    """Who registers, who speaks, and who tells."""

    def __init__(self, storage: SqliteStorage, signals: Signals, clock: FakeClock, workspace_id: str) -> None:
        self.storage, self.signals, self.clock, self.workspace_id = storage, signals, clock, workspace_id
        self.log, self.sealing = Lines(), SealedTextColumn(_seal, _open)
        self.configs = PushConfigService(storage, clock, self.log, _check, self.sealing)
        self.notifiers: list[Notifier] = []
        self.outbounds: list[Outbound] = []
        self.chance = 0.5

    def notifier(
        self,
        replica: str = "replica-one",
        *,
        policy: guard.Policy = LOOPBACK,
        resolver: Callable[[str, int], Awaitable[Sequence[str]]] = guard.system_resolver,
        seconds: float = 30.0,
        storage: Storage | None = None,
    ) -> Notifier:
        """Somebody who tells, on a replica of that name."""
        outbound = Outbound(policy, resolver)
        self.outbounds.append(outbound)
        one = Notifier(
            storage or self.storage,
            self.signals,
            self.clock,
            self.log,
            WebhookClient(outbound, self.clock.now, seconds),
            self.sealing.open,
            replica,
            lambda: self.chance,
        )
        self.notifiers.append(one)
        return one

    def key(self, task_id: str = "t1", tenant: str = "") -> TaskKey:
        return TaskKey(self.workspace_id, tenant, task_id)

    async def begin(self, task_id: str = "t1", owner: str = ANN.text) -> TaskKey:
        """A task whose first event is that it was submitted."""
        now, key = self.clock.now(), self.key(task_id)
        task = Task(key.workspace_id, "", task_id, ANN.org_id, owner, "c1", "m1", "submitted", now, now)
        shown = {"id": task_id, "contextId": "c1", "status": task_log.status_of("submitted", now)}

        def work(tx: Transaction) -> None:
            tx.tasks.insert(task)
            task_log.append(tx, key, None, [task_log.event_of("task", shown, "m1", "submitted")], now)

        await self.storage.write(work)
        return key

    async def task(self, key: TaskKey) -> Task:
        found = await self.storage.read(lambda tx: tx.tasks.get(key))
        assert found is not None
        return found

    async def watch(self, key: TaskKey, url: str, dialect: Any = "1.0", **config: Any) -> Any:
        return await self.configs.create(ANN, key, {"url": url, **config}, dialect)

    async def says(self, key: TaskKey, *said: str) -> None:
        """Further chunks of the task's one artifact, all in one transaction."""
        task = await self.task(key)
        events = [
            task_log.artifact_event(
                task, {"artifactId": "out", "parts": [{"text": text}]}, "m1", append=task.last_seq + n > 1
            )
            for n, text in enumerate(said)
        ]
        await self.append(key, *events)

    async def append(self, key: TaskKey, *events: TaskEvent) -> None:
        now = self.clock.now()
        await self.storage.write(lambda tx: task_log.append(tx, key, None, events, now))

    async def ends(self, key: TaskKey) -> None:
        task = await self.task(key)
        await self.append(key, task_log.status_event(task, "completed", self.clock.now(), "m1"))

    async def kept(self, key: TaskKey) -> list[PushConfig]:
        return await self.storage.read(lambda tx: tx.push_configs.of_task(key))

    async def is_empty(self, key: TaskKey) -> bool:
        """Whether nothing is left to be told; what there is would be forgotten by this look."""

        def work(tx: Transaction) -> bool:
            left = sum(tx.outbox.clear(config.id) for config in tx.push_configs.of_task(key))
            raise _Seen(left)

        try:
            return await self.storage.write(work)
        except _Seen as seen:
            return seen.left == 0


class _Seen(Exception):
    """Undoes what a look changed."""

    def __init__(self, left: int) -> None:
        super().__init__(left)
        self.left = left


@pytest.fixture
async def waiters(
    empty_database: Path, tmp_path: Path, clock: FakeClock, make_workspace: MakeWorkspace
) -> AsyncIterator[Desk]:
    """One workspace whose tasks can be watched; nobody tells anything yet."""
    bus = MemoryBus()
    await bus.start()
    signals = Signals(bus)
    await signals.start()
    shutil.copy(empty_database, tmp_path / "molecule.db")
    storage = await SqliteStorage.open(tmp_path / "molecule.db", signals.notify)
    ada = make_workspace(name="Ada")
    org = Org(ada.org_id, "default", "Default organisation", clock.now())

    def work(tx: Transaction) -> None:
        tx.people.insert_org(org)
        tx.workspaces.insert(ada)

    await storage.write(work)
    one = Desk(storage, signals, clock, ada.id)
    yield one
    for notifier in one.notifiers:
        await notifier.stop()
    for outbound in one.outbounds:
        await outbound.close()
    await storage.close()
    await bus.close()


@pytest.fixture(scope="session")
def ann() -> Principal:
    """The creator of the tasks."""
    return ANN
