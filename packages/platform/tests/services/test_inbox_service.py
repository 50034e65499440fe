"""The inbox: leases with a fence, answers, and everything that may be said twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from molecule_platform.domain import messages
from molecule_platform.domain.messages import Message
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.tasks import TaskKey
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.services.messaging.inbox.inbox_answers import InboxAnswer
from molecule_platform.services.messaging.inbox.inbox_service import LeaseRequest
from molecule_wire.a2a import text

if TYPE_CHECKING:
    from packages.platform.tests.services.conftest import Refuses, Rig

Of = Callable[[Workspace], Principal]
BASE = "http://platform"
FOUR = InboxAnswer([{"text": "four"}])
BEFORE_A_SECOND_LOOK = 30.0


def here() -> bool:
    """The worker has not hung up."""
    return False


async def leased(rig: Rig, **wish: Any) -> tuple[Workspace, str, str]:
    """A message that a worker holds: its workspace, its id, and the lease's token."""
    ada = await rig.agent()
    await rig.send(ada, "two and two?")
    [item] = await rig.lease(ada, **wish)
    return ada, item["message_id"], item["lease"]["token"]


async def test_a_lease_hands_out_the_message_with_its_token_epoch_and_end(rig: Rig, principal_of: Of) -> None:
    ada, bob = await rig.agent("Ada"), await rig.agent("Bob", role="asks")
    message = (await rig.send(ada, "two and two?", principal_of(bob))).message
    answer = await rig.inbox.lease(ada, BASE, LeaseRequest(lease_seconds=30, worker="w1"), 0, here)
    [item] = answer["messages"]
    assert (item["message_id"], item["text"], item["source"]) == (message.id, "two and two?", "peer_agent")
    assert (item["peer_id"], item["peer_name"], item["peer_role"]) == (bob.id, "Bob", "asks")
    assert item["lease"]["epoch"] == item["lease"]["attempt"] == 1
    assert item["lease"]["expires_at"] == "2026-05-02T12:00:30.000Z"
    assert (answer["pending"], answer["leased"], answer["dead"]) == (0, 1, 0)
    row = await rig.message(message.id)
    assert (row.status, row.lease_kind, row.worker) == ("leased", "inbox", "w1")
    assert row.deadline_at == rig.clock.now() + timedelta(seconds=1800)
    assert item["lease"]["token"] not in repr(row)


async def test_peeking_has_no_effect(rig: Rig) -> None:
    ada = await rig.agent()
    message = (await rig.send(ada)).message
    seen = await rig.inbox.peek(ada, BASE, 10, 0)
    assert [item["message_id"] for item in seen["messages"]] == [message.id]
    assert "lease" not in seen["messages"][0]
    assert (await rig.message(message.id)).status == "accepted"
    assert (await rig.inbox.peek(await rig.agent("Bob"), BASE, 10, 0))["messages"] == []


async def test_the_list_has_the_next_one_first_also_when_a_long_wait_raised_it(
    rig: Rig, principal_of: Of
) -> None:
    ada = await rig.agent()
    old = (await rig.send(ada, "from a peer", principal_of(await rig.agent("Bob")))).message
    rig.clock.advance(11 * 60)
    new = (await rig.send(ada, "from a person")).message
    seen = (await rig.inbox.peek(ada, BASE, 10, 0))["messages"]
    assert [item["message_id"] for item in seen] == [old.id, new.id]
    leased = await rig.inbox.lease(ada, BASE, LeaseRequest(limit=1), 0, here)
    assert [item["message_id"] for item in leased["messages"]] == [old.id]


