"""Starts and stops on several replicas, when one of them is slow, fails or is killed at any moment."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from molecule_platform.domain.lifecycle import HeartbeatReport
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.provisioner import Launch, StartFailed, StopFailed
from molecule_platform.testing.provisioner import FakeProvisioner

if TYPE_CHECKING:
    from packages.platform.tests.conftest import Eventually
    from packages.platform.tests.services.conftest import Refuses, Rig


class Slow(FakeProvisioner):
    """Its starts end when the test lets them."""

    def __init__(self, problem: StartFailed | None = None) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.problem = problem
        self.done = asyncio.Event()

    async def start(self, launch: Launch) -> None:
        self.launches.append(launch)
        await self.gate.wait()
        self.done.set()
        if self.problem is not None:
            raise self.problem
        self.running.add(launch.workspace.id)
        self.epochs[launch.workspace.id] = launch.epoch


class Stuck(FakeProvisioner):
    """Its stops fail when the test lets them."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()
        self.gate = asyncio.Event()

    async def stop(self, workspace_id: str, through: int) -> None:
        self.asked.set()
        await self.gate.wait()
        raise StopFailed("it hangs")


async def running(rig: Rig, eventually: Eventually, **plan: Any) -> Workspace:
    """An agent that we started and that has answered."""
    ada = (await rig.created("Ada", runtime="llm", **plan)).workspace
    await eventually(lambda: ada.id in rig.provisioner.running)
    await rig.heartbeats.beat(ada.id, HeartbeatReport())
    return await rig.workspace(ada.id)


async def slowly_started(rig: Rig, eventually: Eventually, slow: Slow) -> Workspace:
    """A workspace whose first start another replica is at work on."""
    await rig.lifecycle_services.provisioning.close()
    rig.lifecycle_services = rig.new_lives(slow, replica="slow")
    ada = (await rig.created("Ada", runtime="llm")).workspace
    await eventually(lambda: len(slow.launches) == 1)
    return await rig.workspace(ada.id)


async def test_a_stop_that_failed_never_reaches_the_agent_that_was_started_since(
    rig: Rig, eventually: Eventually
) -> None:
    ada = await running(rig, eventually)
    rig.provisioner.stop_problems = ["it hangs"]
    await rig.lifecycle.pause(ada)
    await rig.lifecycle.resume(ada)
    await eventually(lambda: len(rig.provisioner.launches) == 2)
    await eventually(lambda: rig.provisioner.epochs[ada.id] == 2)
    await rig.lifecycle_services.process_check.tick()
    assert rig.provisioner.running == {ada.id}
    assert await rig.storage.read(lambda tx: tx.upkeep.to_be_stopped("", 1)) == []


async def test_a_stop_that_failed_on_one_replica_is_tried_again_by_another(
    rig: Rig, eventually: Eventually
) -> None:
    ada = await running(rig, eventually)
    other = rig.new_lives(rig.provisioner, replica="other")
    rig.provisioner.stop_problems = ["it hangs"] * 2
    assert (await other.lifecycle.remove(ada, confirmed=True)).stop_failures == [ada.id]
    await rig.lifecycle_services.process_check.tick()
    assert rig.provisioner.running == {ada.id}
    await rig.lifecycle_services.process_check.tick()
    assert rig.provisioner.running == set()
    await other.provisioning.close()


