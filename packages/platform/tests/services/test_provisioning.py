"""Agents that we start ourselves: started once, started again, and given up when nothing helps."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from molecule_platform.domain import credentials
from molecule_platform.domain.lifecycle import HeartbeatReport
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.provisioner import StartFailed
from molecule_platform.services.identity.authentication import PresentedCredential
from molecule_platform.services.workspaces.lifecycle_services import LifecycleSettings
from molecule_platform.services.workspaces.provisioning import StartRules
from molecule_platform.services.workspaces.registration import RegistrationRequest

if TYPE_CHECKING:
    from packages.platform.tests.conftest import Eventually
    from packages.platform.tests.services.conftest import Refuses, Rig


async def launched(rig: Rig, eventually: Eventually, workspace: Workspace, times: int = 1) -> None:
    await eventually(lambda: len(rig.provisioner.launches_of(workspace.id)) == times)
    await eventually(lambda: workspace.id in rig.provisioner.running)


async def running(rig: Rig, eventually: Eventually, name: str = "Ada", **plan: Any) -> Workspace:
    """An agent that we started and that has answered."""
    ada = (await rig.created(name, runtime="llm", **plan)).workspace
    await launched(rig, eventually, ada)
    await rig.heartbeats.beat(ada.id, HeartbeatReport())
    return await rig.workspace(ada.id)


async def revoke_reason(rig: Rig, auth_token: str) -> str | None:
    token = await rig.storage.read(lambda tx: tx.tokens.by_hash(credentials.digest(auth_token)))
    assert token is not None
    return token.revoke_reason


async def is_taken_on(rig: Rig, workspace: Workspace) -> bool:
    return (await rig.workspace(workspace.id)).provisioning_since is not None


async def has_status(rig: Rig, workspace: Workspace, status: str) -> bool:
    return (await rig.workspace(workspace.id)).status == status


async def test_a_new_workspace_is_started_with_its_token_its_place_and_its_secrets(
    rig: Rig, eventually: Eventually
) -> None:
    lead = await rig.agent("Lead")
    created = await rig.created("Ada", lead, runtime="llm", role="maths", secrets={"KEY": "hush"})
    ada = created.workspace
    assert (ada.status, created.auth_token, ada.external) == ("provisioning", "", False)
    await launched(rig, eventually, ada)
    [launch] = rig.provisioner.launches
    assert launch.environment["WORKSPACE_ID"] == ada.id
    assert launch.environment["PARENT_ID"] == lead.id
    assert (launch.environment["KEY"], launch.environment["TIER"]) == ("hush", "2")
    assert "hush" not in repr(launch)
    assert launch.auth_token not in repr(launch)
    principal = await rig.identity.authenticate(PresentedCredential(launch.auth_token))
    assert principal.workspace_id == ada.id
    await rig.heartbeats.beat(ada.id, HeartbeatReport())
    assert await has_status(rig, ada, "online")
    assert (await rig.events())[-2:] == ["WORKSPACE_PROVISIONING", "WORKSPACE_ONLINE"]


async def test_a_workspace_that_we_start_cannot_be_claimed_from_outside(rig: Rig, refuses: Refuses) -> None:
    ada = (await rig.created(runtime="llm")).workspace
    rig.clock.advance(1)
    joining = rig.registration().register(RegistrationRequest(ada.id, {"name": "Eve"}), None)
    await refuses(joining, "unauthenticated")


async def test_at_most_three_start_at_the_same_time(rig: Rig, eventually: Eventually) -> None:
    rig.provisioner.open.clear()
    several = [(await rig.created(f"Ada {n}", runtime="llm")).workspace for n in range(7)]
    await eventually(lambda: rig.provisioner.starting == 3)
    rig.provisioner.open.set()
    await eventually(lambda: rig.provisioner.running == {workspace.id for workspace in several})
    assert rig.provisioner.most_starting == 3


async def test_several_replicas_start_an_agent_once(rig: Rig, eventually: Eventually) -> None:
    other = rig.new_lives(rig.provisioner)
    ada = (await rig.created(runtime="llm")).workspace
    await launched(rig, eventually, ada)
    await other.provisioning.close()
    assert len(rig.provisioner.launches) == 1


@pytest.mark.parametrize("retryable", [True, False])
async def test_a_start_that_fails_says_why(rig: Rig, eventually: Eventually, retryable: bool) -> None:
    rig.provisioner.start_problems = [StartFailed("no such runtime", retryable=retryable)]
    ada = (await rig.created(runtime="llm")).workspace
    await eventually(lambda: has_status(rig, ada, "failed"))
    assert (await rig.workspace(ada.id)).status_reason == "no such runtime"
    assert (await rig.events())[-1] == "WORKSPACE_PROVISION_FAILED"
    await rig.lifecycle_services.restarts.restart(await rig.workspace(ada.id))
    await launched(rig, eventually, ada, times=2)


async def test_a_secret_that_cannot_be_opened_fails_the_start(rig: Rig, eventually: Eventually) -> None:
    ada = await running(rig, eventually, secrets={"KEY": "hush"})
    moved = (await rig.storage.read(lambda tx: tx.secrets.all_of(rig.org.id, ada.id)))[0]
    await rig.storage.write(lambda tx: tx.secrets.put(replace(moved, key_id="another")))
    await rig.lifecycle_services.restarts.restart(ada)
    await eventually(lambda: has_status(rig, ada, "failed"))
    assert len(rig.provisioner.launches) == 1


async def test_an_agent_that_never_answers_has_failed_after_its_time(
    rig: Rig, eventually: Eventually
) -> None:
    ada = (await rig.created(runtime="llm")).workspace
    slow = (await rig.created("Slow", runtime="hermes")).workspace
    await launched(rig, eventually, ada)
    await launched(rig, eventually, slow)
    rig.clock.advance(599)
    await rig.lifecycle_services.late_starts.tick()
    assert await has_status(rig, ada, "provisioning")
    rig.clock.advance(1)
    await rig.lifecycle_services.late_starts.tick()
    assert await has_status(rig, ada, "failed")
    assert await has_status(rig, slow, "provisioning")
    event = (await rig.storage.read(lambda tx: tx.events.after(0, 100)))[-1]
    assert (event.event_type, event.payload["timeout_secs"]) == ("WORKSPACE_PROVISION_FAILED", 600)


async def test_a_start_whose_ring_was_lost_is_found_and_taken_on(rig: Rig, eventually: Eventually) -> None:
    ada = await rig.changed(
        await rig.agent("Ada"),
        external=False,
        runtime="llm",
        status="provisioning",
        updated_at=rig.clock.now(),
    )
    shared = rig.new_lives(rig.provisioner)
    await shared.late_starts.tick()
    assert rig.provisioner.launches == []
    rig.clock.advance(60)
    await shared.late_starts.tick()
    await launched(rig, eventually, ada)
    await shared.provisioning.close()


async def test_a_start_that_a_closing_house_was_at_work_on_is_taken_on_by_the_next(
    rig: Rig, eventually: Eventually
) -> None:
    rig.provisioner.seconds = 30
    ada = (await rig.created(runtime="llm")).workspace
    await eventually(lambda: is_taken_on(rig, ada))
    await rig.lifecycle_services.provisioning.close()
    assert (await rig.workspace(ada.id)).provisioning_since is None
    rig.provisioner.seconds = 0
    rig.clock.advance(1)
    again = rig.new_lives(rig.provisioner)
    await again.late_starts.tick()
    await eventually(lambda: ada.id in rig.provisioner.running)
    await again.provisioning.close()


async def test_a_start_that_died_with_its_house_is_taken_on_by_the_next(
    rig: Rig, eventually: Eventually
) -> None:
    ada = await rig.changed(
        await rig.agent(),
        external=False,
        runtime="llm",
        status="provisioning",
        provisioning_since=rig.clock.now(),
        started_by="an earlier one",
    )
    rig.clock.advance(5)
    await rig.lifecycle_services.late_starts.tick()
    await launched(rig, eventually, ada)


@pytest.mark.parametrize("how", ["gone", "silent"])
async def test_an_agent_whose_process_is_gone_or_that_fell_silent_starts_again(
    rig: Rig, eventually: Eventually, how: str
) -> None:
    ada = await running(rig, eventually)
    if how == "gone":
        rig.provisioner.die(ada.id)
    else:
        rig.clock.advance(181)
        await rig.sweeps.liveness()
        assert await has_status(rig, ada, "offline")
    await rig.lifecycle_services.process_check.tick()
    await launched(rig, eventually, ada, times=2)
    assert "WORKSPACE_OFFLINE" in await rig.events()
    assert await has_status(rig, ada, "provisioning")


async def test_a_living_process_is_left_alone(rig: Rig, eventually: Eventually) -> None:
    ada = await running(rig, eventually)
    await rig.agent("External")
    before = await rig.events()
    await rig.lifecycle_services.process_check.tick()
    assert await rig.events() == before
    assert rig.provisioner.running == {ada.id}


async def test_pausing_stops_the_process_and_resuming_starts_another(
    rig: Rig, eventually: Eventually
) -> None:
    lead = await running(rig, eventually, "Lead")
    outside = await rig.agent("Outside", parent=lead)
    assert await rig.lifecycle.pause(lead) == 2
    assert rig.provisioner.running == set()
    assert await rig.lifecycle.resume(lead) == ["provisioning", "awaiting_agent"]
    await launched(rig, eventually, lead, times=2)
    assert await has_status(rig, outside, "awaiting_agent")


async def test_a_pause_during_the_start_ends_what_was_started(rig: Rig, eventually: Eventually) -> None:
    rig.provisioner.seconds = 0.05
    ada = (await rig.created(runtime="llm")).workspace
    await eventually(lambda: rig.provisioner.starting == 1)
    await rig.lifecycle.pause(ada)
    await eventually(lambda: rig.provisioner.stopped == [ada.id])
    assert await has_status(rig, ada, "paused")


# Restarts


async def test_a_restart_replaces_process_and_token_and_gives_back_what_was_on_its_way(
    rig: Rig, eventually: Eventually
) -> None:
    ada = await running(rig, eventually)
    message = (await rig.send(ada)).message
    await rig.storage.write(
        lambda tx: tx.mailbox.lease(
            message.id, kind="dispatch", at=rig.clock.now(), deadline_at=message.deadline_at, owner="one"
        )
    )
    done = await rig.lifecycle_services.restarts.restart(ada)
    assert (done.status, done.config_dir) == ("provisioning", f"/configs/{ada.id}")
    await launched(rig, eventually, ada, times=2)
    waiting = await rig.message(message.id)
    assert (waiting.status, waiting.attempts) == ("accepted", 0)
    first, second = (launch.auth_token for launch in rig.provisioner.launches)
    assert await revoke_reason(rig, first) == "replaced"
    assert await revoke_reason(rig, second) is None


async def test_an_inbox_lease_survives_a_restart(rig: Rig, eventually: Eventually) -> None:
    ada = await running(rig, eventually)
    await rig.send(ada)
    [item] = await rig.lease(ada)
    await rig.lifecycle_services.restarts.restart(ada)
    assert (await rig.message(item["message_id"])).status == "leased"


async def test_restarts_within_a_moment_are_one_and_it_sees_the_last_change(
    rig: Rig, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleep, moment_is_over = asyncio.sleep, asyncio.Event()

    async def sleep_for_a_moment(seconds: float) -> None:
        await (moment_is_over.wait() if seconds > 1 else sleep(seconds))

    monkeypatch.setattr(asyncio, "sleep", sleep_for_a_moment)
    await rig.lifecycle_services.provisioning.close()
    rules = LifecycleSettings(start=StartRules(coalesce_seconds=60))
    lifecycle_services = rig.new_lives(rig.provisioner, rules)
    ada = await running(rig, eventually)
    for n in range(5):
        await rig.storage.write(
            lambda tx, n=n: tx.secrets.put(
                rig.sealing.secret(rig.org.id, ada.id, "K", str(n), rig.clock.now())
            )
        )
        await rig.restarted(ada)
        await asyncio.sleep(0.01)
    moment_is_over.set()
    await eventually(lambda: rig.provisioner.launches[-1].environment.get("K") == "4")
    assert len(rig.provisioner.launches) == 2
    await lifecycle_services.provisioning.close()


async def test_the_restarted_agent_is_told_why_and_which_variables_it_finds_but_no_value(
    rig: Rig, eventually: Eventually
) -> None:
    ada = await running(rig, eventually, secrets={"API_KEY": "canary"})
    await rig.restarted(ada, "the secret API_KEY changed")
    await launched(rig, eventually, ada, times=2)
    rig.clock.advance(3)
    await rig.heartbeats.beat(ada.id, HeartbeatReport())
    [item] = await rig.lease(ada)
    assert (item["kind"], item["caller"]) == ("system", "system:restart-context")
    assert item["metadata"] == {
        "source": "platform",
        "kind": "restart_context",
        "layer": 1,
        "restart_context": True,
    }
    for word in ("the secret API_KEY changed", "WORKSPACE_ID", "2026-05-02T12:00:00.000Z"):
        assert word in item["text"]
    assert "canary" not in item["text"]
    await rig.heartbeats.beat(ada.id, HeartbeatReport())
    assert await rig.lease(ada) == []


async def test_a_reset_forgets_the_session_and_tells_nothing_of_it(rig: Rig, eventually: Eventually) -> None:
    ada = await running(rig, eventually)
    await rig.lifecycle_services.restarts.restart(ada, reset=True)
    await launched(rig, eventually, ada, times=2)
    assert rig.provisioner.launches[-1].reset_session
    await rig.heartbeats.beat(ada.id, HeartbeatReport())
    assert await rig.lease(ada) == []


async def test_an_external_agent_is_asked_to_restart_itself(rig: Rig) -> None:
    ada = await rig.agent()
    assert (await rig.lifecycle_services.restarts.restart(ada)).config_dir is None
    assert (await rig.events())[-1] == "WORKSPACE_RESTART_REQUESTED"
    assert await has_status(rig, ada, "online")
    before = await rig.events()
    await rig.restarted(ada)
    assert await rig.events() == before


async def test_nothing_that_an_operator_paused_restarts(
    rig: Rig, eventually: Eventually, refuses: Refuses
) -> None:
    lead = await rig.agent("Lead")
    ada = await running(rig, eventually, parent=lead)
    await rig.changed(lead, status="paused")
    await refuses(rig.lifecycle_services.restarts.restart(ada), "parent-paused")
    await rig.lifecycle.pause(ada)
    await refuses(rig.lifecycle_services.restarts.restart(ada), "conflict")
    await rig.restarted(ada)
    assert await has_status(rig, ada, "paused")
    await refuses(rig.new_lives(None).restarts.restart(ada), "no-provisioner")


# Work that is none


async def test_an_agent_that_reports_work_but_holds_none_for_ten_minutes_is_free_again(rig: Rig) -> None:
    phantom, busy = await rig.agent("Phantom"), await rig.agent("Busy")
    for workspace in (phantom, busy):
        await rig.heartbeats.beat(workspace.id, HeartbeatReport(active_tasks=1, current_task="x"))
    await rig.send(busy)
    await rig.lease(busy)
    rig.clock.advance(timedelta(minutes=10).total_seconds() + 1)
    await rig.lifecycle_services.phantom_busy.tick()
    assert (await rig.workspace(phantom.id)).active_tasks == 0
    assert (await rig.workspace(busy.id)).active_tasks == 1
    assert rig.counted.phantoms == 1
    await rig.lifecycle_services.phantom_busy.tick()
    assert rig.counted.phantoms == 1
