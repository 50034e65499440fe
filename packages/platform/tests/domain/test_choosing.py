"""Who is next, when it is tried again, how it ends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_platform.domain import messages
from molecule_platform.domain.messages import QueuedMessage
from molecule_platform.services.messaging.messages import next_message

if TYPE_CHECKING:
    from packages.platform.tests.conftest import MakeMessage

NOW = datetime(2026, 5, 2, 12, 0, tzinfo=UTC)
CONTEXTS = ("c1", "c2", "c3")


def waiting(seq: int, context: str = "c1", priority: int = 50, status: str = "accepted") -> QueuedMessage:
    return QueuedMessage(f"m{seq}", seq, priority, context, status, NOW, None)


@st.composite
def queues(draw: st.DrawFn) -> list[QueuedMessage]:
    """Open messages in the order they came, some leased, some put off, some old."""
    count = draw(st.integers(0, 8))
    ages = sorted(draw(st.lists(st.integers(0, 30), min_size=count, max_size=count)), reverse=True)
    return [
        QueuedMessage(
            id=f"m{seq}",
            seq=seq,
            priority=draw(st.sampled_from([10, 20, 50, 100])),
            context_id=draw(st.sampled_from(CONTEXTS)),
            status=draw(st.sampled_from(["accepted", "accepted", "leased"])),
            created_at=NOW - timedelta(minutes=age),
            not_before=draw(st.sampled_from([None, None, NOW, NOW + timedelta(seconds=1)])),
            worker=draw(st.sampled_from([None, "", "w1", "w2"])),
        )
        for seq, age in enumerate(ages)
    ]


def urgency(message: QueuedMessage) -> int:
    return messages.raised_priority(message.priority, NOW - message.created_at)


workers = st.sampled_from([None, "", "w1"])


@given(queues(), st.integers(0, 10), workers, st.booleans())
def test_only_messages_that_wait_and_are_due_are_chosen_each_once_and_within_the_limit(
    queue: list[QueuedMessage], limit: int, worker: str | None, parallel: bool
) -> None:
    chosen = messages.choose(queue, NOW, limit, worker=worker, parallel_contexts=parallel)
    by_id = {m.id: m for m in queue}
    assert len(chosen) == len(set(chosen)) <= limit
    for message in (by_id[name] for name in chosen):
        assert message.status == "accepted"
        assert message.not_before is None or message.not_before <= NOW


@given(queues(), workers)
def test_the_urgent_come_first_and_equals_in_the_order_they_came(
    queue: list[QueuedMessage], worker: str | None
) -> None:
    by_id = {m.id: m for m in queue}
    chosen = [by_id[name] for name in messages.choose(queue, NOW, 10, worker=worker)]
    assert chosen == sorted(chosen, key=lambda m: (-urgency(m), m.seq))


@given(queues(), workers)
def test_nobody_is_given_a_context_that_another_works_on(
    queue: list[QueuedMessage], worker: str | None
) -> None:
    by_id = {m.id: m for m in queue}
    taken = {by_id[name].context_id for name in messages.choose(queue, NOW, 10, worker=worker)}
    held_by_others = {
        m.context_id for m in queue if m.status == "leased" and not (worker and m.worker == worker)
    }
    assert not taken & held_by_others


@given(queues(), workers)
def test_no_message_overtakes_an_earlier_one_of_its_context_and_class(
    queue: list[QueuedMessage], worker: str | None
) -> None:
    chosen = set(messages.choose(queue, NOW, 10, worker=worker))
    for late in (m for m in queue if m.id in chosen):
        earlier = [
            m
            for m in queue
            if m.status == "accepted"
            and m.context_id == late.context_id
            and (-urgency(m), m.seq) < (-urgency(late), late.seq)
        ]
        assert all(m.id in chosen for m in earlier)


class Mail:
    """A mailbox that holds one queue."""

    def __init__(self, queue: list[QueuedMessage]) -> None:
        self.mailbox = self
        self._queue = queue

    def waiting(self, _target_id: str) -> list[QueuedMessage]:
        return self._queue

    def first_waiting(self, _target_id: str, now: datetime, limit: int) -> list[QueuedMessage]:
        leased = [one for one in self._queue if one.status == "leased"]
        accepted = (one for one in self._queue if one.status == "accepted")
        return leased + messages.in_order(accepted, now)[:limit]


@given(queues(), st.integers(0, 4), workers, st.booleans(), st.sampled_from([CONTEXTS, CONTEXTS[:1]]))
def test_the_first_few_lead_to_the_same_choice_as_all_that_wait(
    queue: list[QueuedMessage], limit: int, worker: str | None, parallel: bool, contexts: tuple[str, ...]
) -> None:
    def is_wanted(one: QueuedMessage) -> bool:
        return one.context_id in contexts

    wanted = [one for one in queue if one.status == "leased" or is_wanted(one)]
    everything = messages.choose(wanted, NOW, limit, worker=worker, parallel_contexts=parallel)
    tx: Any = Mail(queue)
    with mock.patch.object(next_message, "MORE", 1):
        few = next_message.next_messages(
            tx, "w", NOW, limit, is_wanted, worker=worker, parallel_contexts=parallel
        )
    assert few == everything


@given(queues())
def test_without_a_worker_s_name_each_context_gives_one_message_at_most(queue: list[QueuedMessage]) -> None:
    by_id = {m.id: m for m in queue}
    contexts = [by_id[name].context_id for name in messages.choose(queue, NOW, 10)]
    assert len(contexts) == len(set(contexts))


@given(queues(), st.integers(0, 4))
def test_a_smaller_limit_takes_the_beginning_of_what_a_larger_one_takes(
    queue: list[QueuedMessage], limit: int
) -> None:
    assert messages.choose(queue, NOW, limit) == messages.choose(queue, NOW, 10)[:limit]


@given(queues())
def test_parallel_contexts_leave_nothing_that_is_due_behind(queue: list[QueuedMessage]) -> None:
    due = {m.id for m in queue if m.status == "accepted" and (m.not_before is None or m.not_before <= NOW)}
    assert set(messages.choose(queue, NOW, 10, parallel_contexts=True)) == due


def test_a_named_worker_may_take_on_a_context_that_it_already_holds() -> None:
    mine = QueuedMessage("m1", 1, 50, "c1", "leased", NOW, None, worker="w1")
    assert messages.choose([mine, waiting(2)], NOW, 5, worker="w1") == ["m2"]
    assert messages.choose([mine, waiting(2)], NOW, 5, worker="w2") == []


def test_two_workers_without_a_name_are_two_workers() -> None:
    somebody_s = QueuedMessage("m1", 1, 50, "c1", "leased", NOW, None, worker="")
    assert messages.choose([somebody_s, waiting(2)], NOW, 5, worker="") == []


@pytest.mark.parametrize(
    ("priority", "minutes", "raised"),
    [(10, 9, 10), (10, 10, 20), (20, 10, 50), (50, 11, 100), (100, 60, 100)],
)
def test_waiting_ten_minutes_raises_a_message_by_one_class(priority: int, minutes: int, raised: int) -> None:
    assert messages.raised_priority(priority, timedelta(minutes=minutes)) == raised


@given(st.integers(1, 1000), st.floats(0, 1, exclude_max=True))
def test_the_delay_doubles_up_to_five_minutes_and_is_spread_by_a_fifth(attempt: int, chance: float) -> None:
    base = 300.0 if attempt >= 9 else float(2**attempt)
    assert 0.8 * base <= messages.retry_delay(attempt, chance) <= 1.2 * base


def test_what_is_given_back_waits_longer_each_time_but_not_for_the_first_few_times() -> None:
    pauses = [messages.release_delay(number) for number in range(1, 15)]
    assert pauses == [0, 0, 0, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]
    assert messages.release_delay(1000) == 300


def test_the_callers_own_deadline_stands_and_the_platform_s_counts_from_the_lease(
    make_message: MakeMessage,
) -> None:
    own = make_message(run_limit_seconds=None)
    ours = make_message(run_limit_seconds=60)
    assert messages.running_deadline(own, NOW) == own.deadline_at
    assert messages.running_deadline(ours, NOW) == NOW + timedelta(seconds=60)


def test_each_end_says_what_happened(make_message: MakeMessage) -> None:
    ended = messages.expiry(make_message(lease_kind="dispatch"))
    assert (ended.status, (ended.error or {})["code"]) == ("expired", "deadline-exceeded")
    unread = messages.expiry(make_message(lease_kind="cursor"))
    assert (unread.error or {})["code"] == "no-reply"
    cancelled = messages.cancellation("workspace-removed", "it is gone")
    assert (cancelled.status, cancelled.task_state) == ("cancelled", "canceled")
    failed = messages.failure("peer-unreachable", "nobody there", agent_status=500)
    assert failed.dead_letter
    assert (failed.error or {})["agent_status"] == 500


def test_a_reply_that_nobody_read_is_simply_done(make_message: MakeMessage) -> None:
    assert messages.expiry(make_message(kind="reply")).status == "answered"


@pytest.mark.parametrize("status", messages.STATUSES)
def test_a_message_is_open_until_it_has_its_outcome(make_message: MakeMessage, status: str) -> None:
    assert make_message(status=status).is_open == (status in ("accepted", "leased"))
    assert make_message(status=status).result_json() is None
