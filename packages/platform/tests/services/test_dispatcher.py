"""The courier: within capacity, with retries and a dead letter, and nothing lost when it stops or dies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import update

from molecule_platform.domain import responses
from molecule_platform.domain.messages import cancellation
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.agents import Completed, DeliveryFailed
from molecule_platform.services.dispatch.cancel_notifier import LISTEN_SECONDS
from molecule_platform.services.messaging.messages import settlement
from molecule_platform.storage.tables import messages

if TYPE_CHECKING:
    from packages.platform.tests.conftest import Eventually
    from packages.platform.tests.services.conftest import Rig

Of = Callable[[Workspace], Principal]
URL = "http://agent/a2a"
BUSY = DeliveryFailed("peer-busy", "the agent is busy", retryable=True)


async def ended(rig: Rig, message_id: str) -> Any:
    message = await rig.delivery.outcome(message_id, 30)
    assert not message.is_open
    return message


async def test_a_message_is_leased_before_it_is_carried_and_answered_after(rig: Rig) -> None:
    ada = await rig.agent(url=URL)
    message = await ended(rig, (await rig.send(ada)).message.id)
    [dispatch] = rig.link.carried
    assert (dispatch.message.status, dispatch.message.lease_kind) == ("leased", "dispatch")
    assert (dispatch.message.attempts, dispatch.message.lease_owner) == (1, "replica-one")
    assert (message.status, message.attempts) == ("answered", 1)
    assert json.loads(message.result)["parts"][0]["text"] == "hi"


async def test_no_more_is_carried_at_once_than_the_agent_takes(rig: Rig, eventually: Eventually) -> None:
    ada = await rig.agent(url=URL, max_concurrent_tasks=2)
    rig.link.free.clear()
    sent = [(await rig.send(ada)).message for _ in range(4)]
    await eventually(lambda: len(rig.link.carried) == 2)
    await eventually(lambda: not rig.dispatcher._pumps)
    assert len(rig.link.carried) == 2
    rig.link.free.set()
    for message in sent:
        assert (await ended(rig, message.id)).status == "answered"


async def test_work_that_the_agent_reports_counts_against_its_capacity(
    rig: Rig, eventually: Eventually
) -> None:
    ada = await rig.changed(await rig.agent(url=URL, max_concurrent_tasks=2), active_tasks=2)
    await rig.send(ada)
    await eventually(lambda: not rig.dispatcher._pumps)
    assert rig.link.carried == []


async def test_an_agent_with_its_own_sessions_takes_everything(rig: Rig, eventually: Eventually) -> None:
    ada = await rig.changed(await rig.agent(url=URL), capabilities={"session": True})
    rig.link.free.clear()
    for _ in range(4):
        await rig.send(ada)
    await eventually(lambda: len(rig.link.carried) == 4)


async def test_messages_of_one_context_are_carried_one_after_the_other(
    rig: Rig, eventually: Eventually
) -> None:
    ada = await rig.agent(url=URL, max_concurrent_tasks=4)
    rig.link.free.clear()
    sent = [(await rig.send(ada, context="talk")).message for _ in range(3)]
    await eventually(lambda: bool(rig.link.carried) and not rig.dispatcher._pumps)
    assert len(rig.link.carried) == 1
    rig.link.free.set()
    for message in sent:
        await ended(rig, message.id)
    assert [dispatch.message.id for dispatch in rig.link.carried] == [message.id for message in sent]


@pytest.mark.parametrize("change", [{"status": "paused"}, {"status": "offline"}, {"delivery_mode": "poll"}])
async def test_nothing_is_carried_to_an_agent_that_cannot_be_called(
    rig: Rig, eventually: Eventually, change: dict[str, Any]
) -> None:
    ada = await rig.changed(await rig.agent(url=URL), **change)
    message = (await rig.send(ada)).message
    await eventually(lambda: not rig.dispatcher._pumps)
    assert rig.link.carried == []
    assert (await rig.message(message.id)).status == "accepted"


async def test_replies_are_never_carried(rig: Rig, eventually: Eventually) -> None:
    ada = await rig.agent(url=URL)
    message = (await rig.send(ada)).message
    await ended(rig, message.id)
    await rig.changed(ada, status="paused")
    second = (await rig.send(ada)).message

    def make_reply(tx: Any) -> None:
        tx.connection.execute(update(messages).where(messages.c.id == second.id).values(kind="reply"))

    await rig.storage.write(make_reply)
    await rig.changed(ada, status="online")
    rig.dispatcher.wake(ada.id)
    await eventually(lambda: not rig.dispatcher._pumps)
    assert len(rig.link.carried) == 1


async def test_a_failed_attempt_waits_and_is_tried_again_under_the_same_id(
    rig: Rig, eventually: Eventually
) -> None:
    ada = await rig.agent(url=URL)
    rig.link.answers = [BUSY]
    message = (await rig.send(ada)).message

    async def put_off() -> bool:
        return (await rig.message(message.id)).not_before is not None

    await eventually(put_off)
    waiting = await rig.message(message.id)
    assert (waiting.status, waiting.attempts) == ("accepted", 1)
    assert waiting.not_before == rig.clock.now() + timedelta(seconds=2)
    rig.clock.advance(2)
    await rig.sweeps.dispatch()
    assert (await ended(rig, message.id)).status == "answered"
    assert [(d.message.id, d.message.attempts) for d in rig.link.carried] == [
        (message.id, 1),
        (message.id, 2),
    ]


async def test_the_agent_s_own_wish_decides_when_to_try_again(rig: Rig, eventually: Eventually) -> None:
    ada = await rig.agent(url=URL)
    rig.link.answers = [DeliveryFailed("peer-busy", "busy", True, retry_after=17)]
    message = (await rig.send(ada)).message

    async def put_off() -> bool:
        return (await rig.message(message.id)).not_before == rig.clock.now() + timedelta(seconds=17)

    await eventually(put_off)


async def test_attempts_that_are_used_up_leave_a_dead_letter_with_the_last_reason(rig: Rig) -> None:
    ada = await rig.agent(url=URL)
    rig.link.answers = [BUSY, DeliveryFailed("peer-unreachable", "nobody there", True)]
    message = (await rig.send(ada)).message
    while (await rig.message(message.id)).is_open:
        rig.clock.advance(10)
        await rig.sweeps.dispatch()
        await asyncio.sleep(0.01)
    dead = await rig.message(message.id)
    assert (dead.status, dead.attempts, dead.dead_letter) == ("failed", 2, True)
    assert dead.error == {
        "code": "peer-unreachable",
        "message": "nobody there",
        "retryable": False,
        "delivery_confirmed": False,
    }


async def test_an_answer_that_is_no_use_ends_the_message_at_once(rig: Rig) -> None:
    ada = await rig.agent(url=URL)
    rig.link.answers = [DeliveryFailed("invalid-agent-response", "HTTP 404", False, True, agent_status=404)]
    message = await ended(rig, (await rig.send(ada)).message.id)
    assert (message.status, message.error["agent_status"], message.error["delivery_confirmed"]) == (
        "failed",
        404,
        True,
    )


async def test_an_agent_s_own_error_is_kept_as_it_came_and_is_no_dead_letter(rig: Rig) -> None:
    ada = await rig.agent(url=URL)
    error = {"code": -32602, "message": "no such city", "data": {"city": "Atlantis"}}
    rig.link.answers = [Completed(error=json.dumps(error).encode())]
    message = await ended(rig, (await rig.send(ada)).message.id)
    assert (message.status, message.dead_letter) == ("failed", False)
    assert message.error["agent_error"] == error
    assert responses.error_of(message).to_object() == error


async def test_a_failure_after_the_deadline_is_an_expiry(rig: Rig, eventually: Eventually) -> None:
    ada = await rig.agent(url=URL)
    rig.link.free.clear()
    rig.link.answers = [BUSY]
    message = (await rig.send(ada, timeout_seconds=10)).message
    await eventually(lambda: bool(rig.link.carried))
    assert rig.link.carried[0].seconds == 10 + LISTEN_SECONDS
    rig.clock.advance(10)
    rig.link.free.set()
    late = await ended(rig, message.id)
    assert (late.status, late.error["code"]) == ("expired", "deadline-exceeded")


async def test_an_agent_that_shows_no_sign_of_work_for_its_idle_time_is_given_up(
    rig: Rig, eventually: Eventually
) -> None:
    ada = await rig.changed(await rig.agent(url=URL), idle_timeout_seconds=1)
    rig.link.free.clear()
    message = (await rig.send(ada)).message

    async def given_up() -> bool:
        return (await rig.message(message.id)).error is not None

    await eventually(given_up)
    waiting = await rig.message(message.id)
    assert (waiting.status, waiting.attempts) == ("accepted", 1)
    assert "no sign of work for 1 s" in (waiting.error or {})["message"]


async def test_a_courier_that_stops_gives_back_what_it_carries_at_no_cost(
    rig: Rig, eventually: Eventually
) -> None:
    ada = await rig.agent(url=URL)
    rig.link.free.clear()
    message = (await rig.send(ada)).message
    await eventually(lambda: bool(rig.link.carried))
    await rig.dispatcher.stop()
    back = await rig.message(message.id)
    assert (back.status, back.attempts, back.not_before) == ("accepted", 0, None)
    rig.dispatcher.wake(ada.id)
    assert not rig.dispatcher._pumps


async def test_what_an_earlier_process_carried_is_carried_again_at_once_and_at_no_cost(rig: Rig) -> None:
    ada = await rig.agent(url=URL)
    await rig.changed(ada, status="offline")
    message = (await rig.send(ada)).message
    await rig.storage.write(
        lambda tx: tx.mailbox.lease(
            message.id, kind="dispatch", at=rig.clock.now(), deadline_at=message.deadline_at, owner="dead"
        )
    )
    await rig.changed(ada, status="online")
    await rig.sweeps.recover()
    done = await ended(rig, message.id)
    assert (done.status, done.attempts, done.lease_epoch) == ("answered", 1, 2)


async def test_a_courier_that_was_only_slow_finds_its_epoch_gone_and_has_no_effect(
    rig: Rig, eventually: Eventually
) -> None:
    ada = await rig.agent(url=URL)
    rig.link.free.clear()
    message = (await rig.send(ada)).message
    await eventually(lambda: bool(rig.link.carried))
    await rig.changed(ada, status="offline")
    await rig.storage.write(lambda tx: tx.mailbox.release(message.id, 1, rig.clock.now()))
    rig.link.free.set()
    await eventually(lambda: not rig.dispatcher._carrying)
    assert (await rig.message(message.id)).status == "accepted"


async def test_a_message_settled_elsewhere_stays_as_it_ended(rig: Rig, eventually: Eventually) -> None:
    ada = await rig.agent(url=URL)
    rig.link.free.clear()
    message = (await rig.send(ada)).message
    await eventually(lambda: bool(rig.link.carried))
    first = cancellation("workspace-removed", "it is gone")
    await rig.storage.write(lambda tx: settlement.settle(tx, message.id, first, rig.clock.now()))
    rig.link.free.set()
    await eventually(lambda: not rig.dispatcher._carrying)
    assert (await rig.message(message.id)).status == "cancelled"


async def test_a_dispatch_secret_that_cannot_be_opened_fails_the_attempt_and_hangs_nothing(
    rig: Rig, eventually: Eventually
) -> None:
    def broken(_workspace: Workspace) -> str | None:
        raise RuntimeError("sealed with another key")

    await rig.dispatcher.stop()
    broken_courier = rig.new_courier("replica-two", broken)
    ada = await rig.agent(url=URL)
    message = (await rig.send(ada)).message

    async def given_back() -> bool:
        current = await rig.message(message.id)
        return current.attempts == 1 and current.status != "leased"

    await eventually(given_back)
    await broken_courier.stop()


async def test_the_end_of_a_message_makes_room_that_the_last_heartbeat_did_not_know_of(rig: Rig) -> None:
    ada = await rig.changed(await rig.agent(url=URL, max_concurrent_tasks=2), active_tasks=1)
    await ended(rig, (await rig.send(ada)).message.id)
    assert (await rig.workspace(ada.id)).active_tasks == 0


async def test_each_attempt_is_counted_with_its_outcome_and_the_first_with_its_wait(
    rig: Rig, eventually: Eventually
) -> None:
    ada = await rig.agent(url="http://agent")
    rig.link.answers = [DeliveryFailed("peer-unreachable", "away", retryable=True)]
    message = (await rig.send(ada)).message
    await eventually(lambda: rig.counted.attempts == ["retry"])
    rig.clock.advance(60)
    rig.dispatcher.wake(ada.id)
    assert (await rig.delivery.outcome(message.id, 30)).status == "answered"
    await eventually(lambda: rig.counted.attempts == ["retry", "answered"])
    assert rig.counted.waits == [0.0]
