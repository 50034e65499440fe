"""What committing together is worth: accepting messages with 64 senders waiting, against one commit each.

Both go through the product's own SQLite writer and its mailbox verb at `synchronous=FULL`, on the disk that
the repository is on: a file system in memory would have no commit to share.
"""

import asyncio
import itertools
import statistics
import tempfile
import time
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks import figure
from molecule_platform.domain.messages import PRIORITY_PEER, Message
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.people import Org
from molecule_platform.ports.storage import Transaction
from molecule_platform.storage.sqlite import SqliteStorage
from molecule_wire import ids
from scripts import repository

SENDERS = 64
MESSAGES_EACH = 20
MESSAGES_ALONE = 200
ROUNDS = 5
NOW = datetime.now(UTC)
ORG = Org(ids.uuid7(), "bench", "Bench", NOW)
TARGET = Workspace(str(uuid.uuid4()), ORG.id, "target", NOW, NOW)
BODY = b'{"jsonrpc":"2.0","id":1,"method":"message/send","params":{}}'


def measure() -> figure.Figure:
    """Accepted messages a second with many waiting, over the same with one waiting."""
    scratch = repository.ROOT / ".tools"
    scratch.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        alone, together = asyncio.run(_rates(Path(folder) / "bench.db"))
    rates = f"{together:,.0f}/s against {alone:,.0f}/s"
    limits = f"median of {ROUNDS}, synchronous=FULL, {SENDERS} waiting, {rates}"
    return figure.Figure("group commit / one commit each", together / alone, "x", figure.Floor(5.0), limits)


async def _rates(path: Path) -> tuple[float, float]:
    storage = await SqliteStorage.open(path, _ring)
    numbers = itertools.count(1)
    try:
        await storage.write(_furnish)
        rounds = [await _round(storage, numbers) for _ in range(ROUNDS + 1)]
    finally:
        await storage.close()
    alone, together = (statistics.median(rates) for rates in zip(*rounds[1:], strict=True))
    return alone, together


async def _round(storage: SqliteStorage, numbers: "itertools.count[int]") -> tuple[float, float]:
    alone = await _rate(storage, numbers, senders=1, each=MESSAGES_ALONE)
    return alone, await _rate(storage, numbers, senders=SENDERS, each=MESSAGES_EACH)


def _ring(subjects: Sequence[str]) -> None:
    assert not subjects


def _furnish(transaction: Transaction) -> None:
    transaction.people.insert_org(ORG)
    transaction.workspaces.insert(TARGET)


async def _rate(storage: SqliteStorage, numbers: "itertools.count[int]", *, senders: int, each: int) -> float:
    async def send(messages: Sequence[Message]) -> None:
        for message in messages:
            await storage.write(lambda transaction, message=message: transaction.mailbox.insert(message))

    batches = [[_message(next(numbers)) for _ in range(each)] for _ in range(senders)]
    began = time.perf_counter()
    await asyncio.gather(*(send(batch) for batch in batches))
    return senders * each / (time.perf_counter() - began)


def _message(number: int) -> Message:
    return Message(
        id=ids.uuid7(),
        org_id=ORG.id,
        seq=number,
        target_id=TARGET.id,
        caller="user:admin",
        caller_name="admin",
        kind="message",
        method="message/send",
        dialect="0.3",
        body=BODY,
        body_hash=f"{number:064x}",
        message_ref=str(number),
        context_id=str(number % SENDERS),
        priority=PRIORITY_PEER,
        max_attempts=5,
        created_at=NOW,
        deadline_at=NOW + timedelta(hours=1),
        waits_until=NOW + timedelta(hours=1),
    )


if __name__ == "__main__":
    print(figure.table([measure()]))
