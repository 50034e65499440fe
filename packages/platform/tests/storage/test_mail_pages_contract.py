"""Lists of messages, steps and dead letters, on every store."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from molecule_platform.domain import messages
from molecule_platform.domain.messages import Message, MessageOutcome
from molecule_platform.ports.mailbox import InboxFilter, MailFilter
from molecule_platform.ports.storage import Transaction
from molecule_platform.storage import page_sizes

if TYPE_CHECKING:
    from packages.platform.tests.conftest import MakeMessage
    from packages.platform.tests.storage.conftest import Store

MINUTE = timedelta(minutes=1)
BROKEN = messages.failure("skill-failed", "it broke")


class Box:
    """A mailbox with verbs for a test."""

    def __init__(self, store: Store, make: MakeMessage) -> None:
        self.store, self.make = store, make
        self.from_bob = f"workspace:{store.bob.id}"

    async def put(self, **fields: Any) -> Message:
        message = self.make(**({"target_id": self.store.ada.id} | fields))

        def work(tx: Transaction) -> Message:
            tx.mailbox.insert(numbered := replace(message, seq=tx.activity.next_seq()))
            return numbered

        return await self.store.storage.write(work)

    async def settle(self, message: Message, outcome: MessageOutcome) -> Message:
        at = message.created_at + MINUTE
        ended = await self.store.storage.write(lambda tx: tx.mailbox.settle(message.id, outcome, at))
        assert ended is not None
        return ended

    async def page(self, limit: int = 10, **wanted: Any) -> tuple[list[str], bool]:
        asked = MailFilter(self.store.ada.id, **wanted)
        found, more = await self.store.storage.read(lambda tx: tx.mailbox.page(asked, limit))
        return [message.id for message in found], more

    async def inbox(self, **wanted: Any) -> list[str]:
        asked = InboxFilter(**wanted)
        found = await self.store.storage.read(lambda tx: tx.mailbox.inbox(self.store.ada.id, 10, asked))
        return [message.id for message in found]


@pytest.fixture
def box(store: Store, make_message: MakeMessage) -> Box:
    return Box(store, make_message)


async def test_a_page_has_what_the_workspace_sent_and_received_newest_first(box: Box) -> None:
    received = await box.put()
    sent = await box.put(target_id=box.store.bob.id, caller=f"workspace:{box.store.ada.id}")
    await box.put(target_id=box.store.bob.id)
    to_itself = await box.put(caller=f"workspace:{box.store.ada.id}")
    assert await box.page() == ([to_itself.id, sent.id, received.id], False)
    assert await box.page(direction="in") == ([to_itself.id, received.id], False)
    assert await box.page(direction="out") == ([to_itself.id, sent.id], False)
    assert await box.page(limit=2) == ([to_itself.id, sent.id], True)
    assert await box.page(before_seq=sent.seq) == ([received.id], False)


async def test_every_filter_narrows_the_page(box: Box) -> None:
    at = box.store.ada.created_at
    plain = await box.put(created_at=at)
    other = await box.put(caller=box.from_bob, context_id="talk", delegation_id="d1", created_at=at + MINUTE)
    dead = await box.settle(await box.put(created_at=at), BROKEN)
    assert await box.page(peer_id=box.store.bob.id) == ([other.id], False)
    assert await box.page(context_id="talk") == ([other.id], False)
    assert await box.page(delegation_id="d1") == ([other.id], False)
    assert await box.page(since=at + MINUTE) == ([other.id], False)
    assert await box.page(statuses=["failed"]) == ([dead.id], False)
    assert await box.page(statuses=["failed", "accepted"]) == ([dead.id, other.id, plain.id], False)


async def test_a_page_leaves_bodies_out_and_is_shorter_where_results_are_large(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_sizes, "PAGE_MAX_BYTES", 100)
    for _ in range(3):
        await box.settle(await box.put(), MessageOutcome("answered", b'"' + b"x" * 60 + b'"', "completed"))
    asked = MailFilter(box.store.ada.id)
    found, more = await box.store.storage.read(lambda tx: tx.mailbox.page(asked, 10))
    assert (len(found), more) == (1, True)
    assert (found[0].body, len(found[0].result or b"")) == (b"", 62)


async def test_an_inbox_shows_what_is_open_or_what_is_dead(box: Box) -> None:
    low = await box.put(priority=10)
    high = await box.put(priority=100, kind="delegation", context_id="talk", caller=box.from_bob)
    dead = [await box.settle(await box.put(), BROKEN) for _ in range(2)]
    await box.settle(await box.put(), MessageOutcome("expired", error={"code": "x", "message": "y"}))
    assert await box.inbox() == [high.id, low.id]
    assert await box.inbox(status="dead") == [dead[1].id, dead[0].id]
    assert await box.inbox(kind="delegation") == [high.id]
    assert await box.inbox(context_id="talk") == [high.id]
    assert await box.inbox(caller=box.from_bob) == [high.id]
    assert await box.inbox(status="dead", caller=box.from_bob) == []


async def test_the_steps_of_a_message_come_in_order_after_any_of_them(box: Box) -> None:
    message = await box.put()
    await box.put()
    await box.settle(message, BROKEN)
    first, second = await box.store.storage.read(lambda tx: tx.mailbox.transitions(message.id, 0))
    assert (first.kind, second.kind) == ("accepted", "failed")
    later = await box.store.storage.read(lambda tx: tx.mailbox.transitions(message.id, first.event_id))
    assert later == [second]


async def test_a_dead_letter_begins_anew_with_a_clean_row(box: Box) -> None:
    dead = await box.settle(await box.put(agent_task_id="theirs", attempts=5, lease_epoch=5), BROKEN)
    at, until = dead.created_at + 2 * MINUTE, dead.created_at + 9 * MINUTE

    def again(tx: Transaction) -> Message | None:
        return tx.mailbox.redeliver(dead.id, at, until, "new-task")

    kept = await box.store.storage.write(again)
    assert kept == replace(
        dead,
        status="accepted",
        attempts=0,
        task_id="new-task",
        agent_task_id=None,
        task_state=None,
        error=None,
        dead_letter=False,
        finished_at=None,
        deadline_at=until,
        waits_until=until,
    )
    assert await box.store.storage.write(again) is None
    steps = await box.store.storage.read(lambda tx: tx.mailbox.transitions(dead.id, 0))
    assert [step.kind for step in steps] == ["accepted", "failed", "accepted"]


@pytest.mark.parametrize("status", ["answered", "expired", "cancelled"])
async def test_what_ended_otherwise_stays_ended(box: Box, status: str) -> None:
    ended = await box.settle(await box.put(), MessageOutcome(status))
    at = ended.created_at
    assert await box.store.storage.write(lambda tx: tx.mailbox.redeliver(ended.id, at, at, "t")) is None