@pytest.mark.usefixtures("only_bells")
@pytest.mark.parametrize("way", ["lease", "peek"])
async def test_whoever_waits_for_mail_gets_it_when_it_comes(rig: Rig, way: str) -> None:
    ada = await rig.agent()
    asking = (
        rig.inbox.lease(ada, BASE, LeaseRequest(), 60, here)
        if way == "lease"
        else rig.inbox.peek(ada, BASE, 5, 60)
    )
    waiting = asyncio.ensure_future(asking)
    await asyncio.sleep(0.02)
    message = (await rig.send(ada)).message
    answer = await asyncio.wait_for(waiting, BEFORE_A_SECOND_LOOK)
    assert [item["message_id"] for item in answer["messages"]] == [message.id]


async def test_waiting_in_vain_is_no_error(rig: Rig) -> None:
    ada = await rig.agent()
    empty: dict[str, Any] = {"messages": [], "pending": 0, "leased": 0, "dead": 0}
    assert await rig.inbox.lease(ada, BASE, LeaseRequest(), 0.01, here) == empty
    assert await rig.inbox.peek(ada, BASE, 5, 0.01) == empty


async def test_a_worker_may_ask_for_so_many_of_a_kind_a_peer_or_a_context(rig: Rig, principal_of: Of) -> None:
    ada, bob = await rig.agent("Ada"), await rig.agent("Bob")
    person = (await rig.send(ada, context="c1")).message
    peer = (await rig.send(ada, context="c2", caller=principal_of(bob))).message

    async def taken(**wish: Any) -> list[str]:
        items = await rig.lease(ada, **wish)
        for item in items:
            await rig.inbox.release(ada, item["message_id"], item["lease"]["token"])
        return [item["message_id"] for item in items]

    assert await taken(limit=1) == [person.id]
    assert await taken(peer_id=bob.id) == [peer.id]
    assert await taken(context_id="c2") == [peer.id]
    assert await taken(kinds=("reply",)) == []
    assert await taken() == [person.id, peer.id]


async def test_a_wish_for_one_peer_is_not_starved_by_the_mail_of_others(rig: Rig, principal_of: Of) -> None:
    ada, bob = await rig.agent("Ada"), await rig.agent("Bob")
    for _ in range(2):
        await rig.send(ada)
    peer = (await rig.send(ada, caller=principal_of(bob))).message
    assert [item["message_id"] for item in await rig.lease(ada, limit=1, peer_id=bob.id)] == [peer.id]


async def test_one_context_is_never_with_two_workers_unless_they_say_so(rig: Rig) -> None:
    ada = await rig.agent()
    for _ in range(3):
        await rig.send(ada, context="talk")
    assert len(await rig.lease(ada, worker="w1", limit=1)) == 1
    assert await rig.lease(ada, worker="w2") == []
    assert len(await rig.lease(ada, worker="w1", limit=1)) == 1
    assert len(await rig.lease(ada, worker="w2", parallel_contexts=True)) == 1


async def test_two_workers_that_ask_at_once_never_get_the_same_message(rig: Rig) -> None:
    ada = await rig.agent()
    for _ in range(5):
        await rig.send(ada)
    both = await asyncio.gather(*(rig.lease(ada, worker=f"w{n}", limit=3) for n in range(4)))
    taken = [item["message_id"] for items in both for item in items]
    assert len(taken) == len(set(taken)) == 5


async def test_a_wish_for_one_peer_does_not_forget_who_works_on_a_context(rig: Rig, principal_of: Of) -> None:
    ada, bob = await rig.agent("Ada"), await rig.agent("Bob")
    await rig.send(ada, context="talk")
    await rig.send(ada, context="talk", caller=principal_of(bob))
    await rig.lease(ada, worker="w1", limit=1)
    assert await rig.lease(ada, worker="w2", peer_id=bob.id) == []


async def test_what_a_worker_that_hung_up_would_get_is_not_leased(rig: Rig) -> None:
    ada = await rig.agent()
    message = (await rig.send(ada)).message
    gone = iter([False, True])
    for left in (lambda: True, lambda: next(gone)):
        await rig.inbox.lease(ada, BASE, LeaseRequest(), 0, left)
        waiting = await rig.message(message.id)
        assert (waiting.status, waiting.attempts, waiting.releases) == ("accepted", 0, 0)


