"""The one writer of a file commits in groups: whoever is on the way when a commit ends shares the next."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from molecule_platform.ports.storage import Transaction
from molecule_platform.storage.sqlite import SqliteStorage


async def test_what_is_written_a_few_turns_after_a_commit_shares_the_next(tmp_path: Path) -> None:
    commits: list[Sequence[str]] = []
    storage = await SqliteStorage.open(tmp_path / "molecule.db", commits.append)
    meanwhile: list[asyncio.Future[None]] = []

    def first(tx: Transaction) -> None:
        tx.signal("first")
        # It is written when this has been run, and before that can be committed.
        waiting = storage.write(lambda tx: tx.signal("waiting"))
        meanwhile.append(asyncio.ensure_future(waiting))

    async def late(turns: int) -> None:
        await written
        for _ in range(turns):
            await asyncio.sleep(0)
        await storage.write(lambda tx: tx.signal(f"late by {turns}"))

    try:
        written = asyncio.ensure_future(storage.write(first))
        await asyncio.gather(*(late(turns) for turns in range(3)))
        await meanwhile[0]
    finally:
        await storage.close()
    assert commits == [["first"], ["waiting", "late by 0", "late by 1", "late by 2"]]
