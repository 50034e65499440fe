"""Delegations, as every store keeps them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy.exc import IntegrityError

from molecule_platform.domain.delegations import Delegation, Evidence
from molecule_platform.domain.messages import ActiveMessage, MessageOutcome

if TYPE_CHECKING:
    from molecule_platform.ports.storage import Transaction
    from packages.platform.tests.conftest import MakeMessage
    from packages.platform.tests.storage.conftest import Store

HOUR = timedelta(hours=1)


def made(store: Store, name: str, **changes: Any) -> Delegation:
    now = store.ada.created_at
    facts: dict[str, Any] = {
        "id": name,
        "org_id": store.org.id,
        "source": f"workspace:{store.ada.id}",
        "source_id": store.ada.id,
        "target_id": store.bob.id,
        "task": "write",
        "body_hash": "h",
        "root_id": name,
        "depth": 1,
        "chain": [store.ada.id, store.bob.id],
        "deadline_at": now + HOUR,
        "created_at": now,
        "updated_at": now,
        "deliverables": [{"name": "poem", "required": True}],
    }
    return Delegation(**facts | changes)


async def test_a_delegation_is_kept_as_it_was_given(store: Store) -> None:
    now = store.ada.created_at
    first = made(
        store, "d1", idempotency_key="k", message_id="m", parent_id="d0", context={"a": [1]}, retry_of="d9",
        result={"text": "x"}, error={"code": "c"}, missing=["poem"], dispatched_at=now, seq=7, calls=3,
    )  # fmt: skip

    def work(tx: Transaction) -> list[Any]:
        tx.delegations.insert(first)
        return [tx.delegations.get("d1"), tx.delegations.get("d2"), tx.delegations.by_key(first.source, "k")]

    assert await store.storage.write(work) == [first, None, first]


async def test_a_key_belongs_to_one_delegation_of_a_source_until_it_is_given_up(store: Store) -> None:
    def insert(name: str, **changes: Any) -> Any:
        return store.storage.write(
            lambda tx: tx.delegations.insert(made(store, name, idempotency_key="k", **changes))
        )

    await insert("d1")
    await insert("d2", source="user:ann")
    with pytest.raises(IntegrityError):
        await insert("d3")
    await store.storage.write(lambda tx: tx.delegations.give_up_key("d1"))
    await insert("d3")
    found = await store.storage.read(lambda tx: tx.delegations.by_key(made(store, "d").source, "k"))
    assert found is not None
    assert found.id == "d3"


async def test_only_an_open_delegation_changes(store: Store) -> None:
    def work(tx: Transaction) -> list[Any]:
        tx.delegations.insert(made(store, "d1"))
        moved = tx.delegations.change("d1", status="dispatched", attempts=1)
        ended = tx.delegations.change("d1", status="completed", outcome="completed", result={"text": "x"})
        again = tx.delegations.change("d1", status="failed", outcome="failed")
        return [moved and moved.attempts, ended and ended.result, again, tx.delegations.get("d1") == ended]

    assert await store.storage.write(work) == [1, {"text": "x"}, None, True]


async def test_a_page_holds_the_newest_of_a_role_first(store: Store) -> None:
    ada, bob = store.ada.id, store.bob.id

    def work(tx: Transaction) -> list[Any]:
        tx.delegations.insert(made(store, "z", seq=1))
        tx.delegations.insert(made(store, "a", seq=2, status="failed"))
        tx.delegations.insert(made(store, "m", seq=3, source_id=bob, target_id=ada))

        def names(*wanted: Any) -> list[str]:
            return [one.id for one in tx.delegations.page(*wanted)[0]]

        return [
            names(ada, "source", None, None, 10),
            names(ada, "target", None, None, 10),
            names(ada, "any", None, None, 2),
            names(ada, "any", None, 2, 10),
            names(ada, "any", {"failed"}, None, 10),
            names("nobody", "any", None, None, 10),
        ]

    expected = [["a", "z"], ["m"], ["m", "a"], ["z"], ["a"], []]
    assert await store.storage.write(work) == expected


async def test_open_ones_are_found_by_parent_by_workspace_and_by_deadline(store: Store) -> None:
    now = store.ada.created_at

    def work(tx: Transaction) -> list[Any]:
        tx.delegations.insert(made(store, "d1"))
        tx.delegations.insert(made(store, "d2", parent_id="d1", seq=1, deadline_at=now + 3 * HOUR))
        tx.delegations.insert(made(store, "d3", parent_id="d1", seq=2, status="failed", outcome="failed"))
        found = [
            tx.delegations.open_children("d1"),
            tx.delegations.open_of(store.bob.id),
            tx.delegations.overdue(now, 10),
            tx.delegations.overdue(now + 2 * HOUR, 10),
            tx.delegations.overdue(now + 4 * HOUR, 1),
        ]
        return [[one.id for one in each] for each in found]

    assert await store.storage.write(work) == [["d2"], ["d1", "d2"], [], ["d1"], ["d1"]]


async def test_calls_are_counted_at_the_root(store: Store) -> None:
    def work(tx: Transaction) -> list[Any]:
        tx.delegations.insert(made(store, "d1"))
        return [
            tx.delegations.count_call("d1"),
            tx.delegations.count_call("d1"),
            tx.delegations.count_call("x"),
        ]

    assert await store.storage.write(work) == [2, 3, None]


async def test_what_a_workspace_works_on_is_what_it_holds_and_can_still_answer(
    store: Store, make_message: MakeMessage
) -> None:
    now, bob = store.ada.created_at, store.bob.id
    until = now + HOUR

    def work(tx: Transaction) -> list[Any]:
        for seq, name in enumerate(("held", "waiting", "ended", "late", "plain"), start=1):
            context = None if name == "plain" else {"id": name, "chain": [bob]}
            deadline = now if name == "late" else until
            tx.mailbox.insert(
                make_message(id=name, seq=seq, target_id=bob, delegation=context, deadline_at=deadline)
            )
        for name in ("held", "ended", "late", "plain"):
            deadline = now if name == "late" else until
            tx.mailbox.lease(name, kind="inbox", at=now, deadline_at=deadline, expires_at=until)
        tx.mailbox.settle("ended", MessageOutcome("answered"), now)
        return [tx.mailbox.in_work(who, now) for who in (bob, store.ada.id)]

    held = [ActiveMessage("held", {"id": "held", "chain": [bob]}), ActiveMessage("plain", None)]
    assert await store.storage.write(work) == [held, []]


async def test_evidence_is_kept_in_order_and_forgotten_with_its_delegation(store: Store) -> None:
    now = store.ada.created_at
    shown = [
        Evidence(
            f"e{number}", store.org.id, "d1", "poem", "text", "workspace:b", now, text="rose", sha256="a"
        )
        for number in (1, 2)
    ]

    def work(tx: Transaction) -> list[Any]:
        tx.delegations.insert(made(store, "d1"))
        tx.delegations.insert(made(store, "d2"))
        for one in shown:
            tx.delegations.add_evidence(one)
        tx.delegations.change("d1", status="completed", outcome="completed", finished_at=now)
        kept = tx.delegations.evidence("d1")
        early, late = tx.retention.delegations(now, 10), tx.retention.delegations(now + HOUR, 10)
        return [kept, early, late, tx.delegations.evidence("d1"), tx.delegations.get("d2") is not None]

    assert await store.storage.write(work) == [shown, 0, 1, [], True]


async def test_what_a_purged_workspace_said_is_erased_and_how_it_ended_stays(store: Store) -> None:
    now = store.ada.created_at

    def work(tx: Transaction) -> list[Any]:
        tx.delegations.insert(made(store, "d1", context={"a": 1}))
        tx.delegations.add_evidence(
            Evidence("e1", store.org.id, "d1", "poem", "text", "workspace:b", now, text="rose")
        )
        tx.delegations.change("d1", status="completed", outcome="completed", result={"text": "rose"})
        tx.upkeep.erase(store.bob.id)
        left = tx.delegations.get("d1")
        assert left is not None
        return [left.task, left.context, left.result, left.outcome, tx.delegations.evidence("d1")]

    assert await store.storage.write(work) == ["", None, None, "completed", []]
