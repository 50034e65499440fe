"""What the only writer remembers of workspaces is never older than what is committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from molecule_platform.domain.refusals import Refusal
from molecule_platform.ports.storage import Transaction

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
        raise Refusal("conflict", "not so")

    with pytest.raises(Refusal):
        await store.storage.write(work)
    assert await standing(store) == store.ada.status


async def test_a_new_version_is_read_whole(store: Store) -> None:
    assert await standing(store) == store.ada.status
    renamed = store.ada.changed(name="Ada Lovelace")
    assert await store.storage.write(lambda tx: tx.workspaces.update(renamed))
    found = await store.storage.glance(lambda tx: tx.workspaces.standing(store.ada))
    assert found is not None
    assert found.name == "Ada Lovelace"