# Answering


async def test_an_answer_settles_the_message_for_its_sender(rig: Rig) -> None:
    ada, name, token = await leased(rig)
    await rig.inbox.answer(ada, name, token, FOUR)
    message = await rig.message(name)
    assert (message.status, message.task_state) == ("answered", "completed")
    assert text.text_of(message.result_json()) == "four"


@pytest.mark.parametrize("dialect", ["0.3", "1.0"])
async def test_an_answer_is_kept_in_the_sender_s_dialect(rig: Rig, dialect: str) -> None:
    ada = await rig.agent()
    message = (await rig.send(ada, dialect=dialect)).message
    [item] = await rig.lease(ada)
    await rig.inbox.answer(ada, message.id, item["lease"]["token"], FOUR)
    result = (await rig.message(message.id)).result_json()
    task = result if dialect == "0.3" else result["task"]
    assert task["status"]["state"] == ("completed" if dialect == "0.3" else "TASK_STATE_COMPLETED")


@pytest.mark.parametrize("state", ["rejected", "input-required", "auth-required"])
async def test_an_answer_may_leave_the_task_in_another_state(rig: Rig, state: str) -> None:
    ada, name, token = await leased(rig)
    await rig.inbox.answer(ada, name, token, InboxAnswer([{"text": "?"}], state))
    message = await rig.message(name)
    assert (message.status, message.task_state) == ("answered", state)


async def test_an_unknown_state_is_refused(rig: Rig, refuses: Refuses) -> None:
    ada, name, token = await leased(rig)
    await refuses(rig.inbox.answer(ada, name, token, InboxAnswer([], "working")), "invalid-request")


async def test_the_activity_row_s_id_names_the_message_as_well(rig: Rig) -> None:
    ada, name, token = await leased(rig)
    activity_id = (await rig.message(name)).activity_id
    assert (await rig.inbox.answer(ada, activity_id, token, FOUR)).id == name


@pytest.mark.parametrize(
    ("first", "again", "same"),
    [
        (FOUR, FOUR, True),
        (FOUR, InboxAnswer([{"text": "five"}]), False),
        (FOUR, InboxAnswer([{"text": "four"}], "rejected"), False),
        (InboxAnswer([{"data": {"n": 4}}]), InboxAnswer([{"data": {"n": 4}}]), True),
        (InboxAnswer([{"data": {"n": 4}}]), InboxAnswer([{"data": {"n": 5}}]), False),
    ],
)
async def test_saying_the_same_again_is_harmless_and_saying_something_else_is_too_late(
    rig: Rig, refuses: Refuses, first: InboxAnswer, again: InboxAnswer, same: bool
) -> None:
    ada, name, token = await leased(rig)
    await rig.inbox.answer(ada, name, token, first)
    before = await rig.message(name)
    if same:
        assert (await rig.inbox.answer(ada, name, token, again)).id == name
    else:
        refusal = await refuses(rig.inbox.answer(ada, name, token, again), "lease-lost")
        assert refusal.extras["status"] == "answered"
    assert await rig.message(name) == before


async def test_an_acknowledgement_is_an_empty_completed_answer_also_twice(rig: Rig) -> None:
    ada, name, token = await leased(rig)
    for _ in range(2):
        assert (await rig.inbox.ack(ada, name, token)).status == "answered"
    result = (await rig.message(name)).result_json()
    assert (result["status"]["state"], text.text_of(result)) == ("completed", "")


async def test_an_answer_after_an_acknowledgement_is_too_late_to_be_heard(rig: Rig, refuses: Refuses) -> None:
    ada, name, token = await leased(rig)
    await rig.inbox.ack(ada, name, token)
    await refuses(rig.inbox.answer(ada, name, token, InboxAnswer([{"data": {"n": 4}}])), "lease-lost")


# The fence

