"""What the event log and the stream tickets promise, on both databases."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import update

from molecule_platform.domain.credentials import StreamTicket
from molecule_platform.domain.events import Event
from molecule_platform.domain.messages import Message, MessageOutcome
from molecule_platform.ports.storage import Transaction
from molecule_platform.storage import tables
from molecule_platform.storage.transaction import SqlTransaction
from molecule_wire import ids

if TYPE_CHECKING:
    from packages.platform.tests.conftest import MakeMessage
    from packages.platform.tests.storage.conftest import Store

HOUR = timedelta(hours=1)


def happen(tx: Transaction, store: Store, hours: int) -> int:
    at = store.ada.created_at + hours * HOUR
    event = Event("WORKSPACE_ONLINE", store.org.id, store.ada.id, {}, at)
    return tx.events.append(event)


async def test_the_parties_of_an_event_come_back_as_kept(store: Store) -> None:
    at, org, ada, bob = store.ada.created_at, store.org.id, store.ada.id, store.bob.id

    def work(tx: Transaction) -> list[Event]:
        start = tx.events.last_id()
        tx.events.append(Event("A2A_RESPONSE", org, ada, {"x": 1}, at, parties=(ada, bob)))
        tx.events.append(Event("WORKSPACE_ONLINE", org, ada, {}, at))
        return tx.events.after(start, 10)

    private, open_to_all = await store.storage.write(work)
    assert (list(private.parties or ()), private.has_party(bob), private.is_private) == (
        [ada, bob],
        True,
        True,
    )
    assert (open_to_all.parties, open_to_all.has_party(bob), open_to_all.is_private) == (None, False, False)


async def test_the_steps_of_a_message_are_for_its_two_sides(store: Store, make_message: MakeMessage) -> None:
    ada, bob = store.ada.id, store.bob.id

    def work(tx: Transaction) -> list[Event]:
        start = tx.events.last_id()
        caller = f"workspace:{bob}"
        tx.mailbox.insert(make_message(id="m1", target_id=ada, caller=caller, seq=10**9))
        tx.mailbox.insert(make_message(id="m2", target_id=ada, seq=10**9 + 1))
        return tx.events.after(start, 10)

    from_bob, from_ann = await store.storage.write(work)
    assert [from_bob.has_party(one) for one in (ada, bob, "carol")] == [True, True, False]
    assert [from_ann.has_party(one) for one in (ada, bob)] == [True, False]


async def test_a_message_leased_at_once_takes_two_steps_that_can_be_read_apart(
    store: Store, make_message: MakeMessage
) -> None:
    at_once = make_message(id="m1", target_id=store.ada.id, seq=10**9, status="leased", lease_epoch=1)

    def work(tx: Transaction) -> list[list[tuple[int | None, str]]]:
        start = tx.events.last_id()
        tx.mailbox.insert(at_once)
        pages = [
            tx.events.after(start, 10),
            tx.events.after(start, 1),
            tx.events.after(start + 1, 10),
            tx.events.after(start, 10, types=["MESSAGE_ACCEPTED"]),
            tx.events.after(start, 10, types=["MESSAGE_LEASED"]),
            tx.events.newest(store.org.id, 1),
            tx.events.newest(store.org.id, 2)[1:],
        ]
        steps = [(step.event_id - start, step.kind) for step in tx.mailbox.transitions("m1", start + 1)]
        assert steps == [(2, "leased")]
        return [[((event.id or 0) - start, event.event_type) for event in page] for page in pages]

    first, second = (1, "MESSAGE_ACCEPTED"), (2, "MESSAGE_LEASED")
    expected = [[first, second], [first], [second], [first], [second], [second], [first]]
    assert await store.storage.write(work) == expected


RESPONSE = "A2A_RESPONSE"


def end_one(tx: Transaction, store: Store, make_message: MakeMessage, **more: Any) -> tuple[int, Message]:
    """A message that has just ended, and the number of the step by which it did."""
    leased = make_message(target_id=store.ada.id, status="leased", lease_epoch=1, **more)
    tx.mailbox.insert(leased)
    failed = MessageOutcome("failed", error={"code": "internal", "message": "no"}, dead_letter=True)
    ended = tx.mailbox.settle(leased.id, failed, store.ada.created_at, 1)
    assert ended is not None
    return tx.mailbox.transitions(leased.id, 0)[-1].event_id, ended


def responses_in(tx: Transaction, after: int) -> list[tuple[int, Any]]:
    return [
        ((event.id or 0) - after, event.payload["response_body"]["error"]["message"])
        for event in tx.events.after(after, 10, types=[RESPONSE])
    ]


async def test_the_newest_before_a_number_go_on_where_the_newest_ended(
    store: Store, make_message: MakeMessage
) -> None:
    def work(tx: Transaction) -> tuple[list[int | None], list[int | None]]:
        happen(tx, store, 0)
        end_one(tx, store, make_message, id="one")
        happen(tx, store, 1)
        end_one(tx, store, make_message, id="two")
        whole = [event.id for event in tx.events.newest(store.org.id, 100)]
        pages: list[int | None] = []
        last: int | None = None
        while page := tx.events.newest(store.org.id, 1, before=last):
            pages += [event.id for event in page]
            last = page[-1].id
        return whole, pages

    whole, pages = await store.storage.write(work)
    assert len(whole) == 10
    assert pages == whole


async def test_how_a_message_ended_is_told_right_after_its_end(
    store: Store, make_message: MakeMessage
) -> None:
    def work(tx: Transaction) -> list[list[tuple[int, str]]]:
        end, _ = end_one(tx, store, make_message)
        happen(tx, store, 0)
        pages = [
            tx.events.after(end - 1, 10),
            tx.events.after(end, 10),
            tx.events.after(end, 1),
            tx.events.after(end + 1, 1),
            tx.events.after(end - 1, 10, types=[RESPONSE]),
            tx.events.after(end - 1, 10, types=["MESSAGE_FAILED"]),
            tx.events.after(end, 1, workspace_id=store.ada.id),
            tx.events.newest(store.org.id, 2),
        ]
        return [[((event.id or 0) - end, event.event_type) for event in page] for page in pages]

    failed, told, after = (0, "MESSAGE_FAILED"), (1, RESPONSE), (2, "WORKSPACE_ONLINE")
    assert await store.storage.write(work) == [
        [failed, told, after],
        [told, after],
        [told],
        [after],
        [told],
        [failed],
        [told],
        [after, told],
    ]


async def test_that_a_reply_was_read_is_told_to_nobody(store: Store, make_message: MakeMessage) -> None:
    def work(tx: Transaction) -> list[tuple[int, Any]]:
        end, _ = end_one(tx, store, make_message, kind="reply")
        return responses_in(tx, end - 1)

    assert await store.storage.write(work) == []


async def test_a_long_answer_is_told_without_its_words(store: Store, make_message: MakeMessage) -> None:
    def work(tx: Transaction) -> list[Any]:
        long = make_message(id="m1", target_id=store.ada.id, status="leased", lease_epoch=1)
        tx.mailbox.answer(tx.mailbox.insert(long), b'"' + b"x" * (64 * 1024) + b'"', store.ada.created_at)
        return [event.payload["response_body"] for event in tx.events.newest(store.org.id, 1)]

    assert await store.storage.write(work) == [None]


async def test_what_a_dead_letter_told_stays_told_when_it_begins_anew(
    store: Store, make_message: MakeMessage
) -> None:
    def work(tx: Transaction) -> list[list[tuple[int, Any]]]:
        end, dead = end_one(tx, store, make_message)
        before = responses_in(tx, end)
        tx.mailbox.redeliver(dead.id, store.ada.created_at, store.ada.created_at + HOUR, dead.id)
        after = responses_in(tx, end)
        tx.mailbox.settle(
            dead.id,
            MessageOutcome("expired", error={"code": "long-gone", "message": "late"}),
            store.ada.created_at,
        )
        return [before, after, [told for _, told in responses_in(tx, end)]]

    before, after, at_last = await store.storage.write(work)
    assert before == after == [(1, "no")]
    assert at_last == ["no", "late"]


async def test_what_a_message_told_is_kept_longer_than_the_message(
    store: Store, make_message: MakeMessage
) -> None:
    # Ids are made by the real clock, and tell how old a message is.
    later = datetime.now(UTC) + HOUR

    def work(tx: Transaction) -> tuple[list[tuple[int, Any]], bool]:
        end, ended = end_one(tx, store, make_message, id=ids.uuid7())
        tx.retention.messages(later, 10)
        return responses_in(tx, end), tx.mailbox.get(ended.id) is None

    assert await store.storage.write(work) == ([(1, "no")], True)


async def test_an_answer_that_is_written_down_says_the_same_as_before(
    store: Store, make_message: MakeMessage
) -> None:
    answer = b'{"message":{"messageId":"r","parts":[{"text":"\xc3\xa9"}],"big":1152921504606846977}}'

    def work(tx: Transaction) -> list[list[Event]]:
        leased = make_message(id=ids.uuid7(), target_id=store.ada.id, status="leased", lease_epoch=1)
        tx.mailbox.answer(tx.mailbox.insert(leased), answer, store.ada.created_at)
        before = tx.events.newest(store.org.id, 2)
        tx.retention.messages(datetime.now(UTC) + HOUR, 10)
        return [before, tx.events.newest(store.org.id, 2)]

    before, after = await store.storage.write(work)
    assert [event.event_type for event in before] == [RESPONSE, "MESSAGE_ANSWERED"]
    assert [event.row() for event in after] == [event.row() for event in before]


async def test_a_message_that_began_anew_behind_our_back_does_not_stop_the_log(
    store: Store, make_message: MakeMessage
) -> None:
    def work(tx: Transaction) -> list[str]:
        end, dead = end_one(tx, store, make_message)
        assert isinstance(tx, SqlTransaction)
        one = tables.messages.c.id == dead.id
        tx.connection.execute(update(tables.messages).where(one).values(status="accepted", finished_at=None))
        happen(tx, store, 0)
        return [event.event_type for event in tx.events.after(end - 1, 10)]

    assert await store.storage.write(work) == ["MESSAGE_FAILED", "WORKSPACE_ONLINE"]


async def test_nothing_is_told_of_the_messages_of_one_that_was_erased(
    store: Store, make_message: MakeMessage
) -> None:
    def work(tx: Transaction) -> list[tuple[int, Any]]:
        end, _ = end_one(tx, store, make_message)
        tx.upkeep.erase(store.ada.id)
        return responses_in(tx, end - 1)

    assert await store.storage.write(work) == []


async def test_pruning_never_parts_an_end_from_what_it_told(store: Store, make_message: MakeMessage) -> None:
    def work(tx: Transaction) -> tuple[int, list[str]]:
        end, _ = end_one(tx, store, make_message)
        happen(tx, store, 2)
        while tx.events.prune(store.ada.created_at + HOUR, 1):
            pass
        return tx.events.oldest_kept() - end, [event.event_type for event in tx.events.after(end, 10)]

    assert await store.storage.write(work) == (1, ["WORKSPACE_ONLINE"])


async def test_pruning_forgets_the_beginning_of_the_log_and_says_how_far(
    store: Store, make_message: MakeMessage
) -> None:
    at = store.ada.created_at

    def work(tx: Transaction) -> None:
        start = tx.events.last_id()
        first = happen(tx, store, 0)
        tx.mailbox.insert(make_message(id="m1", target_id=store.ada.id, seq=10**9))
        tx.mailbox.settle("m1", MessageOutcome("answered"), at + HOUR)
        kept = happen(tx, store, 5)
        late = happen(tx, store, 0)
        before = tx.events.oldest_kept()
        assert before <= start

        assert tx.events.prune(at, 10) == 0
        assert tx.events.oldest_kept() == before
        assert tx.events.prune(at + 3 * HOUR, 1) == 1
        assert tx.events.oldest_kept() == first
        assert tx.events.prune(at + 3 * HOUR, 10) == 2
        assert first < tx.events.oldest_kept() < kept
        rest = [event.id for event in tx.events.after(tx.events.oldest_kept(), 10)]
        assert rest == [kept, late]
        assert [event.id for event in tx.events.after(0, 10)] == rest
        assert tx.events.last_id() >= late

    await store.storage.write(work)


async def test_a_ticket_is_good_once_and_for_its_time(store: Store) -> None:
    now = store.ada.created_at

    def ticket(name: str, seconds: int) -> StreamTicket:
        ends = now + timedelta(seconds=seconds)
        return StreamTicket(name, store.org.id, f"token:{name}", now, ends)

    def work(tx: Transaction) -> list[tuple[StreamTicket | None, bool]]:
        tx.people.insert_ticket(ticket("long", 60))
        tx.people.insert_ticket(ticket("short", 1))
        later = now + timedelta(seconds=1)
        names = ("long", "long", "short", "unknown")
        return [(tx.people.ticket(name, later), tx.people.use_ticket(name, later)) for name in names]

    nothing = (None, False)
    assert await store.storage.write(work) == [(ticket("long", 60), True), nothing, nothing, nothing]


async def test_expired_tickets_do_not_pile_up(store: Store) -> None:
    now = store.ada.created_at

    def work(tx: Transaction) -> StreamTicket | None:
        ends = now + timedelta(seconds=1)
        tx.people.insert_ticket(StreamTicket("old", store.org.id, "admin", now, ends))
        tx.people.insert_ticket(StreamTicket("new", store.org.id, "admin", ends, ends + HOUR))
        return tx.people.ticket("old", now)

    assert await store.storage.write(work) is None
