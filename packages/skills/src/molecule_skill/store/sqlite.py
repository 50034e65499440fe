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
    StateChange,
    StoredEvent,
)
from molecule_skill.store.rules import closing, same_body
from molecule_skill.store.sqlite_file import OPEN, Advance, Connection, SqliteFile, append, check_fence
from molecule_wire import JSON, JSONObject

IN_THREAD_BYTES = 256 * 1024
_OF_RUN = f"SELECT {rows.RUN_COLUMNS} FROM runs WHERE run_id = ?"  # noqa: S608
_PENDING_OF_RUN = "SELECT id FROM requests WHERE run_id = ? AND state = 'pending'"
_append = Advance()
_set_state = Advance(", state = ?, attempt = coalesce(?, attempt)")
_finish = Advance(", state = ?, result = ?, failure = ?")
_wait = Advance(", state = 'waiting'")


class SqliteRunStore(SqliteFile):
    """See `RunStore`."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self._files = ArtifactFiles(self._path.parent / "artifacts")
        self._lock = OwnerLock(self._path.with_name(f"{self._path.name}.owners"))

    # Runs

    async def open_run(self, new: NewRun, started: NewEvent | None = None) -> tuple[RunRecord, bool]:
        """See `RunStore`."""
        state, count = (RunState.QUEUED, 0) if started is None else (RunState.RUNNING, 1)
        values = (*rows.run_values(new, self._lock.owner), state.value, count)

        def insert(sql: Connection) -> tuple[RunRecord, bool]:
            if new.idempotency_key is not None:
                found = self._run_of_key(new.agent, new.principal, new.idempotency_key)
                if found is not None:
                    return same_body(found, new), False
            run = sql.execute(rows.INSERT_RUN, values).lastrowid
            assert run is not None
            if started is not None:
                append(sql, run, 0, (started,))
            return RunRecord(new, state, 1, 1, count, new.created_at), True

        return await self._write(insert)

    async def run(self, run_id: str) -> RunRecord | None:
        """See `RunStore`."""
        row = self._one(_OF_RUN, run_id)
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

        def claim(sql: Connection) -> list[tuple[Any, ...]]:
            return [
                row for one in gone for row in sql.execute(take, (self._lock.owner, agent, one)).fetchall()
            ]

        taken = await self._write(claim) if gone else []
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
        values = (state.value, attempt)
        return await self._write(lambda sql: _set_state(sql, run_id, fence, events, values))

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
        failure_text = None if failure is None else rows.text_of(asdict(failure))
        values = (state.value, rows.optional_text(result), failure_text)

        def finish(sql: Connection) -> list[StoredEvent]:
            pending = sql.execute(_PENDING_OF_RUN, (run_id,)).fetchall()
            if not pending:
                return _finish(sql, run_id, fence, events, values, at)
            failure_text = [*(closing(id, "cancelled", None, at) for (id,) in pending), *events]
            stored = _finish(sql, run_id, fence, failure_text, values, at)
            close = "UPDATE requests SET state = 'cancelled', answered_at = ? WHERE id = ?"
            sql.executemany(close, [(at, id) for (id,) in pending])
            return stored

        return await self._write(finish)

    async def ask_cancel(self, run_id: str) -> None:
        """See `RunStore`."""
        ask = f"UPDATE runs SET cancel_asked = 1 WHERE run_id = ? AND {OPEN}"  # noqa: S608
        await self._write(lambda sql: sql.execute(ask, (run_id,)).rowcount)

    async def cancellations(self, agent: str) -> list[str]:
        """See `RunStore`."""
        query = f"SELECT run_id FROM runs WHERE agent = ? AND owner = ? AND cancel_asked AND {OPEN}"  # noqa: S608
        return [run_id for (run_id,) in self._all(query, agent, self._lock.owner)]

    # Events

    async def append_events(self, run_id: str, fence: int, events: Sequence[NewEvent]) -> list[StoredEvent]:
        """See `RunStore`."""
        return await self._write(lambda sql: _append(sql, run_id, fence, events))

    async def events(self, run_id: str, *, after: int = 0, limit: int = 1000) -> list[StoredEvent]:
        """See `RunStore`."""
        query = (
            "SELECT seq, kind, payload, at FROM events WHERE run = (SELECT id FROM runs WHERE run_id = ?)"
            " AND seq > ? ORDER BY seq LIMIT ?"
        )
        found = self._all(query, run_id, after, limit)
        return [StoredEvent(seq, kind, rows.object_of(payload), at) for seq, kind, payload, at in found]

    async def emitted(self, run_id: str, attempt: int) -> int:
        """See `RunStore`."""
        query = (
            "SELECT coalesce(max(ordinal), 0) FROM events"
            " WHERE run = (SELECT id FROM runs WHERE run_id = ?) AND attempt = ?"
        )
        row = self._one(query, run_id, attempt)
        return 0 if row is None else row[0]

    # Interactions

    async def open_request(self, request: RequestRecord, fence: int, event: NewEvent) -> list[StoredEvent]:
        """See `RunStore`."""
        places = ", ".join("?" * len(rows.REQUEST_COLUMNS.split(", ")))
        insert = f"INSERT INTO requests ({rows.REQUEST_COLUMNS}) VALUES ({places})"  # noqa: S608

        def opened(sql: Connection) -> list[StoredEvent]:
            numbered = _wait(sql, request.run_id, fence, [event])
            sql.execute(insert, rows.request_values(request))
            return numbered

        return await self._write(opened)

    async def close_request(
        self, request_id: str, state: RequestState, *, answer: JSON, answered_by: str | None, at: float
    ) -> RequestRecord | None:
        """See `RunStore`."""
        values = (state.value, rows.optional_text(answer), answered_by, at, request_id)

        def close(sql: Connection) -> None:
            changed = sql.execute(
                "UPDATE requests SET state = ?, answer_json = ?, answered_by = ?, answered_at = ?"
                " WHERE id = ? AND state = 'pending' RETURNING run_id",
                values,
            ).fetchone()
            if changed is not None:
                _append(sql, changed[0], None, [closing(request_id, state.value, answered_by, at)])

        await self._write(close)
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

    async def put_journal(
        self,
        run_id: str,
        fence: int,
        entry: JournalEntry,
        events: Sequence[NewEvent] = (),
        state: StateChange | None = None,
    ) -> list[StoredEvent]:
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
        insert = f"INSERT OR REPLACE INTO journal (run_id, {rows.JOURNAL_COLUMNS})"

        def put(sql: Connection) -> list[StoredEvent]:
            if events:
                stored = _append(sql, run_id, fence, events)
            else:
                check_fence(sql, run_id, fence)
                stored = []
            if state is not None:
                _save(sql, state)
            sql.execute(f"{insert} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
            return stored

        return await self._write(put)

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
        insert = (
            "INSERT INTO artifacts (run_id, name, mime_type, size_bytes, sha256, attempt)"
            " VALUES (?, ?, ?, ?, ?, ?)"
        )
        values = (run_id, name, mime_type, len(data), digest, attempt)

        def put(sql: Connection) -> None:
            check_fence(sql, run_id, fence)
            sql.execute(insert, values)

        await self._write(put)
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

    async def save_state(self, change: StateChange) -> None:
        """See `RunStore`."""
        await self._write(lambda sql: _save(sql, change))

    # Upkeep

    async def prune(self, before: float) -> int:
        """See `RunStore`."""
        # Runs stand in the order in which they began: the first young one ends the search, without an index.
        first_young = "SELECT id FROM runs WHERE created_at >= ? ORDER BY id LIMIT 1"
        query = (
            f"SELECT id, run_id FROM runs WHERE id < coalesce(({first_young}), 9e18)"  # noqa: S608
            f" AND NOT {OPEN} AND updated_at < ? LIMIT 1000"
        )
        old = self._all(query, before, before)

        def delete(sql: Connection) -> list[str]:
            digests: set[str] = set()
            for number, run_id in old:
                found = sql.execute("SELECT sha256 FROM artifacts WHERE run_id = ?", (run_id,))
                digests |= {digest for (digest,) in found}
                sql.execute("DELETE FROM events WHERE run = ?", (number,))
                for table in ("requests", "journal", "artifacts", "runs"):
                    sql.execute(f"DELETE FROM {table} WHERE run_id = ?", (run_id,))  # noqa: S608
            used = "SELECT 1 FROM artifacts WHERE sha256 = ?"
            return [digest for digest in digests if sql.execute(used, (digest,)).fetchone() is None]

        for digest in await self._write(delete) if old else ():
            self._files.remove(digest)
        return len(old)

    async def close(self) -> None:
        """See `RunStore`."""
        self._flush()
        self._connection.close()
        self._lock.release()


def _save(sql: Connection, change: StateChange) -> None:
    text = rows.text_of(change.value)
    if change.version:
        update = "UPDATE agent_state SET value = ?, version = version + 1 WHERE scope = ? AND version = ?"
        changed = sql.execute(update, (text, change.scope, change.version))
    else:
        changed = sql.execute("INSERT OR IGNORE INTO agent_state VALUES (?, ?, 1)", (change.scope, text))
    if not changed.rowcount:
        raise StateConflict("the state was saved by another run since it was loaded; load it again")
