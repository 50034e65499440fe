"""What the event log and the stream tickets promise, on both databases."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from molecule_platform.domain.credentials import StreamTicket
from molecule_platform.domain.events import Event
from molecule_platform.domain.messages import Outcome
from molecule_platform.ports.storage import Transaction

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


async def test_pruning_forgets_the_beginning_of_the_log_and_says_how_far(
    store: Store, make_message: MakeMessage
) -> None:
    at = store.ada.created_at

    def work(tx: Transaction) -> None:
        start = tx.events.last_id()
        first = happen(tx, store, 0)
        tx.mailbox.insert(make_message(id="m1", target_id=store.ada.id, seq=10**9))
        tx.mailbox.settle("m1", Outcome("answered"), at + HOUR)
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
