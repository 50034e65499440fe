"""Hibernation: who sleeps, who wakes it, and that nothing is lost in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from molecule_platform.domain.lifecycle import HeartbeatReport
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.provisioner import StartFailed
from molecule_platform.services.workspaces.registration import RegistrationRequest

if TYPE_CHECKING:
    from packages.platform.tests.conftest import Eventually
    from packages.platform.tests.services.conftest import Refuses, Rig

Of = Callable[[Workspace], Principal]


async def running(rig: Rig, eventually: Eventually, **plan: Any) -> Workspace:
    ada = (await rig.created("Ada", runtime="llm", **plan)).workspace
    await eventually(lambda: ada.id in rig.provisioner.running)
    await rig.heartbeats.beat(ada.id, HeartbeatReport())
    return await rig.workspace(ada.id)


async def asleep(rig: Rig, eventually: Eventually) -> Workspace:
    ada = await running(rig, eventually)
    await rig.lifecycle_services.hibernation.hibernate(ada, force=False)
    return await rig.workspace(ada.id)


async def has_status(rig: Rig, workspace: Workspace, status: str) -> bool:
    return (await rig.workspace(workspace.id)).status == status


async def test_a_hibernated_workspace_has_no_process_and_no_address_and_no_word_of_it_undoes_that(
    rig: Rig, eventually: Eventually, principal_of: Of
) -> None:
    ada = await asleep(rig, eventually)
    assert (ada.status, ada.url, rig.provisioner.running) == ("hibernated", "", set())
    assert (await rig.events())[-1] == "WORKSPACE_HIBERNATED"
    await rig.heartbeats.beat(ada.id, HeartbeatReport())
    await rig.registration().register(RegistrationRequest(ada.id, {}), principal_of(ada))
    assert await has_status(rig, ada, "hibernated")


async def test_only_a_living_agent_of_ours_can_be_put_to_sleep(
    rig: Rig, eventually: Eventually, refuses: Refuses
) -> None:
    await refuses(rig.lifecycle_services.hibernation.hibernate(await rig.agent("Out"), False), "conflict")
    ada = await asleep(rig, eventually)
    await refuses(rig.lifecycle_services.hibernation.hibernate(ada, False), "not-found")
    await refuses(rig.new_lives(None).hibernation.hibernate(ada, False), "no-provisioner")


async def test_work_keeps_an_agent_awake_unless_it_is_taken_back(
    rig: Rig, eventually: Eventually, refuses: Refuses
) -> None:
    ada = await running(rig, eventually)
    message = (await rig.send(ada)).message
    await rig.lease(ada)
    refusal = await refuses(rig.lifecycle_services.hibernation.hibernate(ada, force=False), "busy")
    assert refusal.extras["active_tasks"] == 1
    await rig.lifecycle_services.hibernation.hibernate(ada, force=True)
    assert await has_status(rig, ada, "hibernated")
    waiting = await rig.message(message.id)
    assert (waiting.status, waiting.attempts) == ("accepted", 0)


async def test_an_agent_that_does_not_stop_is_online_again(
    rig: Rig, eventually: Eventually, refuses: Refuses
) -> None:
    ada = await running(rig, eventually)
    rig.provisioner.stop_problems = ["it hangs"]
    await refuses(rig.lifecycle_services.hibernation.hibernate(ada, force=False), "internal")
    assert await has_status(rig, ada, "online")


async def test_many_messages_wake_it_once_and_all_are_kept(rig: Rig, eventually: Eventually) -> None:
    ada = await asleep(rig, eventually)
    sent = await asyncio.gather(*(rig.send(ada, f"m{n}") for n in range(5)))
    assert await has_status(rig, ada, "provisioning")
    await eventually(lambda: ada.id in rig.provisioner.running)
    assert (await rig.events()).count("WORKSPACE_WAKING") == 1
    assert len(rig.provisioner.launches) == 2
    await rig.heartbeats.beat(ada.id, HeartbeatReport())
    assert {item["message_id"] for item in await rig.lease(ada, parallel_contexts=True)} == {
        receipt.message.id for receipt in sent
    }


async def test_a_message_that_comes_while_it_falls_asleep_wakes_it(rig: Rig, eventually: Eventually) -> None:
    ada = await running(rig, eventually)
    rig.provisioner.seconds = 0.05
    going = asyncio.ensure_future(rig.lifecycle_services.hibernation.hibernate(ada, force=False))
    await eventually(lambda: has_status(rig, ada, "hibernating"))
    await rig.send(ada)
    await going
    await eventually(lambda: len(rig.provisioner.launches) == 2)
    assert "WORKSPACE_WAKING" in await rig.events()


async def test_waking_by_hand_starts_the_sleeping_and_leaves_the_others(
    rig: Rig, eventually: Eventually, refuses: Refuses
) -> None:
    ada = await asleep(rig, eventually)
    assert await rig.lifecycle_services.hibernation.wake(ada) == "provisioning"
    assert await rig.lifecycle_services.hibernation.wake(await rig.workspace(ada.id)) == "provisioning"
    await eventually(lambda: ada.id in rig.provisioner.running)
    await rig.heartbeats.beat(ada.id, HeartbeatReport())
    assert await rig.lifecycle_services.hibernation.wake(await rig.workspace(ada.id)) == "online"
    await rig.lifecycle.pause(ada)
    await refuses(rig.lifecycle_services.hibernation.wake(await rig.workspace(ada.id)), "conflict")


async def test_a_wake_that_fails_is_tried_three_more_times(rig: Rig, eventually: Eventually) -> None:
    ada = await asleep(rig, eventually)
    rig.provisioner.start_problems = [StartFailed("no memory")] * 3
    await rig.send(ada)
    await eventually(lambda: ada.id in rig.provisioner.running)
    assert len(rig.provisioner.launches) == 5
    assert await has_status(rig, ada, "provisioning")


@pytest.mark.parametrize("retryable", [True, False])
async def test_mail_of_an_agent_that_cannot_be_woken_ends_at_its_deadline_or_at_once_if_nothing_helps(
    rig: Rig, eventually: Eventually, retryable: bool
) -> None:
    ada = await asleep(rig, eventually)
    rig.provisioner.start_problems = [StartFailed("no memory", retryable=retryable)] * 4
    message = (await rig.send(ada, timeout_seconds=60)).message
    await eventually(lambda: has_status(rig, ada, "failed"))
    if retryable:
        assert (await rig.message(message.id)).is_open
        rig.clock.advance(60)
        await rig.sweeps.leases()
    ended = await rig.message(message.id)
    assert (ended.status, (ended.error or {})["code"]) == ("failed", "wake-failed")


# What time does


async def test_an_idle_agent_sleeps_and_heartbeats_do_not_keep_it_awake(
    rig: Rig, eventually: Eventually
) -> None:
    ada = await running(rig, eventually, hibernation_idle_minutes=10)
    for _ in range(9):
        rig.clock.advance(60)
        await rig.heartbeats.beat(ada.id, HeartbeatReport())
        await rig.lifecycle_services.hibernation.tick()
    assert await has_status(rig, ada, "online")
    rig.clock.advance(60)
    await rig.heartbeats.beat(ada.id, HeartbeatReport())
    await rig.lifecycle_services.hibernation.tick()
    assert await has_status(rig, ada, "hibernated")


async def test_without_a_limit_nobody_sleeps(rig: Rig, eventually: Eventually) -> None:
    ada = await running(rig, eventually)
    rig.clock.advance(10**6)
    await rig.lifecycle_services.hibernation.tick()
    assert await has_status(rig, ada, "online")


async def test_an_open_message_or_a_fresh_answer_keeps_it_awake(rig: Rig, eventually: Eventually) -> None:
    ada = await running(rig, eventually, hibernation_idle_minutes=10)
    await rig.send(ada)
    [item] = await rig.lease(ada, lease_seconds=3600)
    rig.clock.advance(900)
    await rig.lifecycle_services.hibernation.tick()
    assert await has_status(rig, ada, "online")
    await rig.inbox.ack(ada, item["message_id"], item["lease"]["token"])
    await rig.lifecycle_services.hibernation.tick()
    assert await has_status(rig, ada, "online")
    rig.clock.advance(601)
    await rig.lifecycle_services.hibernation.tick()
    assert await has_status(rig, ada, "hibernated")


async def test_what_a_lost_process_left_half_asleep_is_finished(rig: Rig, eventually: Eventually) -> None:
    ada = await running(rig, eventually)
    await rig.changed(ada, status="hibernating", updated_at=rig.clock.now())
    await rig.lifecycle_services.hibernation.tick()
    assert await has_status(rig, ada, "hibernating")
    rig.clock.advance(61)
    await rig.lifecycle_services.hibernation.tick()
    assert await has_status(rig, ada, "hibernated")


async def test_a_sender_who_would_not_wait_wakes_a_sleeper_all_the_same(
    rig: Rig, eventually: Eventually, refuses: Refuses
) -> None:
    ada = await asleep(rig, eventually)
    refusal = await refuses(rig.send(ada, never_queue=True), "peer-waking")
    assert (refusal.extras["waking"], refusal.extras["retry_after"]) == (True, 15)
    await eventually(lambda: ada.id in rig.provisioner.running)
