"""Starting and stopping the agents that live here: each start is taken on once, by one replica."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from molecule_platform.domain import lifecycle
from molecule_platform.domain.environment import environment_of
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.visibility import Unclaimed
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.log import Log
from molecule_platform.ports.provisioner import Launch, Provisioner, StartFailed, StopFailed
from molecule_platform.ports.storage import Storage, StorageDown, Transaction
from molecule_platform.services.messaging.messages import settlement
from molecule_platform.services.support import event_log, signals
from molecule_platform.services.support.signals import Signals
from molecule_platform.services.workspaces import pause_rules, registration

AT_ONCE = 3
STOPPED_AT_ONCE = 50
CREATED_BY = "system:provisioner"

Secrets = Callable[[Transaction, Workspace], Mapping[str, str]]


@dataclass(frozen=True)
class StartRules:
    """How patient the house is with agents that it starts."""

    timeout_seconds: int = 600
    wake_delays: tuple[float, ...] = (2.0, 10.0, 30.0)
    coalesce_seconds: float = 2.0


class Provisioning:
    """Watches for workspaces that are to be started, and starts them; without a provisioner, says so."""

    def __init__(
        self,
        storage: Storage,
        signals: Signals,
        clock: Clock,
        log: Log,
        provisioner: Provisioner | None,
        secrets: Secrets,
        rules: StartRules,
        replica_id: str,
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._log = log
        self._provisioner = provisioner
        self._secrets = secrets
        self._rules = rules
        self._replica_id = replica_id
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._starting: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._started_at: dict[str, float] = {}
        self._closing = False
        signals.watch("start.", self.wake)

    @property
    def is_there(self) -> bool:
        """Whether this platform can start agents."""
        return self._provisioner is not None

    def required(self) -> Provisioner:
        """The provisioner. Raises when this platform has none."""
        if self._provisioner is None:
            raise ApiError(
                "no-provisioner",
                "this platform starts no agents itself: create the workspace with external:true "
                "and run its agent where you like",
            )
        return self._provisioner

    async def close(self) -> None:
        """Take on nothing new, and give back the starts that are under way."""
        self._closing = True
        running = list(self._starting.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    # Starting

    def wake(self, workspace_id: str) -> None:
        """Look whether this workspace is to be started."""
        if self._provisioner is None or self._closing:
            return
        if workspace_id in self._starting:
            self._again.add(workspace_id)
            return
        task = asyncio.get_running_loop().create_task(self._start_until_done(workspace_id))
        self._starting[workspace_id] = task

    async def _start_until_done(self, workspace_id: str) -> None:
        try:
            while True:
                self._again.discard(workspace_id)
                delay = await self._start_one(workspace_id)
                if delay is not None:
                    await asyncio.sleep(delay)
                elif workspace_id not in self._again:
                    return
        except StorageDown as problem:
            self._log.error("a start is put off", workspace_id=workspace_id, problem=str(problem))
        finally:
            del self._starting[workspace_id]

    async def _start_one(self, workspace_id: str) -> float | None:
        """Start the agent if that is wanted; the seconds after which to try again, if so."""
        if not await self._storage.read(lambda tx: _is_wanted(tx, workspace_id)):
            return None
        await self._let_requests_gather(workspace_id)
        async with self._slots:
            launch = await self._taken_on(workspace_id)
            return None if launch is None else await self._run(launch)

    async def _taken_on(self, workspace_id: str) -> Launch | None:
        taking = asyncio.ensure_future(self._storage.write(lambda tx: self._take_on(tx, workspace_id)))
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            # It may be on disk already, and nobody may wait for a start that nobody makes.
            launch = await taking
            if launch is not None:
                await self._give_back(launch)
            raise

    async def _give_back(self, launch: Launch) -> None:
        workspace_id, epoch = launch.workspace.id, launch.epoch
        await self._storage.write(lambda tx: give_back(tx, workspace_id, epoch, self._clock.now()))

    async def _let_requests_gather(self, workspace_id: str) -> None:
        """Several reasons to restart within a moment are one restart."""
        now = asyncio.get_running_loop().time()
        since = now - self._rules.coalesce_seconds
        self._started_at = {name: at for name, at in self._started_at.items() if at > since}
        last = self._started_at.get(workspace_id)
        if last is not None:
            await asyncio.sleep(last - since)
        self._started_at[workspace_id] = asyncio.get_running_loop().time()

    def _take_on(self, tx: Transaction, workspace_id: str) -> Launch | None:
        """Make the start ours, with a fresh token; None when another replica or an operator was faster."""
        current = tx.workspaces.get(workspace_id)
        if current is None or not _may_start(tx, current):
            return None
        now = self._clock.now()
        taken = _next_start(current, self._replica_id, now)
        if not tx.workspaces.update(taken):
            return None
        for token in tx.tokens.living_of_workspace(workspace_id, now):
            if token.created_by == CREATED_BY:
                tx.tokens.revoke(token.id, now, "replaced")
        auth_token = registration.mint(tx, taken, CREATED_BY, now).secret
        tx.signal(signals.CREDENTIALS)
        try:
            hidden = tx.workspaces.unclaimed((taken.parent_id or "",), Unclaimed(now))
            placed = taken.but(parent_id=None) if hidden else taken
            environment = {**environment_of(placed), **self._secrets(tx, taken)}
        except ValueError:
            sentence = "a secret cannot be opened with the key of this platform: set it anew"
            self.give_up(tx, taken, StartFailed(sentence, retryable=False))
            return None
        reset = taken.restart_reason == lifecycle.RESET
        return Launch(taken, taken.start_epoch, environment, auth_token, reset)

    async def _run(self, launch: Launch) -> float | None:
        workspace_id, epoch = launch.workspace.id, launch.epoch
        provisioner = self.required()
        try:
            await provisioner.stop(workspace_id, epoch - 1)
            await provisioner.start(launch)
        except asyncio.CancelledError:
            await self._give_back(launch)
            raise
        except StartFailed as problem:
            return await self._start_failed(launch, problem)
        except StopFailed:
            return await self._start_failed(launch, StartFailed("its earlier process does not end"))
        except Exception as problem:  # noqa: BLE001 - whatever a provisioner does, the workspace must not hang
            self._log.error("an agent did not start", workspace_id=workspace_id, problem=repr(problem))
            return await self._start_failed(launch, StartFailed(type(problem).__name__))
        await self._end_if_unwanted(launch)
        return None

    async def _end_if_unwanted(self, launch: Launch) -> None:
        """Somebody paused, removed or restarted the workspace while its agent was starting."""

        def must_end(tx: Transaction) -> bool:
            current = tx.workspaces.get(launch.workspace.id)
            if current is None or lifecycle.is_wanted(current, launch.epoch):
                return False
            tx.workspaces.touch(current.id, stop_through=max(launch.epoch, current.stop_through or 0))
            return True

        if await self._storage.write(must_end):
            await self.end({launch.workspace.id: launch.epoch})

    async def _start_failed(self, launch: Launch, problem: StartFailed) -> float | None:
        def work(tx: Transaction) -> float | None:
            current = tx.workspaces.get(launch.workspace.id)
            if current is None or not lifecycle.is_at_work(current, launch.epoch):
                return None
            tries = current.provision_attempts
            if problem.retryable and 0 < tries <= len(self._rules.wake_delays):
                _offer_again(tx, current, self._clock.now(), provision_attempts=tries + 1)
                return self._rules.wake_delays[tries - 1]
            self.give_up(tx, current, problem)
            return None

        return await self._storage.write(work)

    def give_up(self, tx: Transaction, workspace: Workspace, problem: StartFailed, **more: Any) -> None:
        """The start has failed for good; mail that a sleeping agent was woken for ends if nothing helps."""
        now = self._clock.now()
        changes = {"status_reason": problem.sentence}
        event_log.step(tx, workspace, "start-failed", now, changes, error=problem.sentence, **more)
        if workspace.provision_attempts and not problem.retryable:
            for waiting in tx.mailbox.waiting(workspace.id):
                settlement.settle(tx, waiting.id, settlement.wake_failed(workspace), now)

    # Stopping

    async def end(self, starts: Mapping[str, int]) -> list[str]:
        """Stop the agents of these workspaces, each through the start that is given; who may still run.

        What does not stop keeps its mark in the store, and `end_the_rest` tries again.
        """
        if self._provisioner is None:
            return []
        stopping = [self._stop(self._provisioner, *one) for one in starts.items()]
        unstopped = [workspace_id for workspace_id in await asyncio.gather(*stopping) if workspace_id]
        await self._note_stopped({one: starts[one] for one in starts.keys() - set(unstopped)})
        return unstopped

    async def _stop(self, provisioner: Provisioner, workspace_id: str, through: int) -> str | None:
        try:
            await provisioner.stop(workspace_id, through)
        except Exception as problem:  # noqa: BLE001 - one that does not stop must not keep the others running
            self._log.error("an agent does not stop", workspace_id=workspace_id, problem=repr(problem))
            return workspace_id
        return None

    async def _note_stopped(self, starts: Mapping[str, int]) -> None:
        def work(tx: Transaction) -> None:
            for workspace_id, through in starts.items():
                tx.upkeep.stopped(workspace_id, through)

        try:
            await self._storage.write(work)
        except StorageDown as problem:
            self._log.warning("stopped agents are to be stopped once more", problem=str(problem))

    async def end_the_rest(self) -> None:
        """Stop whatever may still run although it must not, whoever was to stop it."""
        page = await self._to_be_stopped("")
        while page:
            await self.end({one.id: one.stop_through or 0 for one in page})
            page = await self._to_be_stopped(page[-1].id)

    async def _to_be_stopped(self, after: str) -> list[Workspace]:
        return await self._storage.read(lambda tx: tx.upkeep.to_be_stopped(after, STOPPED_AT_ONCE))

    async def is_gone(self, workspace_id: str) -> bool:
        """Whether an agent that should run here does not."""
        return self._provisioner is not None and not await self._provisioner.is_running(workspace_id)


def give_back(tx: Transaction, workspace_id: str, epoch: int, now: datetime) -> None:
    """A start that nobody is at work on any more waits to be taken on again."""
    current = tx.workspaces.get(workspace_id)
    if current is not None and lifecycle.is_at_work(current, epoch):
        _offer_again(tx, current, now)
        tx.signal(signals.start(workspace_id))


def _offer_again(tx: Transaction, workspace: Workspace, now: datetime, **changes: Any) -> None:
    nobody = {"provisioning_since": None, "started_by": None}
    tx.workspaces.update(workspace.changed(**nobody, **changes, updated_at=now))


def _next_start(workspace: Workspace, replica_id: str, now: datetime) -> Workspace:
    """The workspace with its start taken on; whatever earlier starts left running is to end."""
    before = workspace.start_epoch
    return workspace.changed(
        provisioning_since=now,
        started_by=replica_id,
        start_epoch=before + 1,
        stop_through=before or None,
        updated_at=now,
    )


def _may_start(tx: Transaction, workspace: Workspace) -> bool:
    return lifecycle.is_to_be_started(workspace) and pause_rules.paused_ancestor(tx, workspace) is None


def _is_wanted(tx: Transaction, workspace_id: str) -> bool:
    current = tx.workspaces.get(workspace_id)
    return current is not None and _may_start(tx, current)
