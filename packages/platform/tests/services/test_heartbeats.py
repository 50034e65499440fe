"""Heartbeats: what must be known at once is written at once, the rest a moment later and never lost."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from molecule_platform.domain.lifecycle import HeartbeatReport
from molecule_platform.ports.storage import StorageDown
from molecule_platform.services.events.event_feed import FeedSubscriber
from molecule_platform.services.workspaces.heartbeats import Heartbeats

if TYPE_CHECKING:
    from packages.platform.tests.conftest import Eventually
    from packages.platform.tests.services.conftest import Refuses, Rig


async def test_the_first_beat_brings_a_waiting_workspace_online_at_once(rig: Rig) -> None:
    ada = (await rig.created()).workspace
    heard = await rig.heartbeats.beat(ada.id, HeartbeatReport())
    assert heard.body() == {
        "status": "ok",
        "workspace_status": "online",
        "paused": False,
        "pending": 0,
        "server_time": "2026-05-02T12:00:00.000Z",
    }
    now = await rig.workspace(ada.id)
    assert (now.status, now.claimed_at) == ("online", rig.clock.now())
    assert now.liveness_expires_at == rig.clock.now() + timedelta(seconds=90)
    assert (await rig.events())[-1] == "WORKSPACE_ONLINE"


async def test_a_beat_tells_how_much_mail_waits_and_that_the_agent_is_paused(rig: Rig) -> None:
    ada = await rig.agent()
    await rig.send(ada)
    await rig.lifecycle.pause(ada)
    heard = await rig.heartbeats.beat(ada.id, HeartbeatReport())
    assert (heard.pending, heard.workspace.status) == (1, "paused")


async def test_a_beat_that_changes_nothing_is_written_behind(rig: Rig) -> None:
    ada = await rig.agent()
    await rig.heartbeats.beat(ada.id, HeartbeatReport())
    before = await rig.workspace(ada.id)
    rig.clock.advance(30)
    await rig.heartbeats.beat(ada.id, HeartbeatReport(uptime_seconds=30))
    assert await rig.workspace(ada.id) == before
    await rig.heartbeats.flush()
    after = await rig.workspace(ada.id)
    assert (after.uptime_seconds, after.last_heartbeat_at) == (30, rig.clock.now())
    assert after.liveness_expires_at == rig.clock.now() + timedelta(seconds=90)
    assert after.version == before.version


async def test_what_is_written_behind_is_on_disk_within_a_second(rig: Rig, eventually: Eventually) -> None:
    ada = await rig.agent()
    await rig.heartbeats.beat(ada.id, HeartbeatReport())
    rig.heartbeats.start()
    rig.clock.advance(30)
    await rig.heartbeats.beat(ada.id, HeartbeatReport())

    async def written() -> bool:
        return (await rig.workspace(ada.id)).last_heartbeat_at == rig.clock.now()

    await eventually(written)
    await rig.heartbeats.stop()


async def test_stopping_writes_what_is_left(rig: Rig) -> None:
    ada = await rig.agent()
    await rig.heartbeats.beat(ada.id, HeartbeatReport())
    rig.clock.advance(30)
    await rig.heartbeats.beat(ada.id, HeartbeatReport())
    await rig.heartbeats.stop()
    assert (await rig.workspace(ada.id)).last_heartbeat_at == rig.clock.now()


async def test_what_could_not_be_written_is_kept_for_the_next_time(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = await rig.agent()
    await rig.heartbeats.beat(ada.id, HeartbeatReport())
    rig.clock.advance(30)
    await rig.heartbeats.beat(ada.id, HeartbeatReport())

    async def down(_work: Any) -> None:
        raise StorageDown("away")

    with monkeypatch.context() as patched:
        patched.setattr(rig.storage, "write", down)
        with pytest.raises(StorageDown):
            await rig.heartbeats.flush()
    await rig.heartbeats.flush()
    assert (await rig.workspace(ada.id)).last_heartbeat_at == rig.clock.now()


@pytest.mark.parametrize(
    ("beat", "status", "event"),
    [
        (HeartbeatReport(error_rate=0.9, sample_error="no key"), "degraded", "WORKSPACE_DEGRADED"),
        (HeartbeatReport(runtime_state="wedged"), "degraded", "WORKSPACE_DEGRADED"),
    ],
)
async def test_bad_news_is_written_at_once_with_its_reason(
    rig: Rig, beat: HeartbeatReport, status: str, event: str
) -> None:
    ada = await rig.agent()
    await rig.heartbeats.beat(ada.id, beat)
    assert (await rig.workspace(ada.id)).status == status
    [newest] = await rig.storage.read(lambda tx: tx.events.newest(rig.org.id, 1))
    assert newest.event_type == event
    assert newest.payload["sample_error"] == beat.sample_error


async def test_a_recovery_says_what_from(rig: Rig) -> None:
    ada = await rig.changed(await rig.agent(), status="offline")
    await rig.heartbeats.beat(ada.id, HeartbeatReport())
    [newest] = await rig.storage.read(lambda tx: tx.events.newest(rig.org.id, 1))
    assert (newest.event_type, newest.payload["recovered_from"]) == ("WORKSPACE_ONLINE", "offline")


async def test_more_room_at_the_agent_is_known_at_once_and_filled(rig: Rig, eventually: Eventually) -> None:
    ada = await rig.changed(await rig.agent(url="http://agent"), active_tasks=1)
    await rig.send(ada)
    await eventually(lambda: not rig.dispatcher._pumps)
    assert rig.link.carried == []
    await rig.heartbeats.beat(ada.id, HeartbeatReport(active_tasks=0))
    await eventually(lambda: len(rig.link.carried) == 1)


async def test_a_beat_after_removal_says_gone_and_of_nobody_not_found(rig: Rig, refuses: Refuses) -> None:
    ada = await rig.agent()
    await rig.lifecycle.remove(ada, confirmed=False)
    await refuses(rig.heartbeats.beat(ada.id, HeartbeatReport()), "workspace-removed")
    await refuses(rig.heartbeats.beat("nobody", HeartbeatReport()), "workspace-not-found")


async def test_people_see_each_beat_and_each_change_of_work_live(rig: Rig) -> None:
    ada = await rig.agent()
    await rig.feed.start()
    listener = FeedSubscriber(rig.admin)
    await rig.feed.join(listener)
    await rig.heartbeats.beat(
        ada.id, HeartbeatReport(current_task="adding", active_tasks=1, uptime_seconds=5)
    )
    shown = await listener.take(30)
    await rig.feed.stop()
    assert [(event.event_type, event.payload) for event in shown] == [
        ("WORKSPACE_HEARTBEAT", {"active_tasks": 1, "uptime_seconds": 5}),
        ("TASK_UPDATED", {"current_task": "adding", "active_tasks": 1}),
    ]
    assert all(event.id is None for event in shown)


async def test_a_beat_right_after_a_pause_is_told_of_it(
    rig: Rig,
) -> None:
    ada = await rig.agent()
    await rig.heartbeats.beat(ada.id, HeartbeatReport())
    await rig.lifecycle.pause(ada)
    assert (await rig.heartbeats.beat(ada.id, HeartbeatReport())).workspace.status == "paused"


async def test_a_replica_that_writes_later_does_not_undo_what_was_heard_since(rig: Rig) -> None:
    ada = await rig.agent()
    other = Heartbeats(rig.storage, rig.clock, rig.log, rig.feed, 90)
    for replica in (rig.heartbeats, other):
        await replica.beat(ada.id, HeartbeatReport())
    await rig.heartbeats.beat(ada.id, HeartbeatReport(uptime_seconds=1))
    rig.clock.advance(30)
    await other.beat(ada.id, HeartbeatReport(uptime_seconds=31))
    await other.flush()
    await rig.heartbeats.flush()
    row = await rig.workspace(ada.id)
    assert (row.last_heartbeat_at, row.uptime_seconds) == (rig.clock.now(), 31)


async def test_the_last_word_of_an_agent_that_is_replaced_is_not_kept(rig: Rig) -> None:
    ada = await rig.agent()
    await rig.heartbeats.beat(ada.id, HeartbeatReport())
    rig.clock.advance(1)
    await rig.heartbeats.beat(ada.id, HeartbeatReport(uptime_seconds=9))
    await rig.changed(ada, status="provisioning", uptime_seconds=0, liveness_expires_at=None)
    await rig.heartbeats.flush()
    row = await rig.workspace(ada.id)
    assert (row.uptime_seconds, row.liveness_expires_at) == (0, None)


async def test_another_beat_than_the_last_is_judged_at_once(rig: Rig) -> None:
    ada = await rig.agent()
    await rig.heartbeats.beat(ada.id, HeartbeatReport())
    heard = await rig.heartbeats.beat(ada.id, HeartbeatReport(error_rate=0.9))
    assert heard.workspace.status == "degraded"


async def test_an_idle_timeout_that_is_no_number_clears_the_one_before_also_when_it_equals_it(
    rig: Rig,
) -> None:
    ada = await rig.agent()
    await rig.heartbeats.beat(ada.id, HeartbeatReport(runtime_metadata={"idle_timeout_seconds": 1}))
    assert (await rig.workspace(ada.id)).idle_timeout_seconds == 1
    await rig.heartbeats.beat(ada.id, HeartbeatReport(runtime_metadata={"idle_timeout_seconds": True}))
    assert (await rig.workspace(ada.id)).idle_timeout_seconds is None


async def test_a_capability_counts_from_the_beat_that_says_true(rig: Rig) -> None:
    ada = await rig.agent()
    for said in (1, True):
        await rig.heartbeats.beat(ada.id, HeartbeatReport(runtime_metadata={"capabilities": {"retry": said}}))
    assert ((await rig.workspace(ada.id)).capabilities or {})["retry"] is True
