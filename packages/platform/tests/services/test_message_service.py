"""Accepting: a message is a row before anyone sees it, once, and its sender learns the outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from molecule_platform.domain import responses
from molecule_platform.domain.messages import MessageOutcome
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.services.messaging.messages import settlement
from molecule_platform.services.messaging.messages.message_service import DeliveryLimits, MessageService
from molecule_platform.services.messaging.messages.new_message import NewMessage
from molecule_platform.services.messaging.tasks.task_service import TaskQuery
from molecule_wire.a2a import errors
from molecule_wire.a2a.envelopes import A2ARequest, parse_request

if TYPE_CHECKING:
    from packages.platform.tests.services.conftest import Refuses, Rig

Of = Callable[[Workspace], Principal]
MakeRequest = Callable[..., A2ARequest]
BEFORE_A_SECOND_LOOK = 30.0


async def test_an_accepted_message_is_a_row_with_its_activity_and_its_event(
    rig: Rig, principal_of: Of
) -> None:
    ada, bob = await rig.agent("Ada"), await rig.agent("Bob")
    message = (await rig.send(ada, "add two and two", principal_of(bob))).message
    assert await rig.message(message.id) == replace(message, seq=(await rig.message(message.id)).seq)
    [row] = await rig.rows(ada)
    assert (row.id, row.activity_type, row.status) == (message.activity_id, "a2a_receive", "pending")
    assert (row.source_id, row.summary, row.message_id) == (bob.id, "add two and two", message.id)
    assert (await rig.events())[-1] == "MESSAGE_ACCEPTED"
    assert (await rig.workspace(bob.id)).last_outbound_at == rig.clock.now()
    assert (await rig.workspace(ada.id)).last_activity_at == rig.clock.now()


async def test_when_a_workspace_last_sent_something_is_written_every_five_seconds_at_most(
    rig: Rig, principal_of: Of
) -> None:
    ada, bob = await rig.agent("Ada"), await rig.agent("Bob")
    written: list[int] = []
    began = rig.clock.now()
    for _ in range(5):
        await rig.send(ada, caller=principal_of(bob))
        last = (await rig.workspace(bob.id)).last_outbound_at
        assert last is not None
        written.append(round((last - began).total_seconds()))
        rig.clock.advance(2)
    assert written == [0, 0, 0, 6, 6]


async def test_people_come_before_peers_and_may_run_longer(rig: Rig, principal_of: Of) -> None:
    ada, bob = await rig.agent("Ada"), await rig.agent("Bob")
    person, peer = (await rig.send(ada)).message, (await rig.send(ada, caller=principal_of(bob))).message
    assert (person.priority, peer.priority) == (100, 50)
    assert (person.run_limit_seconds, peer.run_limit_seconds) == (7200, 1800)
    assert person.deadline_at == rig.clock.now() + timedelta(hours=24)


async def test_a_timeout_is_the_deadline_and_no_run_moves_it(rig: Rig) -> None:
    message = (await rig.send(await rig.agent(), timeout_seconds=30)).message
    assert message.deadline_at == rig.clock.now() + timedelta(seconds=30)
    assert message.run_limit_seconds is None


# Repeats


async def test_the_same_key_and_body_is_the_same_message(rig: Rig) -> None:
    ada = await rig.agent()
    first = await rig.send(ada, ref="r1", idempotency_key="k")
    again = await rig.send(ada, ref="r1", idempotency_key="k")
    assert (first.replayed, again.replayed) == (False, True)
    assert first.message.id == again.message.id
    assert len(await rig.rows(ada)) == 1


async def test_the_same_key_with_another_body_conflicts_and_names_the_first(
    rig: Rig, refuses: Refuses
) -> None:
    ada = await rig.agent()
    first = await rig.send(ada, "one", ref="r1", idempotency_key="k")
    refusal = await refuses(rig.send(ada, "two", ref="r1", idempotency_key="k"), "idempotency-conflict")
    assert refusal.extras["existing_id"] == first.message.id


async def test_a_key_belongs_to_its_sender_and_target(rig: Rig, principal_of: Of) -> None:
    ada, bob = await rig.agent("Ada"), await rig.agent("Bob")
    sent = [
        await rig.send(ada, ref="r", idempotency_key="k"),
        await rig.send(bob, ref="r", idempotency_key="k"),
        await rig.send(ada, ref="r", idempotency_key="k", caller=principal_of(bob)),
    ]
    assert not any(receipt.replayed for receipt in sent)


async def test_a_client_that_posts_the_same_message_again_attaches_to_it_for_a_day(rig: Rig) -> None:
    ada = await rig.agent()
    first = await rig.send(ada, ref="r1")
    rig.clock.advance(86_400)
    assert (await rig.send(ada, ref="r1")).message.id == first.message.id
    rig.clock.advance(1)
    assert not (await rig.send(ada, ref="r1")).replayed


async def test_the_same_message_id_with_another_body_is_a_new_message(rig: Rig) -> None:
    ada = await rig.agent()
    await rig.send(ada, "one", ref="r1")
    assert not (await rig.send(ada, "two", ref="r1")).replayed


async def test_without_a_message_id_of_the_client_s_own_nothing_repeats(rig: Rig) -> None:
    ada = await rig.agent()
    assert not (await rig.send(ada)).replayed
    assert not (await rig.send(ada)).replayed


async def test_a_new_json_rpc_id_does_not_make_another_request(rig: Rig) -> None:
    ada = await rig.agent()
    sent = [
        await rig.delivery.accept(
            NewMessage(
                rig.admin,
                ada,
                parse_request(
                    b'{"jsonrpc":"2.0","id":%d,"method":"message/send","params":{"message":'
                    b'{"messageId":"m","role":"user","parts":[{"kind":"text","text":"x"}]}}}' % number,
                    version=None,
                    lenient=True,
                ),
            )
        )
        for number in (1, 2)
    ]
    assert sent[1].replayed


async def test_a_repeat_of_an_ended_message_has_its_outcome(rig: Rig) -> None:
    ada = await rig.agent()
    message = (await rig.send(ada, ref="r1")).message
    await rig.storage.write(
        lambda tx: settlement.settle(
            tx, message.id, MessageOutcome("answered", b"{}", "completed"), rig.clock.now()
        )
    )
    assert (await rig.send(ada, ref="r1")).message.status == "answered"


async def test_fifty_posts_of_one_message_at_once_are_one_message(rig: Rig) -> None:
    ada = await rig.agent()
    sent = await asyncio.gather(*(rig.send(ada, ref="r1") for _ in range(50)))
    assert len({receipt.message.id for receipt in sent}) == 1
    assert sum(not receipt.replayed for receipt in sent) == 1


# Bounds


async def test_a_full_mailbox_says_so_and_when_to_come_back(rig: Rig, refuses: Refuses) -> None:
    ada = await rig.agent()
    messages = [(await rig.send(ada)).message for _ in range(5)]
    refusal = await refuses(rig.send(ada), "mailbox-full")
    assert isinstance(refusal.extras["retry_after"], int)
    assert (await rig.delivery.queue_depth(ada.id)) == 5
    ended = MessageOutcome("answered", b"{}", "completed")
    await rig.storage.write(lambda tx: settlement.settle(tx, messages[0].id, ended, rig.clock.now()))
    assert (await rig.send(ada)).message.is_open


async def test_a_repeat_is_answered_also_by_a_full_mailbox(rig: Rig) -> None:
    ada = await rig.agent()
    first = await rig.send(ada, ref="r1")
    for _ in range(4):
        await rig.send(ada)
    assert (await rig.send(ada, ref="r1")).message.id == first.message.id


async def test_a_spent_budget_refuses_work_and_leaves_a_trace(rig: Rig, refuses: Refuses) -> None:
    ada = await rig.changed(await rig.agent(budget_limit=100), monthly_spend=100)
    refusal = await refuses(rig.send(ada), "budget-exceeded")
    assert refusal.extras == {"budget_limit": 100, "monthly_spend": 100}
    assert [row.activity_type for row in await rig.rows(ada)] == ["error"]


@pytest.mark.parametrize(("limit", "spent"), [(None, 100), (101, 100)])
async def test_a_budget_that_is_absent_or_not_reached_refuses_nothing(
    rig: Rig, limit: int | None, spent: int
) -> None:
    ada = await rig.changed(await rig.agent(budget_limit=limit), monthly_spend=spent)
    assert (await rig.send(ada)).message.is_open


# Outcomes


@pytest.mark.usefixtures("only_bells")
async def test_an_outcome_that_comes_while_somebody_looks_is_not_waited_for(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = (await rig.send(await rig.agent())).message
    glance, looks = rig.storage.glance, 0

    async def slow_glance(work: Any) -> Any:
        nonlocal looks
        seen, looks = await glance(work), looks + 1
        if looks == 1:
            ended = MessageOutcome("answered", b"{}", "completed")
            await rig.storage.write(lambda tx: settlement.settle(tx, message.id, ended, rig.clock.now()))
        return seen

    monkeypatch.setattr(rig.storage, "glance", slow_glance)
    async with asyncio.timeout(BEFORE_A_SECOND_LOOK):
        assert (await rig.delivery.outcome(message.id, 60)).status == "answered"


@pytest.mark.usefixtures("only_bells")
async def test_whoever_waits_gets_the_outcome_when_it_is_there(rig: Rig) -> None:
    message = (await rig.send(await rig.agent())).message
    waiting = asyncio.ensure_future(rig.delivery.outcome(message.id, 60))
    await asyncio.sleep(0.02)
    ended = MessageOutcome("answered", b'{"x":1}', "completed")
    await rig.storage.write(lambda tx: settlement.settle(tx, message.id, ended, rig.clock.now()))
    assert (await asyncio.wait_for(waiting, BEFORE_A_SECOND_LOOK)).result == b'{"x":1}'


async def test_whoever_waited_long_enough_gets_the_message_as_it_stands(rig: Rig) -> None:
    message = (await rig.send(await rig.agent())).message
    assert (await rig.delivery.outcome(message.id, 0.01)).status == "accepted"


async def test_each_caller_s_hold_is_remembered_and_let_go_by_itself(
    rig: Rig, make_request: MakeRequest
) -> None:
    ada = await rig.agent()
    first, second = (
        NewMessage(rig.admin, ada, make_request("hi", ref="r1"), hold_seconds=25) for _ in range(2)
    )
    message = (await rig.delivery.accept(first)).message
    held = await rig.message(message.id)
    assert (held.held_by or "").startswith("replica-one/")
    assert held.held_until == rig.clock.now() + timedelta(seconds=25)
    await rig.delivery.accept(second)
    assert (await rig.delivery.stop_waiting(message.id, first)).held_by is not None
    assert (await rig.delivery.stop_waiting(message.id, second)).held_by is None


async def test_a_caller_whose_deadline_came_while_it_waited_is_told_so(
    rig: Rig, make_request: MakeRequest
) -> None:
    asked = NewMessage(rig.admin, await rig.agent(), make_request("hi"), timeout_seconds=10, hold_seconds=10)
    message = (await rig.delivery.accept(asked)).message
    rig.clock.advance(10)
    assert (await rig.delivery.stop_waiting(message.id, asked)).status == "expired"


async def test_a_message_exists_only_for_its_parties_and_the_organisation_s_readers(
    rig: Rig, principal_of: Of, refuses: Refuses
) -> None:
    ada, bob, cyd = await rig.agent("Ada"), await rig.agent("Bob"), await rig.agent("Cyd")
    message = (await rig.send(ada, caller=principal_of(bob))).message
    reader = Principal("user:ann", rig.org.id, frozenset({"org.read"}), "ann")
    for principal in (principal_of(ada), principal_of(bob), reader, rig.admin):
        assert (await rig.delivery.visible(principal, message.id)).id == message.id
    strangers = (
        principal_of(cyd),
        replace(reader, scopes=frozenset({"org.send"})),
        replace(reader, org_id="org-two"),
    )
    for principal in strangers:
        await refuses(rig.delivery.visible(principal, message.id), "message-not-found")
    await refuses(rig.delivery.visible(rig.admin, "unknown"), "message-not-found")


async def test_a_task_is_told_to_its_parties_and_does_not_exist_for_others(
    rig: Rig, principal_of: Of
) -> None:
    ada, cyd = await rig.agent("Ada"), await rig.agent("Cyd")
    message = (await rig.send(ada)).message
    shown = await rig.tasks.get(TaskQuery(rig.admin, ada), message.id)
    assert shown["status"]["state"] == "TASK_STATE_SUBMITTED"
    with pytest.raises(errors.A2AError) as refused:
        await rig.tasks.get(TaskQuery(principal_of(cyd), ada), message.id)
    assert refused.value.code == -32001


async def test_the_limits_are_the_operator_s(rig: Rig, make_request: MakeRequest) -> None:
    ada = await rig.agent()
    limits = DeliveryLimits(ttl_seconds=9, max_attempts=1)
    strict = MessageService(rig.storage, rig.signals, rig.clock, "r", limits, rig.waiters, rig.dispatcher)
    message = (await strict.accept(NewMessage(rig.admin, ada, make_request("hi")))).message
    assert (message.max_attempts, message.deadline_at) == (1, rig.clock.now() + timedelta(seconds=9))


# Settling


async def test_an_outcome_is_written_with_all_that_follows_from_it(rig: Rig) -> None:
    ada = await rig.agent()
    message = (await rig.send(ada)).message
    rig.clock.advance(1.5)
    ended = MessageOutcome("answered", b'{"kind":"task","id":"t"}', "completed")
    await rig.storage.write(lambda tx: settlement.settle(tx, message.id, ended, rig.clock.now()))
    [row] = await rig.rows(ada)
    assert (row.status, row.duration_ms) == ("ok", 1500)
    assert (await rig.events())[-2:] == ["MESSAGE_ANSWERED", "A2A_RESPONSE"]
    [event] = await rig.storage.read(lambda tx: tx.events.newest(rig.org.id, 1))
    assert event.payload["response_body"]["result"] == {"kind": "task", "id": "t"}


async def test_a_second_outcome_has_no_effect_and_no_event(rig: Rig) -> None:
    message = (await rig.send(await rig.agent())).message
    ended = MessageOutcome("answered", b"{}", "completed")
    await rig.storage.write(lambda tx: settlement.settle(tx, message.id, ended, rig.clock.now()))
    before = await rig.events()
    assert (
        await rig.storage.write(lambda tx: settlement.settle(tx, message.id, ended, rig.clock.now())) is None
    )
    assert await rig.events() == before


async def test_an_answer_too_large_for_a_log_is_not_repeated_there(rig: Rig) -> None:
    ada = await rig.agent()
    message = (await rig.send(ada)).message
    large = MessageOutcome("answered", b'"%s"' % (b"x" * 70_000), "completed")
    settled = await rig.storage.write(lambda tx: settlement.settle(tx, message.id, large, rig.clock.now()))
    assert settled is not None
    assert responses.body(settled) is None
