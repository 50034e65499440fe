"""Turns that are over, in SQLite: what an agent answered is known after a restart."""

import json
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

_SCHEMA = """
CREATE TABLE IF NOT EXISTS turns (
    task_id TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, context_id TEXT NOT NULL,
    principal TEXT NOT NULL, tenant TEXT NOT NULL, key TEXT NOT NULL, fingerprint TEXT NOT NULL,
    whole TEXT NOT NULL, answer TEXT, begun_at TEXT NOT NULL,
    PRIMARY KEY (task_id, first)
) STRICT;
CREATE INDEX IF NOT EXISTS turns_begun ON turns (begun_at);
CREATE TABLE IF NOT EXISTS outcomes (message_id TEXT PRIMARY KEY, outcome TEXT NOT NULL) STRICT;
"""
_SIZE = "sum(length(whole) + coalesce(length(answer), 0))"
_COLUMNS = "task_id, first, last, context_id, principal, tenant, key, fingerprint, whole, answer, begun_at"


class TaskStore:
    """See `TurnStore`. A file that cannot be read is put aside: the boot goes on without it."""

    def __init__(self, path: Path) -> None:
        self._path = path
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

    def save(self, record: TurnRecord) -> None:
        """See `TurnStore`: a crash of this process loses nothing, one of the machine perhaps the last."""
        whole = jsontext.encode(record.whole).decode()
        answer = None if record.answer is None else jsontext.encode(record.answer).decode()
        self._connection.execute(
            f"INSERT OR REPLACE INTO turns ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
            (
                record.task_id,
                record.first,
                record.last,
                record.context_id,
                record.principal,
                record.tenant,
                jsontext.encode(list(record.key)).decode(),
                record.fingerprint,
                whole,
                answer,
                times.format_time(record.begun_at),
            ),
        )
        self._saved += 1
        self._bytes += len(whole) + len(answer or "")
        if self._saved % PRUNE_EVERY == 0 or self._bytes > KEPT_BYTES:
            self._prune(record.begun_at)

    def load(self) -> Iterator[TurnRecord]:
        """See `TurnStore`."""
        rows = self._connection.execute(f"SELECT {_COLUMNS} FROM turns ORDER BY begun_at, first")  # noqa: S608
        for row in rows.fetchall():
            task_id, first, last, context_id, principal, tenant, key, fingerprint, whole, answer, at = row
            self._bytes += len(whole) + len(answer or "")
            yield TurnRecord(
                task_id,
                context_id,
                principal,
                tenant,
                tuple(jsontext.decode(key.encode())),  # type: ignore[arg-type]
                fingerprint,
                first,
                last,
                jsontext.decode(whole.encode()),  # type: ignore[arg-type]
                None if answer is None else jsontext.decode(answer.encode()),  # type: ignore[arg-type]
                times.parse_time(at),
            )

    # Outcomes of leased messages, until the platform knows them

    def keep(self, message_id: str, outcome: TurnOutcome) -> None:
        """Keep an outcome that is about to be told."""
        told = json.dumps(asdict(outcome))
        self._connection.execute("INSERT OR REPLACE INTO outcomes VALUES (?, ?)", (message_id, told))
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
        self._connection.close()

    def _prune(self, now: datetime) -> None:
        oldest = times.format_time(now - timedelta(hours=KEPT_HOURS))
        self._connection.execute("DELETE FROM turns WHERE begun_at < ?", (oldest,))
        self._connection.execute(
            "DELETE FROM turns WHERE rowid IN "
            "(SELECT rowid FROM turns ORDER BY begun_at DESC LIMIT -1 OFFSET ?)",
            (KEPT_COUNT,),
        )
        # To add up a thousand sizes takes milliseconds: only when they may be too many.
        if self._bytes <= KEPT_BYTES:
            return
        # The newest ones that fit; a message may have 16 MiB, and a restart reads all that is kept.
        self._connection.execute(
            f"DELETE FROM turns WHERE rowid IN (SELECT rowid FROM (SELECT rowid, {_SIZE} "  # noqa: S608
            "OVER (ORDER BY begun_at DESC, rowid DESC) AS size FROM turns) WHERE size > ?)",
            (KEPT_BYTES,),
        )
        kept = self._connection.execute(f"SELECT coalesce({_SIZE}, 0) FROM turns")  # noqa: S608
        (self._bytes,) = kept.fetchone()