Verb = Callable[["Rig", Workspace, str, str], Any]
VERBS: dict[str, Verb] = {
    "answer": lambda rig, ada, name, token: rig.inbox.answer(ada, name, token, FOUR),
    "ack": lambda rig, ada, name, token: rig.inbox.ack(ada, name, token),
    "fail": lambda rig, ada, name, token: rig.inbox.fail(ada, name, token, _failure(True), None),
    "release": lambda rig, ada, name, token: rig.inbox.release(ada, name, token),
    "extend": lambda rig, ada, name, token: rig.inbox.extend(ada, name, token, 60),
}


def _failure(retryable: bool) -> messages.MessageOutcome:
    return messages.failure("skill-failed", "it broke", retryable=retryable)


@pytest.mark.parametrize("verb", VERBS)
async def test_an_older_lease_has_no_effect_and_is_told_so(rig: Rig, refuses: Refuses, verb: str) -> None:
    ada, name, old = await leased(rig)
    await rig.inbox.release(ada, name, old)
    await rig.lease(ada)
    before = await rig.message(name)
    refusal = await refuses(VERBS[verb](rig, ada, name, old), "lease-lost")
    assert (refusal.status, refusal.extras["status"]) == (409, "leased")
    assert await rig.message(name) == before


@pytest.mark.parametrize("verb", VERBS)
async def test_a_token_shows_nothing_while_nobody_holds_the_message(
    rig: Rig, refuses: Refuses, verb: str
) -> None:
    ada, name, old = await leased(rig)
    await rig.inbox.release(ada, name, old)
    await refuses(VERBS[verb](rig, ada, name, old), "lease-lost")


@pytest.mark.parametrize("verb", VERBS)
async def test_another_workspace_s_message_does_not_exist(rig: Rig, refuses: Refuses, verb: str) -> None:
    _, name, token = await leased(rig)
    bob = await rig.agent("Bob")
    await refuses(VERBS[verb](rig, bob, name, token), "message-not-found")
    await refuses(VERBS[verb](rig, bob, "unknown", token), "message-not-found")


async def test_without_a_token_only_what_no_worker_holds_can_be_answered(rig: Rig, refuses: Refuses) -> None:
    ada, name, token = await leased(rig)
    await refuses(rig.inbox.answer(ada, name, None, FOUR), "lease-lost")
    await rig.inbox.release(ada, name, token)
    await rig.at_cursor(ada, await rig.message(name))
    assert (await rig.inbox.answer(ada, name, None, FOUR)).status == "answered"


# Giving back


async def test_a_release_gives_the_message_back_unstarted(rig: Rig) -> None:
    ada, name, token = await leased(rig)
    await rig.inbox.release(ada, name, token)
    message = await rig.message(name)
    assert (message.status, message.attempts) == ("accepted", 0)
    [item] = await rig.lease(ada)
    assert item["lease"]["epoch"] == 2


async def test_what_is_taken_and_given_back_waits_longer_each_time_and_ends_as_a_dead_letter(
    rig: Rig,
) -> None:
    ada = await rig.agent()
    message = (await rig.send(ada)).message
    await rig.delivery.show(message.id)
    for pause in (0, 0, 0, 2, 4, None):
        [item] = await rig.lease(ada)
        back = await rig.inbox.release(ada, message.id, item["lease"]["token"])
        assert back.is_open == (pause is not None)
        if pause:
            assert back.not_before == rig.clock.now() + timedelta(seconds=pause)
            rig.clock.advance(pause - 0.001)
            assert await rig.lease(ada) == []
            rig.clock.advance(0.001)
    dead = await rig.message(message.id)
    assert (dead.status, dead.dead_letter, dead.lease_epoch, dead.releases) == ("failed", True, 6, 6)
    assert dead.error == {
        "code": "released-too-often",
        "message": "the agent took the message 6 times and gave it back each time without an outcome",
        "retryable": False,
    }
    assert (await rig.delivery.outcome(message.id, 0)).status == "failed"
    task = await rig.storage.read(lambda tx: tx.tasks.get(TaskKey(ada.id, "", message.task_id)))
    assert task is not None
    assert task.state == "failed"
    assert await rig.lease(ada) == []


