"""What time does: deadlines, lapsed leases, lost replicas, silent agents; and loops that do not die."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import update

from molecule_platform.domain import messages
from molecule_platform.domain.lifecycle import HeartbeatReport
from molecule_platform.domain.messages import Message, MessageOutcome
from molecule_platform.domain.principals import Principal
from molecule_platform.ports.storage import Transaction
from molecule_platform.services.maintenance.sweeps import Sweeps
from molecule_platform.services.workspaces.registration import RegistrationRequest
from molecule_platform.storage.tables import replicas

if TYPE_CHECKING:
    from packages.platform.tests.conftest import Eventually
    from packages.platform.tests.services.conftest import Rig

LONG = timedelta(days=1)


async def test_a_deadline_ends_a_message_that_waits_or_is_held_and_its_sender_learns_it(rig: Rig) -> None:
    ada = await rig.agent()
    sent = [(await rig.send(ada, timeout_seconds=10)).message for _ in range(2)]
    await rig.lease(ada, limit=1)
    rig.clock.advance(9.999)
    await rig.sweeps.leases()
    assert all([(await rig.message(message.id)).is_open for message in sent])
    rig.clock.advance(0.001)
    await rig.sweeps.leases()
    for message in sent:
        late = await rig.delivery.outcome(message.id, 0)
        assert (late.status, (late.error or {})["code"]) == ("expired", "deadline-exceeded")


async def test_a_message_that_cannot_be_ended_holds_up_no_other(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = await rig.agent()
    odd, plain = [(await rig.send(ada, timeout_seconds=10)).message for _ in range(2)]

    def at_deadline(_tx: Transaction, message: Message) -> MessageOutcome:
        if message.id == odd.id:
            raise ValueError("it cannot be ended")
        return messages.expiry(message)

    monkeypatch.setattr("molecule_platform.services.messaging.messages.settlement.at_deadline", at_deadline)
    rig.clock.advance(10)
    with pytest.raises(ValueError, match="cannot be ended"):
        await rig.sweeps.leases()
    assert (await rig.message(plain.id)).status == "expired"
    assert (await rig.message(odd.id)).is_open


async def test_a_lease_that_ran_out_is_offered_again_at_once_and_counts_as_an_attempt(rig: Rig) -> None:
    ada = await rig.agent()
    await rig.send(ada)
    [first] = await rig.lease(ada, lease_seconds=60)
    rig.clock.advance(60)
    await rig.sweeps.leases()
    [again] = await rig.lease(ada)
    assert again["message_id"] == first["message_id"]
    assert (again["lease"]["epoch"], again["lease"]["attempt"]) == (2, 2)
    assert rig.counted.expired == 1


async def test_the_last_lease_to_run_out_leaves_a_dead_letter(rig: Rig) -> None:
    ada = await rig.agent()
    message = (await rig.send(ada)).message
    for _ in range(2):
        await rig.lease(ada, lease_seconds=60)
        rig.clock.advance(60)
        await rig.sweeps.leases()
    dead = await rig.message(message.id)
    assert (dead.status, dead.dead_letter, (dead.error or {})["code"]) == ("failed", True, "no-reply")


async def leased_by(rig: Rig, owner: str) -> Message:
    ada = await rig.agent(owner)
    message = (await rig.send(ada)).message
    await rig.storage.write(
        lambda tx: tx.mailbox.lease(
            message.id, kind="dispatch", at=rig.clock.now(), deadline_at=message.deadline_at, owner=owner
        )
    )
    return message


async def test_the_leases_of_a_replica_unseen_for_five_seconds_are_released_at_no_cost(rig: Rig) -> None:
    mine, theirs = await leased_by(rig, "replica-one"), await leased_by(rig, "replica-two")
    await rig.storage.write(lambda tx: tx.presence.seen("replica-two"))
    await rig.sweeps.leases()
    assert (await rig.message(theirs.id)).status == "leased"

    def fall_silent(tx: Any) -> None:
        tx.connection.execute(update(replicas).values(seen_at=datetime.now(UTC) - timedelta(seconds=5.1)))

    await rig.storage.write(fall_silent)
    await rig.sweeps.leases()
    back = await rig.message(theirs.id)
    assert (back.status, back.attempts, back.not_before) == ("accepted", 0, None)
    assert (await rig.message(mine.id)).status == "leased"


async def test_a_lease_that_its_own_replica_does_not_work_on_is_given_back(
    rig: Rig, eventually: Eventually
) -> None:
    forgotten = await leased_by(rig, "replica-one")
    ada = await rig.agent("Push", "http://agent")
    rig.link.free.clear()
    carried = (await rig.send(ada)).message
    await eventually(lambda: bool(rig.link.carried))
    rig.clock.advance(5.001)
    await rig.sweeps.lost()
    assert (await rig.message(forgotten.id)).status == "accepted"
    assert (await rig.message(carried.id)).status == "leased"


async def test_a_start_on_the_same_files_takes_back_everything_an_earlier_process_carried(rig: Rig) -> None:
    theirs = await leased_by(rig, "earlier")
    await rig.storage.write(lambda tx: tx.presence.seen("earlier"))
    await rig.sweeps.recover()
    assert (await rig.message(theirs.id)).status == "accepted"


async def test_a_start_beside_other_replicas_takes_nothing_from_them(rig: Rig) -> None:
    theirs = await leased_by(rig, "neighbour")
    await Sweeps(
        rig.storage, rig.clock, "replica-three", rig.dispatcher, shared=True, measures=rig.counted
    ).recover()
    assert (await rig.message(theirs.id)).status == "leased"


async def test_an_inbox_lease_outlives_the_platform_s_restart(rig: Rig) -> None:
    ada = await rig.agent()
    message = (await rig.send(ada)).message
    await rig.lease(ada)
    await rig.sweeps.recover()
    assert (await rig.message(message.id)).status == "leased"


async def test_an_agent_that_falls_silent_is_offline_and_says_why(rig: Rig) -> None:
    ada = await rig.agent()
    await rig.heartbeats.beat(ada.id, HeartbeatReport())
    await rig.heartbeats.flush()
    rig.clock.advance(90)
    await rig.sweeps.liveness()
    assert (await rig.workspace(ada.id)).status == "online"
    rig.clock.advance(0.001)
    await rig.sweeps.liveness()
    silent = await rig.workspace(ada.id)
    assert (silent.status, silent.status_reason) == ("offline", "no heartbeat")
    [event] = await rig.storage.read(lambda tx: tx.events.newest(rig.org.id, 1))
    assert (event.event_type, event.payload["reason"]) == ("WORKSPACE_OFFLINE", "no heartbeat")


async def test_an_agent_that_registered_and_was_never_heard_again_is_offline_too(rig: Rig) -> None:
    ada = await rig.agent()
    rig.clock.advance(3600)
    await rig.sweeps.liveness()
    assert (await rig.workspace(ada.id)).status == "offline"


async def test_an_agent_that_registers_again_after_silence_stays_online(rig: Rig) -> None:
    ada = await rig.agent()
    await rig.heartbeats.beat(ada.id, HeartbeatReport())
    await rig.heartbeats.flush()
    rig.clock.advance(3600)
    await rig.sweeps.liveness()
    assert (await rig.workspace(ada.id)).status == "offline"
    own = Principal(f"workspace:{ada.id}", ada.org_id, frozenset({"workspace"}), "Ada")
    await rig.registration().register(RegistrationRequest(ada.id, {"name": "Ada"}), own)
    rig.clock.advance(10)
    await rig.sweeps.liveness()
    assert (await rig.workspace(ada.id)).status == "online"


async def test_a_paused_agent_that_is_silent_stays_paused(rig: Rig) -> None:
    ada = await rig.agent()
    await rig.heartbeats.beat(ada.id, HeartbeatReport())
    await rig.lifecycle.pause(ada)
    rig.clock.advance(3600)
    await rig.sweeps.liveness()
    assert (await rig.workspace(ada.id)).status == "paused"


async def test_mail_whose_bell_was_lost_is_carried_all_the_same(rig: Rig, eventually: Eventually) -> None:
    ada = await rig.changed(await rig.agent(url="http://agent"), status="offline")
    message = (await rig.send(ada)).message
    await rig.changed(ada, status="online")
    await rig.sweeps.dispatch()
    assert (await rig.delivery.outcome(message.id, 30)).status == "answered"


async def test_a_replica_says_that_it_lives_and_when_it_stops(rig: Rig) -> None:
    shared = Sweeps(rig.storage, rig.clock, "replica-one", rig.dispatcher, shared=True, measures=rig.counted)
    await rig.storage.write(lambda tx: tx.presence.seen("replica-two"))
    await shared.presence()
    assert shared.living == 2
    await shared.goodbye()
    assert await rig.storage.read(lambda tx: tx.presence.alive(LONG)) == ["replica-two"]
