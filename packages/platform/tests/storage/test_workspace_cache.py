"""What the only writer remembers of workspaces is never older than what is committed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.storage import Transaction
from molecule_platform.storage import workspace_cache

if TYPE_CHECKING:
    from packages.platform.tests.storage.conftest import Store


async def standing(store: Store) -> str:
    """The status of Ada as delivery sees it."""
    found = await store.storage.glance(lambda tx: tx.workspaces.standing(store.ada))
    assert found is not None
    return found.status


async def test_a_change_is_seen_by_whoever_looked_before_it(store: Store) -> None:
    await store.storage.write(lambda tx: tx.workspaces.touch(store.ada.id, status="online"))
    assert await standing(store) == "online"
    await store.storage.write(lambda tx: tx.workspaces.touch(store.ada.id, status="paused"))
    assert await standing(store) == "paused"


async def test_a_change_is_seen_by_what_follows_in_the_same_transaction(store: Store) -> None:
    def work(tx: Transaction) -> tuple[str, str]:
        before = tx.workspaces.standing(store.ada)
        tx.workspaces.touch(store.ada.id, status="paused")
        after = tx.workspaces.standing(store.ada)
        assert before is not None
        assert after is not None
        return before.status, after.status

    assert await store.storage.write(work) == (store.ada.status, "paused")
    assert await standing(store) == "paused"


async def test_a_change_that_was_undone_is_not_remembered(store: Store) -> None:
    def work(tx: Transaction) -> None:
        tx.workspaces.touch(store.ada.id, status="paused")
        tx.workspaces.standing(store.ada)
        raise ApiError("conflict", "not so")

    with pytest.raises(ApiError):
        await store.storage.write(work)
    assert await standing(store) == store.ada.status


async def test_a_new_version_is_read_whole(store: Store) -> None:
    assert await standing(store) == store.ada.status
    renamed = store.ada.changed(name="Ada Lovelace")
    assert await store.storage.write(lambda tx: tx.workspaces.update(renamed))
    found = await store.storage.glance(lambda tx: tx.workspaces.standing(store.ada))
    assert found is not None
    assert found.name == "Ada Lovelace"


async def test_who_stands_where_is_seen_once_it_changed(store: Store) -> None:
    bob = await store.storage.glance(lambda tx: tx.workspaces.member(store.bob.id))
    moved = store.bob.changed(parent_id=store.ada.id, isolated=True)
    assert await store.storage.write(lambda tx: tx.workspaces.move(moved))
    assert bob == store.bob.as_member()
    assert await store.storage.glance(lambda tx: tx.workspaces.member(store.bob.id)) == moved.as_member()


async def test_who_is_above_is_seen_once_somebody_there_has_moved(store: Store) -> None:
    async def above(workspace_id: str) -> list[str]:
        return await store.storage.glance(lambda tx: tx.workspaces.ancestors(workspace_id))

    top, low = (replace(store.ada, id=str(uuid4()), name=name) for name in ("top", "low"))
    for made in (top, replace(low, parent_id=store.bob.id)):
        await store.storage.write(partial(_insert, made))
    assert (await above(low.id), await above(store.bob.id)) == ([store.bob.id], [])
    assert await store.storage.write(lambda tx: tx.workspaces.move(store.bob.changed(parent_id=top.id)))
    assert (await above(low.id), await above(store.bob.id)) == ([store.bob.id, top.id], [top.id])


def _insert(workspace: Workspace, tx: Transaction) -> None:
    tx.workspaces.insert(workspace)


@pytest.mark.parametrize(
    ("statement", "changes"),
    [
        ("UPDATE workspaces SET last_heartbeat_at=?, uptime_seconds=? WHERE workspaces.id = ?", False),
        ("UPDATE workspaces SET last_outbound_at=? WHERE workspaces.id = ?", False),
        ("UPDATE workspaces SET last_outbound_at=?, status=? WHERE workspaces.id = ?", True),
        ("UPDATE workspaces SET last_activity_at=coalesce(?, status) WHERE workspaces.id = ?", True),
        ("UPDATE workspaces SET last_outbound_at=?", True),
        ("INSERT INTO workspaces (last_outbound_at) VALUES (?)", True),
        ("DELETE FROM workspaces WHERE workspaces.id = ?", True),
        ("UPDATE messages SET status=? WHERE messages.id = ?", False),
    ],
)
def test_only_what_nobody_is_told_from_memory_is_written_without_forgetting(
    statement: str, changes: bool
) -> None:
    assert workspace_cache.changes_standings(statement) is changes