async def test_while_it_pauses_nobody_gets_it_and_its_context_waits_with_it(rig: Rig) -> None:
    ada = await rig.agent()
    first = (await rig.send(ada, context="talk")).message
    await rig.send(ada, context="talk")
    for _ in range(4):
        [item] = await rig.lease(ada, limit=1)
        assert item["message_id"] == first.id
        await rig.inbox.release(ada, first.id, item["lease"]["token"])
    assert await rig.lease(ada) == []
    rig.clock.advance(2)
    assert [item["message_id"] for item in await rig.lease(ada, worker="w")][:1] == [first.id]


async def test_releases_and_attempts_are_counted_apart(rig: Rig) -> None:
    ada, name, token = await leased(rig)
    await rig.inbox.release(ada, name, token)
    [item] = await rig.lease(ada)
    again = await rig.inbox.fail(ada, name, item["lease"]["token"], _failure(True), 0)
    assert (again.attempts, again.releases) == (1, 1)
    [item] = await rig.lease(ada)
    back = await rig.inbox.release(ada, name, item["lease"]["token"])
    assert (back.attempts, back.releases) == (1, 2)
    [item] = await rig.lease(ada)
    dead = await rig.inbox.fail(ada, name, item["lease"]["token"], _failure(True), 0)
    assert (dead.status, (dead.error or {})["code"]) == ("failed", "skill-failed")


async def test_what_the_platform_takes_back_is_not_counted(rig: Rig) -> None:
    ada, name, _ = await leased(rig)
    for _ in range(8):
        await rig.lifecycle.pause(ada)
        await rig.lifecycle.resume(ada)
        assert len(await rig.lease(ada)) == 1
    assert (await rig.message(name)).releases == 0


async def test_an_extension_reaches_to_the_deadline_and_no_further(rig: Rig) -> None:
    ada, name, token = await leased(rig)
    longer = await rig.inbox.extend(ada, name, token, 120)
    assert longer.lease_expires_at == rig.clock.now() + timedelta(seconds=120)
    longest = await rig.inbox.extend(ada, name, token, 10**6)
    assert longest.lease_expires_at == longest.deadline_at


async def test_a_failed_attempt_is_offered_again_later_and_the_last_one_is_a_dead_letter(rig: Rig) -> None:
    ada, name, token = await leased(rig)
    again = await rig.inbox.fail(ada, name, token, _failure(True), None)
    assert (again.status, again.attempts) == ("accepted", 1)
    assert again.not_before == rig.clock.now() + timedelta(seconds=2)
    assert await rig.lease(ada) == []
    rig.clock.advance(2)
    [item] = await rig.lease(ada)
    dead = await rig.inbox.fail(ada, name, item["lease"]["token"], _failure(True), None)
    assert (dead.status, dead.dead_letter, (dead.error or {})["retryable"]) == ("failed", True, False)
    assert (await rig.inbox.peek(ada, BASE, 10, 0))["dead"] == 1


async def test_the_agent_may_say_how_long_to_wait(rig: Rig) -> None:
    ada, name, token = await leased(rig)
    again = await rig.inbox.fail(ada, name, token, _failure(True), 33)
    assert again.not_before == rig.clock.now() + timedelta(seconds=33)


async def test_a_failure_that_no_retry_mends_ends_the_message(rig: Rig) -> None:
    ada, name, token = await leased(rig)
    failed: Message = await rig.inbox.fail(ada, name, token, _failure(False), None)
    assert (failed.status, (failed.error or {})["message"]) == ("failed", "it broke")
    assert (await rig.delivery.outcome(name, 0)).status == "failed"


async def test_a_paused_workspace_is_handed_nothing(rig: Rig) -> None:
    ada = await rig.changed(await rig.agent(), status="paused")
    await rig.send(ada)
    assert await rig.lease(ada) == []
