"""Run store in a SQLite file: WAL, one connection, artifacts on disk beside it.

SQLite needs microseconds for these statements; handing them to another thread would cost more. Only the
bytes of large artifacts are written elsewhere. A killed process loses nothing that was committed; a machine
that loses power may lose the last few transactions (`synchronous=NORMAL`), never the file.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from molecule_skill.errors import StateConflict
from molecule_skill.store import sqlite_rows as rows
from molecule_skill.store.artifact_files import ArtifactFiles
from molecule_skill.store.owners import OwnerLock
from molecule_skill.store.protocol import StoreUnavailable
from molecule_skill.store.records import (
    FINAL,
    ArtifactRecord,
    JournalEntry,
    NewEvent,
    NewRun,
    RequestRecord,
    RequestState,
    RunFailure,
    RunRecord,
    RunState,
    StoredEvent,
)
from molecule_skill.store.rules import closing, same_body
from molecule_skill.store.sqlite_file import OPEN, SqliteFile
from molecule_wire import JSON, JSONObject

IN_THREAD_BYTES = 256 * 1024


class SqliteRunStore(SqliteFile):
    """See `RunStore`."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self._files = ArtifactFiles(self._path.parent / "artifacts")
        self._lock = OwnerLock(self._path.with_name(f"{self._path.name}.owners"))

    # Runs

    async def open_run(self, new: NewRun) -> tuple[RunRecord, bool]:
        """See `RunStore`."""
        with self._transaction() as sql:
            if new.idempotency_key is not None:
                found = self._run_of_key(new.agent, new.principal, new.idempotency_key)
                if found is not None:
                    return same_body(found, new), False
            sql.execute(rows.INSERT_RUN, rows.run_values(new, self._lock.owner))
        return RunRecord(new, RunState.QUEUED, 1, 1, 0, new.created_at), True

    async def run(self, run_id: str) -> RunRecord | None:
        """See `RunStore`."""
        row = self._one(f"SELECT {rows.RUN_COLUMNS} FROM runs WHERE run_id = ?", run_id)  # noqa: S608
        return None if row is None else rows.run_of(row)

    async def run_of_key(self, agent: str, principal: str, key: str) -> RunRecord | None:
        """See `RunStore`."""
        return self._run_of_key(agent, principal, key)

    def _run_of_key(self, agent: str, principal: str, key: str) -> RunRecord | None:
        where = "agent = ? AND principal = ? AND idempotency_key = ?"
        row = self._one(f"SELECT {rows.RUN_COLUMNS} FROM runs WHERE {where}", agent, principal, key)  # noqa: S608
        return None if row is None else rows.run_of(row)

    async def runs_of(
        self, agent: str, principal: str | None, *, limit: int = 50, before: str | None = None
    ) -> list[RunRecord]:
        """See `RunStore`."""
        query = f"SELECT {rows.RUN_COLUMNS} FROM runs WHERE agent = ?"  # noqa: S608
        values: list[Any] = [agent]
        if principal is not None:
            query += " AND principal = ?"
            values.append(principal)
        if before is not None:
            query += " AND id < (SELECT id FROM runs WHERE run_id = ?)"
            values.append(before)
        found = self._all(f"{query} ORDER BY id DESC LIMIT ?", *values, limit)
        return [rows.run_of(row) for row in found]

    async def claim_abandoned(self, agent: str) -> list[RunRecord]:
        """See `RunStore`."""
        owners = self._all(f"SELECT DISTINCT owner FROM runs WHERE agent = ? AND {OPEN}", agent)  # noqa: S608
        gone = [owner for (owner,) in owners if self._lock.is_gone(owner)]
        take = (
            "UPDATE runs SET owner = ?, fence = fence + 1, updated_at = updated_at"  # noqa: S608
            f" WHERE agent = ? AND owner = ? AND {OPEN} RETURNING id, {rows.RUN_COLUMNS}"
        )
        taken: list[tuple[Any, ...]] = []
        with self._transaction() as sql:
            for owner in gone:
                taken += sql.execute(take, (self._lock.owner, agent, owner)).fetchall()
        return [rows.run_of(row[1:]) for row in sorted(taken)]

    async def set_state(
        self,
        run_id: str,
        fence: int,
        state: RunState,
        *,
        attempt: int | None = None,
        events: Sequence[NewEvent] = (),
    ) -> list[StoredEvent]:
        """See `RunStore`."""
        sets = ", state = ?, attempt = coalesce(?, attempt)"
        with self._transaction():
            return self._advance(run_id, fence, events, sets, (state.value, attempt))

    async def finish(
        self,
        run_id: str,
        fence: int,
        state: RunState,
        *,
        result: JSON = None,
        failure: RunFailure | None = None,
        events: Sequence[NewEvent] = (),
        at: float,
    ) -> list[StoredEvent]:
        """See `RunStore`."""
        assert state in FINAL
        with self._transaction() as sql:
            closed = sql.execute(
                "UPDATE requests SET state = 'cancelled', answered_at = ?"
                " WHERE run_id = ? AND state = 'pending' RETURNING id",
                (at, run_id),
            ).fetchall()
            all_events = [*(closing(id, "cancelled", None, at) for (id,) in closed), *events]
            told = None if failure is None else rows.text_of(asdict(failure))
            sets = ", state = ?, result = ?, failure = ?"
            values = (state.value, rows.optional_text(result), told)
            return self._advance(run_id, fence, all_events, sets, values, at)

    # Events

    async def append_events(self, run_id: str, fence: int, events: Sequence[NewEvent]) -> list[StoredEvent]:
        """See `RunStore`."""
        with self._transaction():
            return self._advance(run_id, fence, events)

    async def events(self, run_id: str, *, after: int = 0, limit: int = 1000) -> list[StoredEvent]:
        """See `RunStore`."""
        query = "SELECT seq, kind, payload, at FROM events WHERE run_id = ? AND seq > ? ORDER BY seq LIMIT ?"
        found = self._all(query, run_id, after, limit)
        return [StoredEvent(seq, kind, rows.object_of(payload), at) for seq, kind, payload, at in found]

    async def emitted(self, run_id: str, attempt: int) -> int:
        """See `RunStore`."""
        query = "SELECT coalesce(max(ordinal), 0) FROM events WHERE run_id = ? AND attempt = ?"
        row = self._one(query, run_id, attempt)
        return 0 if row is None else row[0]

    # Interactions

    async def open_request(self, request: RequestRecord, fence: int, event: NewEvent) -> list[StoredEvent]:
        """See `RunStore`."""
        places = ", ".join("?" * len(rows.REQUEST_COLUMNS.split(", ")))
        insert = f"INSERT INTO requests ({rows.REQUEST_COLUMNS}) VALUES ({places})"  # noqa: S608
        with self._transaction() as sql:
            told = self._advance(request.run_id, fence, [event], ", state = 'waiting'")
            sql.execute(insert, rows.request_values(request))
            return told

    async def close_request(
        self, request_id: str, state: RequestState, *, answer: JSON, answered_by: str | None, at: float
    ) -> RequestRecord | None:
        """See `RunStore`."""
        with self._transaction() as sql:
            changed = sql.execute(
                "UPDATE requests SET state = ?, answer_json = ?, answered_by = ?, answered_at = ?"
                " WHERE id = ? AND state = 'pending' RETURNING run_id",
                (state.value, rows.optional_text(answer), answered_by, at, request_id),
            ).fetchone()
            if changed is not None:
                self._advance(changed[0], None, [closing(request_id, state.value, answered_by, at)])
        return await self.request(request_id)

    async def request(self, request_id: str) -> RequestRecord | None:
        """See `RunStore`."""
        row = self._one(f"SELECT {rows.REQUEST_COLUMNS} FROM requests WHERE id = ?", request_id)  # noqa: S608
        return None if row is None else rows.request_of(row)

    async def requests(self, run_id: str) -> list[RequestRecord]:
        """See `RunStore`."""
        query = f"SELECT {rows.REQUEST_COLUMNS} FROM requests WHERE run_id = ? ORDER BY created_at, ordinal"  # noqa: S608
        return [rows.request_of(row) for row in self._all(query, run_id)]

    async def pending_requests(self, agent: str) -> list[str]:
        """See `RunStore`."""
        query = (
            "SELECT requests.id FROM requests JOIN runs USING (run_id) WHERE requests.state = 'pending'"
            " AND runs.agent = ?"
        )
        return [id for (id,) in self._all(query, agent)]

    # Journal

    async def journal(self, run_id: str) -> list[JournalEntry]:
        """See `RunStore`."""
        query = f"SELECT {rows.JOURNAL_COLUMNS} FROM journal WHERE run_id = ? ORDER BY ordinal"  # noqa: S608
        return [rows.entry_of(row) for row in self._all(query, run_id)]

    async def put_journal(self, run_id: str, fence: int, entry: JournalEntry) -> None:
        """See `RunStore`."""
        values = (
            run_id,
            entry.ordinal,
            entry.kind,
            entry.key,
            entry.fingerprint,
            entry.state,
            entry.attempt,
            entry.runs,
            rows.optional_text(entry.value),
        )
        with self._transaction() as sql:
            self._check_fence(run_id, fence)
            insert = f"INSERT OR REPLACE INTO journal (run_id, {rows.JOURNAL_COLUMNS})"
            sql.execute(f"{insert} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)

    # Artifacts

    async def put_artifact(
        self, run_id: str, fence: int, name: str, data: bytes, mime_type: str, attempt: int
    ) -> ArtifactRecord:
        """See `RunStore`."""
        try:
            is_large = len(data) > IN_THREAD_BYTES
            digest = await asyncio.to_thread(self._files.put, data) if is_large else self._files.put(data)
        except OSError as problem:
            raise StoreUnavailable(f"the artifact cannot be kept: {problem}") from problem
        with self._transaction() as sql:
            self._check_fence(run_id, fence)
            sql.execute(
                "INSERT INTO artifacts (run_id, name, mime_type, size_bytes, sha256, attempt)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (run_id, name, mime_type, len(data), digest, attempt),
            )
        return ArtifactRecord(name, mime_type, len(data), digest, attempt)

    async def artifacts(self, run_id: str, attempt: int) -> list[ArtifactRecord]:
        """See `RunStore`."""
        query = (
            "SELECT name, mime_type, size_bytes, sha256, attempt FROM artifacts WHERE version IN"
            " (SELECT max(version) FROM artifacts WHERE run_id = ? AND attempt = ? GROUP BY name)"
            " ORDER BY name"
        )
        return [ArtifactRecord(*row) for row in self._all(query, run_id, attempt)]

    async def artifact(self, run_id: str, name: str) -> ArtifactRecord | None:
        """See `RunStore`."""
        row = self._one(
            "SELECT name, mime_type, size_bytes, sha256, attempt FROM artifacts WHERE run_id = ? AND name = ?"
            " ORDER BY version DESC LIMIT 1",
            run_id,
            name,
        )
        return None if row is None else ArtifactRecord(*row)

    async def read_artifact(self, sha256: str, *, start: int = 0, length: int | None = None) -> bytes:
        """See `RunStore`."""
        try:
            if length is not None and length <= IN_THREAD_BYTES:
                return self._files.read(sha256, start, length)
            return await asyncio.to_thread(self._files.read, sha256, start, length)
        except OSError as problem:
            raise StoreUnavailable(f"the artifact cannot be read: {problem}") from problem

    # State

    async def load_state(self, scope: str) -> tuple[JSONObject, int] | None:
        """See `RunStore`."""
        row = self._one("SELECT value, version FROM agent_state WHERE scope = ?", scope)
        return None if row is None else (rows.object_of(row[0]), row[1])

    async def save_state(self, scope: str, value: JSONObject, version: int) -> int:
        """See `RunStore`."""
        text = rows.text_of(value)
        with self._transaction() as sql:
            if version:
                update = (
                    "UPDATE agent_state SET value = ?, version = version + 1 WHERE scope = ? AND version = ?"
                )
                changed = sql.execute(update, (text, scope, version))
            else:
                changed = sql.execute("INSERT OR IGNORE INTO agent_state VALUES (?, ?, 1)", (scope, text))
            if not changed.rowcount:
                raise StateConflict("the state was saved by another run since it was loaded; load it again")
        return version + 1

    # Upkeep

    async def prune(self, before: float) -> int:
        """See `RunStore`."""
        with self._transaction() as sql:
            old = f"SELECT run_id FROM runs WHERE NOT {OPEN} AND updated_at < ? LIMIT 1000"  # noqa: S608
            ids = sql.execute(old, (before,)).fetchall()
            digests: set[str] = set()
            for one in ids:
                digests |= {d for (d,) in sql.execute("SELECT sha256 FROM artifacts WHERE run_id = ?", one)}
                for table in ("events", "requests", "journal", "artifacts", "runs"):
                    sql.execute(f"DELETE FROM {table} WHERE run_id = ?", one)  # noqa: S608
            used = "SELECT 1 FROM artifacts WHERE sha256 = ?"
            unused = [digest for digest in digests if sql.execute(used, (digest,)).fetchone() is None]
        for digest in unused:
            self._files.remove(digest)
        return len(ids)

    async def close(self) -> None:
        """See `RunStore`."""
        self._connection.close()
        self._lock.release()
