"""Looking back at messages: pages, history, and dead letters that begin anew."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from molecule_platform.domain import messages
from molecule_platform.domain.messages import Message
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.tasks import TaskKey
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.mailbox import MailFilter
from molecule_platform.services.messaging.messages.message_queries import MessageQueries

if TYPE_CHECKING:
    from packages.platform.tests.services.conftest import Refuses, Rig

Of = Callable[[Workspace], Principal]
BROKEN = messages.failure("skill-failed", "it broke", retryable=False)


@pytest.fixture
def mail(rig: Rig) -> MessageQueries:
    return MessageQueries(rig.storage, rig.clock, rig.delivery)


async def dead_letter(rig: Rig, ada: Workspace, **more: Any) -> Message:
    message = (await rig.send(ada, **more)).message
    [item] = await rig.lease(ada)
    return await rig.inbox.fail(ada, message.id, item["lease"]["token"], BROKEN, None)


async def test_pages_lead_to_the_oldest_without_gap_or_repeat(rig: Rig, mail: MessageQueries) -> None:
    ada = await rig.agent()
    sent = [(await rig.send(ada, f"number {n}")).message.id for n in range(5)]
    found: list[str] = []
    cursor = None
    while True:
        rows, cursor = await mail.page(MailFilter(ada.id), 2, cursor)
        found += [row["id"] for row in rows]
        if cursor is None:
            break
    assert found == sent[::-1]


@pytest.mark.parametrize("cursor", ["nonsense", "WyJ4Il0", "WyIxIiwiMiJd"])
async def test_a_cursor_that_no_page_gave_is_refused(
    rig: Rig, mail: MessageQueries, refuses: Refuses, cursor: str
) -> None:
    ada = await rig.agent()
    await refuses(mail.page(MailFilter(ada.id), 2, cursor), "invalid-request")


async def test_what_was_sent_and_received_can_be_told_apart(
    rig: Rig, mail: MessageQueries, principal_of: Of
) -> None:
    ada, bob = await rig.agent("Ada"), await rig.agent("Bob", url="http://127.0.0.1:9/")
    sent = (await rig.send(bob, caller=principal_of(ada))).message.id
    received = (await rig.send(ada)).message.id

    async def listed(**wanted: Any) -> list[tuple[str, str]]:
        rows, _ = await mail.page(MailFilter(ada.id, **wanted), 10, None)
        return [(row["id"], row["delivery_mode"]) for row in rows]

    assert await listed() == [(received, "poll"), (sent, "push")]
    assert await listed(direction="out") == [(sent, "push")]
    assert await listed(direction="in") == [(received, "poll")]
    assert await listed(peer_id=bob.id) == [(sent, "push")]


async def test_a_dead_letter_begins_anew_under_the_same_id(rig: Rig, mail: MessageQueries) -> None:
    ada = await rig.agent()
    dead = await dead_letter(rig, ada, timeout_seconds=120)
    rig.clock.advance(3600)
    again = await mail.redeliver(ada, dead.id)
    assert (again.id, again.status, again.attempts, again.error) == (dead.id, "accepted", 0, None)
    assert again.deadline_at == again.waits_until == rig.clock.now() + timedelta(seconds=120)
    assert (again.dead_letter, again.finished_at) == (False, None)
    [item] = await rig.lease(ada)
    assert (item["message_id"], item["lease"]["epoch"], item["lease"]["attempt"]) == (dead.id, 2, 1)
    ended = await rig.inbox.ack(ada, dead.id, item["lease"]["token"])
    assert ended.status == "answered"


async def test_a_dead_letter_that_was_given_back_too_often_may_be_given_back_again(
    rig: Rig, mail: MessageQueries
) -> None:
    ada = await rig.agent()
    message = (await rig.send(ada)).message
    while (await rig.message(message.id)).is_open:
        for item in await rig.lease(ada):
            await rig.inbox.release(ada, message.id, item["lease"]["token"])
        rig.clock.advance(5)
    again = await mail.redeliver(ada, message.id)
    assert (again.releases, again.not_before) == (0, None)
    [item] = await rig.lease(ada)
    back = await rig.inbox.release(ada, message.id, item["lease"]["token"])
    assert (back.status, back.releases) == ("accepted", 1)


async def test_a_failed_task_stays_failed_and_the_new_cycle_has_its_own(
    rig: Rig, mail: MessageQueries
) -> None:
    ada = await rig.agent()
    message = (await rig.send(ada)).message
    await rig.delivery.show(message.id)
    [item] = await rig.lease(ada)
    await rig.inbox.fail(ada, message.id, item["lease"]["token"], BROKEN, None)
    again = await mail.redeliver(ada, message.activity_id)
    assert again.task_id not in (message.task_id, "")
    await rig.delivery.show(message.id)
    [item] = await rig.lease(ada)
    await rig.inbox.ack(ada, message.id, item["lease"]["token"])
    states = await rig.storage.read(
        lambda tx: [tx.tasks.get(TaskKey(ada.id, "", name)) for name in (message.task_id, again.task_id)]
    )
    assert [task and task.state for task in states] == ["failed", "completed"]


async def test_only_dead_letters_begin_anew_and_only_once(
    rig: Rig, mail: MessageQueries, refuses: Refuses
) -> None:
    ada = await rig.agent()
    waiting = (await rig.send(ada, context="c1")).message
    refusal = await refuses(mail.redeliver(ada, waiting.id), "conflict")
    assert "accepted" in refusal.sentence
    [item] = await rig.lease(ada)
    dead = await rig.inbox.fail(ada, waiting.id, item["lease"]["token"], BROKEN, None)
    await mail.redeliver(ada, dead.id)
    await refuses(mail.redeliver(ada, dead.id), "conflict")
    await refuses(mail.redeliver(ada, "unknown"), "message-not-found")
    await refuses(mail.redeliver(await rig.agent("Bob"), dead.id), "message-not-found")


async def test_a_full_mailbox_takes_no_dead_letter_back(
    rig: Rig, mail: MessageQueries, refuses: Refuses
) -> None:
    ada = await rig.agent()
    dead = await dead_letter(rig, ada)
    for _ in range(rig.limits.capacity.max_open):
        await rig.send(ada)
    refusal = await refuses(mail.redeliver(ada, dead.id), "mailbox-full")
    assert refusal.extras["retry_after"]
