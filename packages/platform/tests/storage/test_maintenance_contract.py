"""What the house looks after by itself, as every store keeps it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from molecule_platform.domain.events import Event
from molecule_platform.domain.messages import MessageOutcome
from molecule_platform.ports.secrets import SealedSecret

if TYPE_CHECKING:
    from molecule_platform.ports.storage import Transaction
    from packages.platform.tests.conftest import MakeMessage, MakeWorkspace

    from .conftest import Store  # noqa: TID252


async def test_pages_of_those_we_start_ourselves_come_by_id(
    store: Store, make_workspace: MakeWorkspace
) -> None:
    ours = sorted(make_workspace(external=False, status="online").id for _ in range(5))

    def work(tx: Transaction) -> list[list[str]]:
        for workspace_id in reversed(ours):
            tx.workspaces.insert(make_workspace(id=workspace_id, external=False, status="online"))
        tx.workspaces.insert(make_workspace(external=False, status="paused"))
        first = [found.id for found in tx.upkeep.provisioned({"online", "offline"}, "", 3)]
        return [first, [found.id for found in tx.upkeep.provisioned({"online"}, first[-1], 3)]]

    assert await store.storage.write(work) == [ours[:3], ours[3:]]


async def test_what_is_to_be_stopped_stays_so_until_it_was_stopped_that_far(
    store: Store, make_workspace: MakeWorkspace
) -> None:
    marked = sorted(make_workspace().id for _ in range(3))

    def work(tx: Transaction) -> list[list[str]]:
        for through, workspace_id in enumerate(marked):
            tx.workspaces.insert(make_workspace(id=workspace_id, status="removed", stop_through=through))
        tx.workspaces.insert(make_workspace(external=False, status="paused"))
        pages = [tx.upkeep.to_be_stopped("", 2), tx.upkeep.to_be_stopped(marked[1], 2)]
        for workspace_id in marked:
            tx.upkeep.stopped(workspace_id, 1)
        pages.append(tx.upkeep.to_be_stopped("", 10))
        return [[found.id for found in page] for page in pages]

    assert await store.storage.write(work) == [marked[:2], marked[2:], marked[2:]]


async def test_seemingly_busy_is_who_reports_work_holds_none_and_was_quiet(
    store: Store, make_message: MakeMessage
) -> None:
    now = store.ada.created_at
    message = make_message(target_id=store.bob.id)

    def work(tx: Transaction) -> list[list[str]]:
        tx.mailbox.insert(message)
        tx.mailbox.lease(message.id, kind="inbox", at=now, deadline_at=message.deadline_at)
        for workspace in (store.ada, store.bob):
            tx.workspaces.touch(workspace.id, active_tasks=1)
        found = [[w.id for w in tx.upkeep.seemingly_busy(now, 10)]]
        for sign in ("last_activity_at", "last_outbound_at"):
            tx.workspaces.touch(store.ada.id, **{sign: now})
            found.append([w.id for w in tx.upkeep.seemingly_busy(now, 10)])
            tx.workspaces.touch(store.ada.id, **{sign: now - timedelta(seconds=1)})
        return [*found, [w.id for w in tx.upkeep.seemingly_busy(now, 10)]]

    assert await store.storage.write(work) == [[store.ada.id], [], [], [store.ada.id]]


async def test_the_last_end_of_a_message_is_known(store: Store, make_message: MakeMessage) -> None:
    now = store.ada.created_at
    several = [make_message(target_id=store.ada.id, seq=n) for n in range(3)]

    def work(tx: Transaction) -> list[Any]:
        for message in several:
            tx.mailbox.insert(message)
        before = tx.upkeep.last_settled(store.ada.id)
        for n, message in enumerate(several[:2]):
            tx.mailbox.settle(message.id, MessageOutcome("answered"), now + timedelta(seconds=n))
        return [before, tx.upkeep.last_settled(store.ada.id), tx.upkeep.last_settled(store.bob.id)]

    assert await store.storage.write(work) == [None, now + timedelta(seconds=1), None]


async def test_an_erasure_takes_the_data_of_one_and_nothing_of_the_others(
    store: Store, make_message: MakeMessage
) -> None:
    now = store.ada.created_at
    sent = {workspace.id: make_message(target_id=workspace.id) for workspace in (store.ada, store.bob)}

    def work(tx: Transaction) -> list[Any]:
        for workspace_id, message in sent.items():
            tx.mailbox.insert(message)
            place = (store.org.id, workspace_id, "KEY")
            tx.secrets.put(SealedSecret(*place, b"n", b"c", "k", now, now))
            for event_type in ("WORKSPACE_ONLINE", "WORKSPACE_REMOVED"):
                tx.events.append(Event(event_type, store.org.id, workspace_id, {"name": "x"}, now))
        tx.upkeep.erase(store.ada.id)
        kept = [len(tx.secrets.all_of(store.org.id, workspace_id)) for workspace_id in sent]
        bodies = [getattr(tx.mailbox.get(message.id), "body", None) for message in sent.values()]
        told = [
            (event.workspace_id == store.ada.id, event.event_type, event.payload)
            for event in tx.events.after(0, 100)
            if event.event_type.startswith("WORKSPACE_")
        ]
        return [kept, bodies, told]

    kept, bodies, told = await store.storage.write(work)
    assert kept == [0, 1]
    assert bodies == [b"{}", sent[store.bob.id].body]
    assert told == [
        (True, "WORKSPACE_REMOVED", {"cascade_deleted": 0}),
        (False, "WORKSPACE_ONLINE", {"name": "x"}),
        (False, "WORKSPACE_REMOVED", {"name": "x"}),
    ]
