"""Turns that are over, in SQLite: what an agent answered is known after a restart."""

import json
import logging
import sqlite3
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path

from molecule_runtime.domain.turns import TurnOutcome
from molecule_wire import jsontext, times
from molecule_wire.a2a.server.records import TurnRecord

KEPT_HOURS, KEPT_COUNT, PRUNE_EVERY = 24, 1000, 100
KEPT_BYTES = 64 * 1024 * 1024
KEPT_OUTCOMES = 100

log = logging.getLogger("molecule_runtime")

# A record is appended to one b-tree: with columns and two indexes a turn wrote three times as many pages.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS turn_records (
    number INTEGER PRIMARY KEY, begun_at TEXT NOT NULL, record TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS outcomes (message_id TEXT PRIMARY KEY, outcome TEXT NOT NULL) STRICT;
"""


class TaskStore:
    """See `TurnStore`. A file that cannot be read is put aside: the boot goes on without it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._unwritten: list[TurnRecord] = []
        self._saved = self._bytes = 0
        path.touch(mode=0o600)
        try:
            self._connection = self._open()
        except sqlite3.DatabaseError:
            path.replace(path.with_suffix(".rejected.db"))
            path.touch(mode=0o600)
            self._connection = self._open()

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.executescript(_SCHEMA)
        return connection

    @property
    def is_committed(self) -> bool:
        """See `TurnStore`."""
        return not self._unwritten

    def save(self, record: TurnRecord) -> None:
        """See `TurnStore`: written with the others that end meanwhile, in one statement."""
        self._unwritten.append(record)

    def commit(self) -> None:
        """See `TurnStore`: a crash of this process loses nothing, one of the machine perhaps the last."""
        records, self._unwritten = self._unwritten, []
        if not records:
            return
        rows = [(times.format_time(record.begun_at), _written(record)) for record in records]
        is_time_to_prune = (self._saved + len(rows)) // PRUNE_EVERY > self._saved // PRUNE_EVERY
        self._saved += len(rows)
        self._bytes += sum(len(written) for _, written in rows)
        try:
            self._connection.execute("BEGIN")
            self._connection.executemany("INSERT INTO turn_records (begun_at, record) VALUES (?, ?)", rows)
            if is_time_to_prune or self._bytes > KEPT_BYTES:
                self._prune(records[-1].begun_at)
            self._connection.commit()
        except sqlite3.Error as problem:
            self._connection.rollback()
            log.error("%d answers cannot be kept in %s: %s", len(rows), self._path, problem)

    def load(self) -> Iterator[TurnRecord]:
        """See `TurnStore`; of two records of one turn the later one counts."""
        found: dict[tuple[str, int], TurnRecord] = {}
        rows = self._connection.execute("SELECT begun_at, record FROM turn_records ORDER BY number")
        for begun_at, written in rows:
            self._bytes += len(written)
            task, context, principal, tenant, key, same, first, last, whole, answer = json.loads(written)
            found[task, first] = TurnRecord(
                task,
                context,
                principal,
                tenant,
                tuple(key),
                same,
                first,
                last,
                whole or {"id": task, "contextId": context},
                answer,
                times.parse_time(begun_at),
            )
        yield from sorted(found.values(), key=lambda record: (record.begun_at, record.first))

    # Outcomes of leased messages, until the platform knows them

    def keep(self, message_id: str, outcome: TurnOutcome) -> None:
        """Keep an outcome that is about to be told."""
        payload = json.dumps(asdict(outcome))
        self._connection.execute("INSERT OR REPLACE INTO outcomes VALUES (?, ?)", (message_id, payload))
        # One whose message never came again is not dropped by anybody.
        oldest = "(SELECT max(rowid) FROM outcomes) - ?"
        self._connection.execute(f"DELETE FROM outcomes WHERE rowid <= {oldest}", (KEPT_OUTCOMES,))  # noqa: S608

    def kept(self, message_id: str) -> TurnOutcome | None:
        """The outcome of a message that had its turn already."""
        query = "SELECT outcome FROM outcomes WHERE message_id = ?"
        row = self._connection.execute(query, (message_id,)).fetchone()
        return None if row is None else TurnOutcome(**json.loads(row[0]))

    def drop(self, message_id: str) -> None:
        """The platform knows."""
        self._connection.execute("DELETE FROM outcomes WHERE message_id = ?", (message_id,))

    def close(self) -> None:
        """Let go of the file."""
        self.commit()
        self._connection.close()

    def _prune(self, now: datetime) -> None:
        oldest = times.format_time(now - timedelta(hours=KEPT_HOURS))
        self._connection.execute("DELETE FROM turn_records WHERE begun_at < ?", (oldest,))
        self._connection.execute(
            "DELETE FROM turn_records WHERE number <= (SELECT max(number) FROM turn_records) - ?",
            (KEPT_COUNT,),
        )
        # To add up a thousand sizes takes milliseconds: only when they may be too many.
        if self._bytes <= KEPT_BYTES:
            return
        # The newest ones that fit; a message may have 16 MiB, and a restart reads all that is kept.
        self._connection.execute(
            "DELETE FROM turn_records WHERE number IN (SELECT number FROM (SELECT number, "
            "sum(length(record)) OVER (ORDER BY number DESC) AS size FROM turn_records) WHERE size > ?)",
            (KEPT_BYTES,),
        )
        kept = self._connection.execute("SELECT coalesce(sum(length(record)), 0) FROM turn_records")
        (self._bytes,) = kept.fetchone()


def _written(record: TurnRecord) -> str:
    """A record as text. Nobody asks again for a task that was answered with a message: its id is enough."""
    whole = record.whole if record.answer is None else None
    head = jsontext.encode(
        [
            record.task_id,
            record.context_id,
            record.principal,
            record.tenant,
            list(record.key),
            record.fingerprint,
            record.first,
            record.last,
            whole,
        ]
    )
    answer = record.answer_json or jsontext.encode(record.answer)
    return b"".join((head[:-1], b",", answer, b"]")).decode()