async def test_what_a_replica_was_to_stop_when_it_was_killed_is_stopped(
    rig: Rig, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada, bob = await running(rig, eventually), await running(rig, eventually)

    async def killed(*_: object) -> list[str]:
        raise asyncio.CancelledError

    with monkeypatch.context() as plug:
        plug.setattr(rig.lifecycle_services.provisioning, "end", killed)
        for work in (rig.lifecycle.pause(ada), rig.lifecycle.remove(bob, confirmed=True, purge=True)):
            await asyncio.gather(asyncio.ensure_future(work), return_exceptions=True)
    assert rig.provisioner.running == {ada.id, bob.id}
    again = rig.new_lives(rig.provisioner, replica="again")
    await again.process_check.tick()
    await again.provisioning.close()
    assert rig.provisioner.running == set()


async def test_the_failure_of_an_older_start_does_not_touch_the_newer_one(
    rig: Rig, eventually: Eventually
) -> None:
    slow = Slow(StartFailed("no memory", retryable=False))
    ada = await slowly_started(rig, eventually, slow)
    other = rig.new_lives(rig.provisioner, replica="other")
    await other.restarts.restart(ada)
    await eventually(lambda: ada.id in rig.provisioner.running)
    slow.gate.set()
    await slow.done.wait()
    await rig.storage.write(lambda _tx: None)  # comes after whatever the slow one had to write
    now = await rig.workspace(ada.id)
    assert (now.status, now.start_epoch, now.started_by) == ("provisioning", 2, "other")
    assert now.provisioning_since is not None
    await other.provisioning.close()


async def test_an_older_start_that_succeeds_late_ends_its_own_process_and_no_other(
    rig: Rig, eventually: Eventually
) -> None:
    slow = Slow()
    ada = await slowly_started(rig, eventually, slow)
    other = rig.new_lives(rig.provisioner, replica="other")
    await other.restarts.restart(ada)
    await eventually(lambda: ada.id in rig.provisioner.running)
    slow.stop_problems = ["it hangs"]
    slow.gate.set()
    await eventually(lambda: slow.stop_problems == [])
    assert slow.running == {ada.id}
    await rig.lifecycle_services.process_check.tick()
    assert (slow.running, rig.provisioner.running) == (set(), {ada.id})
    await other.provisioning.close()


async def test_a_closing_replica_gives_back_only_its_own_start(rig: Rig, eventually: Eventually) -> None:
    ada = await slowly_started(rig, eventually, Slow())
    other = rig.new_lives(rig.provisioner, replica="other")
    await other.restarts.restart(ada)
    await eventually(lambda: ada.id in rig.provisioner.running)
    await rig.lifecycle_services.provisioning.close()
    assert (await rig.workspace(ada.id)).started_by == "other"
    await other.provisioning.close()


async def test_the_start_of_a_replica_that_is_gone_is_taken_over(rig: Rig, eventually: Eventually) -> None:
    ada = await slowly_started(rig, eventually, Slow())
    other = rig.new_lives(rig.provisioner, replica="other")
    await rig.storage.write(lambda tx: tx.presence.seen("slow"))
    rig.clock.advance(60)
    await other.late_starts.tick()
    assert (await rig.workspace(ada.id)).started_by == "slow"
    await rig.storage.write(lambda tx: tx.presence.leave("slow"))
    await other.late_starts.tick()
    await eventually(lambda: ada.id in rig.provisioner.running)
    assert (await rig.workspace(ada.id)).started_by == "other"
    await other.provisioning.close()


async def test_a_process_that_a_lost_replica_started_may_answer(rig: Rig, eventually: Eventually) -> None:
    ada = (await rig.created("Ada", runtime="llm")).workspace
    await eventually(lambda: ada.id in rig.provisioner.running)
    other = rig.new_lives(rig.provisioner, replica="other")
    rig.clock.advance(60)
    await other.late_starts.tick()
    assert len(rig.provisioner.launches) == 1
    rig.clock.advance(600)
    await other.late_starts.tick()
    assert (await rig.workspace(ada.id)).status == "failed"
    await other.provisioning.close()


async def test_a_sleep_that_failed_on_a_slow_replica_does_not_undo_a_later_one(
    rig: Rig, eventually: Eventually, refuses: Refuses
) -> None:
    ada = await running(rig, eventually)
    slow = rig.new_lives(stuck := Stuck(), replica="slow")
    # It takes on no start: the agent is to be woken by the other one.
    await slow.provisioning.close()
    going = asyncio.ensure_future(refuses(slow.hibernation.hibernate(ada, force=False), "internal"))
    await stuck.asked.wait()
    rig.clock.advance(61)
    await rig.lifecycle_services.hibernation.tick()
    await rig.lifecycle_services.hibernation.wake(await rig.workspace(ada.id))
    await eventually(lambda: ada.id in rig.provisioner.running)
    await rig.changed(ada, status="hibernating")
    stuck.gate.set()
    await going
    assert (await rig.workspace(ada.id)).status == "hibernating"


# Below a paused workspace


async def test_nothing_is_created_to_run_below_a_paused_workspace(rig: Rig, refuses: Refuses) -> None:
    lead = await rig.agent("Lead")
    team = await rig.agent("Team", parent=lead)
    await rig.changed(lead, status="paused")
    refusal = await refuses(rig.created("Ada", team, runtime="llm"), "parent-paused")
    assert "Lead" in refusal.sentence
    assert rig.provisioner.launches == []
    assert (await rig.created("Outside", team)).workspace.status == "awaiting_agent"


async def test_what_was_moved_below_a_paused_workspace_starts_once_that_is_resumed(
    rig: Rig, eventually: Eventually
) -> None:
    lead = await rig.agent("Lead")
    ada = await running(rig, eventually)
    await rig.lifecycle_services.hibernation.hibernate(ada, force=False)
    await rig.lifecycle_services.changes.apply(ada, {"parent_id": lead.id}, rig.admin)
    await rig.changed(lead, status="paused")
    await rig.send(await rig.workspace(ada.id))
    for _ in range(30):
        rig.clock.advance(60)
        await rig.lifecycle_services.late_starts.tick()
    assert (await rig.workspace(ada.id)).status == "provisioning"
    assert len(rig.provisioner.launches) == 1
    await rig.lifecycle.resume(lead)
    await eventually(lambda: len(rig.provisioner.launches) == 2)
