"""The mailbox's verbs, on every store: messages, leases and fences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import update

from molecule_platform.domain import messages
from molecule_platform.domain.messages import HeldMessage, Message, MessageOutcome, QueuedMessage
from molecule_platform.ports.activity import ActivityRow
from molecule_platform.ports.mailbox import Usage
from molecule_platform.ports.storage import Transaction
from molecule_platform.storage import tables
from molecule_platform.storage.transaction import SqlTransaction

if TYPE_CHECKING:
    from packages.platform.tests.conftest import MakeMessage
    from packages.platform.tests.storage.conftest import Store

ANSWER = MessageOutcome("answered", b'{"x":1}', "completed")
MINUTE = timedelta(minutes=1)


# What a message gets on its way, and never brings along.
LATER = ("agent_task_id", "error", "not_before", "result", "worker")


def put(tx: Transaction, message: Message) -> Message:
    tx.mailbox.insert(numbered := replace(message, seq=tx.activity.next_seq()))
    later = {name: value for name in LATER if (value := getattr(message, name)) is not None}
    if later:
        assert isinstance(tx, SqlTransaction)
        tx.connection.execute(update(tables.messages).where(tables.messages.c.id == message.id).values(later))
    return numbered


def lease(tx: Transaction, message: Message, kind: str = "inbox", **more: Any) -> Message:
    taken = tx.mailbox.lease(
        message.id, kind=kind, at=message.created_at, deadline_at=message.deadline_at, **more
    )
    assert taken is not None
    return taken


def steps_of(tx: Transaction, message: Message) -> list[str]:
    found = tx.events.after(0, 1000, workspace_id=message.target_id)
    mine = [event.event_type for event in found if event.payload.get("message_id") == message.id]
    return [kind.removeprefix("MESSAGE_").lower() for kind in mine if kind.startswith("MESSAGE_")]


async def test_a_message_comes_back_as_it_was_kept(store: Store, make_message: MakeMessage) -> None:
    whole = make_message(
        target_id=store.ada.id,
        body=b'{"bytes":"\xc3\xa9\\u0000"}',
        error={"code": "x", "message": "é", "retryable": True},
        result=b"\x00\xff",
        held_by="replica",
        held_until=store.ada.created_at,
        not_before=store.ada.created_at,
        run_limit_seconds=7,
        idempotency_key="key",
    )
    kept = await store.storage.write(lambda tx: put(tx, whole))
    assert await store.storage.read(lambda tx: tx.mailbox.get(whole.id)) == kept
    assert await store.storage.read(lambda tx: tx.mailbox.get("unknown")) is None


async def test_a_message_is_found_by_each_of_its_names(store: Store, make_message: MakeMessage) -> None:
    message = make_message(target_id=store.ada.id, idempotency_key="k", agent_task_id="theirs")

    def keep(tx: Transaction) -> Message:
        made = put(tx, message)
        row = ActivityRow(
            id=made.activity_id,
            org_id=made.org_id,
            seq=made.seq,
            workspace_id=made.target_id,
            activity_type="a2a_receive",
            caller=made.caller,
            created_at=made.created_at,
            message_id=made.id,
        )
        tx.activity.insert(row)
        return made

    kept = await store.storage.write(keep)
    at, caller, target = kept.created_at, kept.caller, kept.target_id

    def look(tx: Transaction) -> list[Message | None]:
        box = tx.mailbox
        return [
            box.by_activity(kept.activity_id),
            box.by_key(caller, target, "k"),
            box.by_reference(caller, target, kept.message_ref, kept.body_hash, at),
            box.by_task(target, kept.task_id),
            box.by_task(target, "theirs"),
            box.by_key("user:else", target, "k"),
            box.by_key(caller, store.bob.id, "k"),
            box.by_reference(caller, target, kept.message_ref, "another body", at),
            box.by_reference(caller, target, kept.message_ref, kept.body_hash, at + MINUTE),
            box.by_task(store.bob.id, kept.task_id),
        ]

    assert await store.storage.read(look) == [kept] * 5 + [None] * 5


async def test_the_newest_message_of_a_task_is_found(store: Store, make_message: MakeMessage) -> None:
    first, second = (make_message(target_id=store.ada.id, task_id="one task") for _ in range(2))
    await store.storage.write(lambda tx: (put(tx, first), put(tx, second)))
    found = await store.storage.read(lambda tx: tx.mailbox.by_task(store.ada.id, "one task"))
    assert found is not None
    assert found.id == second.id


async def test_a_key_is_used_once_for_each_caller_and_target(store: Store, make_message: MakeMessage) -> None:
    def send(tx: Transaction, caller: str, target: str) -> None:
        put(tx, make_message(target_id=target, caller=caller, idempotency_key="k"))

    await store.storage.write(lambda tx: send(tx, "user:ann", store.ada.id))
    await store.storage.write(lambda tx: send(tx, "user:bert", store.ada.id))
    await store.storage.write(lambda tx: send(tx, "user:ann", store.bob.id))
    with pytest.raises(Exception, match=r"(?i)unique"):
        await store.storage.write(lambda tx: send(tx, "user:ann", store.ada.id))


async def test_a_lease_is_taken_once_under_the_next_epoch(store: Store, make_message: MakeMessage) -> None:
    message = make_message(target_id=store.ada.id, not_before=store.ada.created_at)
    until, deadline = message.created_at + MINUTE, message.created_at + 30 * MINUTE

    def take(tx: Transaction) -> Message | None:
        return tx.mailbox.lease(
            message.id,
            kind="inbox",
            at=message.created_at,
            deadline_at=deadline,
            expires_at=until,
            owner="replica",
            token_hash="hash",
            worker="w1",
        )

    await store.storage.write(lambda tx: put(tx, message))
    taken = await store.storage.write(take)
    assert taken is not None
    assert taken == await store.storage.read(lambda tx: tx.mailbox.get(message.id))
    assert (taken.status, taken.lease_epoch, taken.attempts) == ("leased", 1, 1)
    assert (taken.lease_kind, taken.lease_owner, taken.lease_token_hash) == ("inbox", "replica", "hash")
    assert (taken.lease_expires_at, taken.deadline_at, taken.worker) == (until, deadline, "w1")
    assert taken.not_before is None
    assert await store.storage.write(take) is None


async def test_a_released_lease_costs_no_attempt_and_leaves_no_trace_of_its_holder(
    store: Store, make_message: MakeMessage
) -> None:
    message = make_message(target_id=store.ada.id)
    at, until = message.created_at, message.created_at + MINUTE
    held_by = {"owner": "r", "token_hash": "h", "worker": "w"}

    def work(tx: Transaction) -> Message | None:
        put(tx, message)
        taken = tx.mailbox.lease(message.id, kind="inbox", at=at, deadline_at=until, expires_at=at, **held_by)
        assert taken is not None
        assert taken.deadline_at == until
        assert tx.mailbox.release(message.id, taken.lease_epoch, at)
        return tx.mailbox.get(message.id)

    back = await store.storage.write(work)
    assert back is not None
    assert (back.status, back.attempts, back.lease_epoch) == ("accepted", 0, 1)
    gone = (back.lease_kind, back.lease_owner, back.lease_token_hash, back.lease_expires_at, back.worker)
    assert gone == (None,) * 5
    assert back.deadline_at == message.waits_until


async def test_what_an_agent_gives_back_costs_no_attempt_but_is_counted_and_waits(
    store: Store, make_message: MakeMessage
) -> None:
    message = make_message(target_id=store.ada.id)
    at, again = message.created_at, message.created_at + MINUTE

    def work(tx: Transaction) -> Message | None:
        put(tx, message)
        for number in (1, 2):
            taken = lease(tx, message)
            back = tx.mailbox.give_back(message.id, taken.lease_epoch, at, again)
            assert back is not None
            assert (back.releases, back.not_before) == (number, again)
        tx.mailbox.release(message.id, lease(tx, message).lease_epoch, at)
        return tx.mailbox.get(message.id)

    back = await store.storage.write(work)
    assert back is not None
    assert (back.status, back.attempts, back.releases, back.lease_epoch) == ("accepted", 0, 2, 3)
    assert (back.lease_kind, back.deadline_at) == (None, message.waits_until)


async def test_a_failed_attempt_counts_waits_and_says_why(store: Store, make_message: MakeMessage) -> None:
    message = make_message(target_id=store.ada.id)
    again = message.created_at + MINUTE

    def work(tx: Transaction) -> Message | None:
        taken = lease(tx, put(tx, message))
        assert tx.mailbox.retry(message.id, taken.lease_epoch, message.created_at, again, "peer-busy", "busy")
        return tx.mailbox.get(message.id)

    back = await store.storage.write(work)
    assert back is not None
    assert (back.status, back.attempts, back.not_before) == ("accepted", 1, again)
    assert back.error == {"code": "peer-busy", "message": "busy", "retryable": True}


async def test_an_older_epoch_changes_nothing_and_says_so(store: Store, make_message: MakeMessage) -> None:
    message = make_message(target_id=store.ada.id)
    at = message.created_at

    def work(tx: Transaction) -> tuple[Message, Message | None]:
        old = lease(tx, put(tx, message)).lease_epoch
        tx.mailbox.release(message.id, old, at)
        current = lease(tx, message)
        assert not tx.mailbox.extend(message.id, old, at + MINUTE)
        assert not tx.mailbox.release(message.id, old, at)
        assert tx.mailbox.give_back(message.id, old, at, at) is None
        assert not tx.mailbox.retry(message.id, old, at, at, "x", "x")
        assert tx.mailbox.settle(message.id, ANSWER, at, old) is None
        return current, tx.mailbox.get(message.id)

    before, after = await store.storage.write(work)
    assert before == after


async def test_an_open_message_ends_once_with_its_whole_outcome(
    store: Store, make_message: MakeMessage
) -> None:
    message = make_message(target_id=store.ada.id)
    error = {"code": "skill-failed", "message": "no", "retryable": False}
    outcome = MessageOutcome("failed", b"{}", "failed", error, dead_letter=True, agent_task_id="theirs")
    at = message.created_at + MINUTE

    def work(tx: Transaction) -> list[Message | None]:
        taken = lease(tx, put(tx, message), expires_at=at)
        ended = tx.mailbox.settle(message.id, outcome, at, taken.lease_epoch)
        again = tx.mailbox.settle(message.id, ANSWER, at)
        return [ended, tx.mailbox.get(message.id), again]

    ended, kept, again = await store.storage.write(work)
    assert ended is not None
    assert ended == kept
    assert again is None
    assert (ended.status, ended.task_state, ended.result) == ("failed", "failed", b"{}")
    assert (ended.error, ended.dead_letter, ended.agent_task_id) == (error, True, "theirs")
    assert (ended.finished_at, ended.lease_expires_at) == (at, None)


async def test_a_message_nobody_holds_can_end_without_an_epoch_and_keeps_the_agent_s_task(
    store: Store, make_message: MakeMessage
) -> None:
    message = make_message(target_id=store.ada.id, agent_task_id="theirs")
    await store.storage.write(lambda tx: put(tx, message))
    ended = await store.storage.write(lambda tx: tx.mailbox.settle(message.id, ANSWER, message.created_at))
    assert ended is not None
    assert (ended.status, ended.agent_task_id) == ("answered", "theirs")


async def test_an_inbox_lease_is_kept_longer(store: Store, make_message: MakeMessage) -> None:
    message = make_message(target_id=store.ada.id)
    until = message.created_at + 5 * MINUTE

    def work(tx: Transaction) -> Message | None:
        taken = lease(tx, put(tx, message), expires_at=message.created_at)
        assert tx.mailbox.extend(message.id, taken.lease_epoch, until)
        return tx.mailbox.get(message.id)

    kept = await store.storage.write(work)
    assert kept is not None
    assert kept.lease_expires_at == until


async def test_every_change_writes_its_step_in_order(store: Store, make_message: MakeMessage) -> None:
    message = make_message(target_id=store.ada.id)
    at = message.created_at

    def work(tx: Transaction) -> list[str]:
        put(tx, message)
        tx.mailbox.release(message.id, lease(tx, message).lease_epoch, at)
        tx.mailbox.retry(message.id, lease(tx, message).lease_epoch, at, at, "x", "x")
        tx.mailbox.settle(message.id, ANSWER, at, lease(tx, message).lease_epoch)
        return steps_of(tx, message)

    assert await store.storage.write(work) == ["accepted", "leased", "leased", "leased", "answered"]


async def test_the_first_that_wait_come_in_the_order_in_which_they_are_handed_out(
    store: Store, make_message: MakeMessage
) -> None:
    now = store.ada.created_at + timedelta(hours=1)
    ages = [messages.RAISED_AFTER - MINUTE, messages.RAISED_AFTER, messages.RAISED_AFTER * 2]

    def work(tx: Transaction) -> tuple[list[QueuedMessage], list[QueuedMessage]]:
        for number, priority in enumerate((5, 10, 20, 50, 60, 100, 100, 50, 20, 10, 5)):
            at = now - ages[number % len(ages)]
            put(tx, make_message(target_id=store.ada.id, priority=priority, created_at=at))
        put(tx, make_message(target_id=store.bob.id, priority=100))
        lease(tx, put(tx, make_message(target_id=store.ada.id, priority=100)))
        tx.mailbox.settle(put(tx, make_message(target_id=store.ada.id)).id, ANSWER, now)
        return tx.mailbox.first_waiting(store.ada.id, now, 7), tx.mailbox.waiting(store.ada.id)

    first, everything = await store.storage.write(work)
    expected = messages.in_order((one for one in everything if one.status == "accepted"), now)[:7]
    assert [one for one in first if one.status == "accepted"] == expected
    assert [one for one in first if one.status == "leased"] == [
        one for one in everything if one.status == "leased"
    ]


async def test_open_messages_are_counted(store: Store, make_message: MakeMessage) -> None:
    def work(tx: Transaction) -> tuple[int, tuple[int, int, int], dict[str, int]]:
        mine = [put(tx, make_message(target_id=store.ada.id)) for _ in range(4)]
        put(tx, make_message(target_id=store.ada.id, kind="reply"))
        put(tx, make_message(target_id=store.bob.id))
        lease(tx, mine[0])
        tx.mailbox.settle(mine[1].id, messages.failure("x", "x"), mine[1].created_at)
        tx.mailbox.settle(mine[2].id, ANSWER, mine[2].created_at)
        asked = [store.ada.id, store.bob.id, "nobody"]
        return (
            tx.mailbox.open_count(store.ada.id),
            tx.mailbox.counts(store.ada.id),
            tx.workspaces.pending(asked),
        )

    count, counts, pending = await store.storage.write(work)
    assert count == 3
    assert counts == (2, 1, 1)
    assert pending == {store.ada.id: 3, store.bob.id: 1}


async def test_what_each_sender_holds_of_a_mailbox_and_an_organisation_is_known(
    store: Store, make_message: MakeMessage
) -> None:
    here, at = {"org_id": store.ada.org_id, "target_id": store.ada.id}, store.ada.created_at

    def work(tx: Transaction) -> list[Any]:
        for number, (caller, body) in enumerate((("user:a", b"12345"), ("user:a", b"123"), ("user:b", b"1"))):
            put(tx, make_message(id=f"m{number}", caller=caller, body=body, **here))
        before = tx.mailbox.usage(store.ada.id), tx.mailbox.open_bytes(store.ada.org_id)
        tx.mailbox.settle("m0", MessageOutcome("cancelled"), at)
        return [*before, tx.mailbox.usage(store.ada.id), tx.mailbox.open_bytes(store.ada.org_id)]

    held, size, held_then, size_then = await store.storage.write(work)
    assert (held, size) == ({"user:a": Usage(2, 8), "user:b": Usage(1, 1)}, 9)
    assert (held_then, size_then) == ({"user:a": Usage(1, 3), "user:b": Usage(1, 1)}, 4)


async def test_what_waits_is_listed_oldest_first_and_offered_by_priority(
    store: Store, make_message: MakeMessage
) -> None:
    def work(tx: Transaction) -> tuple[list[str], ...]:
        for name, priority, kind in (("a", 50, "message"), ("b", 100, "message"), ("c", 50, "reply")):
            put(tx, make_message(id=name, target_id=store.ada.id, priority=priority, kind=kind))
        box = tx.mailbox
        lease(tx, make_message(id="a"), kind="cursor")
        return (
            [m.id for m in box.waiting(store.ada.id)],
            [m.id for m in box.inbox(store.ada.id, 10)],
            [m.id for m in box.inbox(store.ada.id, 1)],
            [m.id for m in box.list_leased(store.ada.id, ("cursor", "inbox"))],
            [m.id for m in box.list_leased(store.ada.id, ("dispatch",))],
        )

    assert await store.storage.write(work) == (
        ["a", "b", "c"],
        ["b", "a", "c"],
        ["b"],
        ["a"],
        [],
    )


async def test_only_living_push_targets_with_mail_that_is_due_are_to_be_dispatched(
    store: Store, make_message: MakeMessage
) -> None:
    now = store.ada.created_at

    def targets(tx: Transaction, later: int = 0) -> list[str]:
        return tx.mailbox.targets_to_dispatch(now + later * MINUTE, "", 10)

    def work(tx: Transaction) -> list[list[str]]:
        put(tx, make_message(target_id=store.ada.id, not_before=now + MINUTE))
        put(tx, make_message(target_id=store.bob.id, kind="reply"))
        push = {"delivery_mode": "push", "url": "http://a"}
        tx.workspaces.touch(store.bob.id, status="online", **push)
        tx.workspaces.touch(store.ada.id, status="paused", **push)
        seen = [targets(tx, 1)]
        tx.workspaces.touch(store.ada.id, status="degraded")
        return [*seen, targets(tx), targets(tx, 1)]

    assert await store.storage.write(work) == [[], [], [store.ada.id]]


async def test_targets_come_in_pages_by_id(store: Store, make_message: MakeMessage) -> None:
    def work(tx: Transaction) -> list[list[str]]:
        for workspace in (store.ada, store.bob):
            put(tx, make_message(target_id=workspace.id))
            put(tx, make_message(target_id=workspace.id))
            tx.workspaces.touch(workspace.id, status="online", delivery_mode="push", url="http://a")
        now = store.ada.created_at
        first = tx.mailbox.targets_to_dispatch(now, "", 1)
        return [first, tx.mailbox.targets_to_dispatch(now, first[-1], 10)]

    first, rest = await store.storage.write(work)
    assert first + rest == sorted([store.ada.id, store.bob.id])


async def test_what_time_has_done_is_found(store: Store, make_message: MakeMessage) -> None:
    now = store.ada.created_at

    def work(tx: Transaction) -> list[list[str]]:
        for name in ("late", "held", "lost", "cursor", "done"):
            put(tx, make_message(id=name, target_id=store.ada.id, deadline_at=now + 9 * MINUTE))
        tx.mailbox.settle("done", ANSWER, now)
        for name, kind in (("held", "inbox"), ("lost", "dispatch"), ("cursor", "cursor")):
            until = now + MINUTE if kind == "inbox" else None
            tx.mailbox.lease(
                name, kind=kind, at=now, deadline_at=now + 10 * MINUTE, expires_at=until, owner="r1"
            )
        box = tx.mailbox
        found: list[Sequence[Message | HeldMessage]] = [
            box.overdue(now + 9 * MINUTE, 10),
            box.overdue(now + 10 * MINUTE, 10),
            box.overdue(now + 10 * MINUTE, 2),
            box.lapsed(now, 10),
            box.lapsed(now + MINUTE, 10),
            box.orphaned(["r1", "r2"], 10),
            box.orphaned(["r2"], 10),
            box.orphaned([], 10),
        ]
        assert [held.id for held in box.dispatched_by("r1", now + MINUTE)] == ["lost"]
        assert box.dispatched_by("r1", now) == box.dispatched_by("r2", now + MINUTE) == []
        return [sorted(message.id for message in several) for several in found]

    everything = ["cursor", "held", "late", "lost"]
    found = await store.storage.write(work)
    assert found[:2] == [["late"], everything]
    assert len(found[2]) == 2
    assert found[3:] == [[], ["held"], [], ["lost"], ["lost"]]


async def test_marks_are_kept_and_only_one_s_own_hold_is_ended(
    store: Store, make_message: MakeMessage
) -> None:
    message = make_message(target_id=store.ada.id)
    now = message.created_at

    def work(tx: Transaction) -> list[Message | None]:
        put(tx, message)
        tx.mailbox.seen(message.id, now)
        tx.mailbox.hold(message.id, "r1", now)
        tx.mailbox.end_hold(message.id, "r2")
        held = tx.mailbox.get(message.id)
        tx.mailbox.end_hold(message.id, "r1")
        return [held, tx.mailbox.get(message.id)]

    held, free = await store.storage.write(work)
    assert held is not None
    assert free is not None
    assert (held.held_by, held.held_until, held.seen_at) == ("r1", now, now)
    assert (free.held_by, free.held_until) == (None, None)


async def test_a_message_remembers_the_reply_that_answered_it(
    store: Store, make_message: MakeMessage
) -> None:
    message = make_message(target_id=store.ada.id)

    def work(tx: Transaction) -> list[object]:
        put(tx, message)
        before = tx.mailbox.is_open(message.id)
        tx.mailbox.settle(message.id, ANSWER, message.created_at)
        tx.mailbox.answered_by(message.id, "hash")
        found = (
            tx.mailbox.by_reply(store.ada.id, "hash"),
            tx.mailbox.by_reply(store.bob.id, "hash"),
            tx.mailbox.by_reply(store.ada.id, "other"),
        )
        return [before, tx.mailbox.is_open(message.id), *found]

    assert await store.storage.write(work) == [True, False, message.id, None, None]


async def test_a_message_to_nowhere_or_of_an_unknown_kind_is_refused(
    store: Store, make_message: MakeMessage
) -> None:
    with pytest.raises(Exception, match=r"(?i)foreign key"):
        await store.storage.write(lambda tx: put(tx, make_message(target_id="nobody")))
    with pytest.raises(Exception, match=r"(?i)check constraint|kind_known"):
        await store.storage.write(lambda tx: put(tx, make_message(target_id=store.ada.id, kind="gossip")))


@pytest.mark.parametrize("member", ["message_ref", "context_id", "caller_name", "worker"])
async def test_a_nul_that_an_agent_wrote_does_not_break_the_store(
    store: Store, make_message: MakeMessage, member: str
) -> None:
    message = make_message(target_id=store.ada.id, **{member: "a\0b"})
    await store.storage.write(lambda tx: put(tx, message))
    assert await store.storage.read(lambda tx: tx.mailbox.get(message.id)) is not None


async def test_asking_for_an_id_that_holds_a_nul_finds_nothing(store: Store) -> None:
    assert await store.storage.read(lambda tx: tx.mailbox.get("a\0b")) is None
    assert await store.storage.read(lambda tx: tx.activity.seq_of(store.ada.id, "a\0b")) is None
