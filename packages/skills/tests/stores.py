"""The run stores that the shared suite runs on, and how the process of each is killed."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from molecule_skill.store import MemoryRunStore, NewRun, RunStore, SqliteRunStore


@dataclass
class StoreUnderTest:
    """A store, and the store of the process after it."""

    store: Any
    kill: Callable[[Any], Any]


def make(kind: str, folder: Path) -> StoreUnderTest:
    if kind == "memory":
        return StoreUnderTest(MemoryRunStore(), lambda store: store.successor())
    path = folder / "state" / "runs.db"

    def killed(store: SqliteRunStore) -> SqliteRunStore:
        # What the system does for a process that is killed: its files are closed, nothing is said.
        store._connection.close()
        store._lock.release()
        return SqliteRunStore(path)

    return StoreUnderTest(SqliteRunStore(path), killed)


def new_run(run_id: str = "run_1", **fields: Any) -> NewRun:
    values: dict[str, Any] = {
        "run_id": run_id,
        "agent": "agent",
        "skill": "skill",
        "principal": "user:ada",
        "arguments": {"n": [1, "ö", None]},
        "created_at": 100.0,
    }
    return NewRun(**(values | fields))


def is_store(store: RunStore) -> RunStore:
    """For the type checker: both kinds keep the protocol."""
    return store


is_store(MemoryRunStore())
