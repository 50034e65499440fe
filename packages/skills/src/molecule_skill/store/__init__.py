"""Run store: runs with their events, interactions, journal and artifacts, safe against `kill -9`."""

from importlib import import_module
from typing import TYPE_CHECKING

from molecule_skill.store.protocol import RunStore, StoreIncompatible, StoreUnavailable
from molecule_skill.store.records import (
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

if TYPE_CHECKING:
    from molecule_skill.store.memory import MemoryRunStore
    from molecule_skill.store.sqlite import SqliteRunStore

__all__ = [
    "ArtifactRecord",
    "JournalEntry",
    "MemoryRunStore",
    "NewEvent",
    "NewRun",
    "RequestRecord",
    "RequestState",
    "RunFailure",
    "RunRecord",
    "RunState",
    "RunStore",
    "SqliteRunStore",
    "StateChange",
    "StoreIncompatible",
    "StoreUnavailable",
    "StoredEvent",
]

_ON_FIRST_USE = {
    "MemoryRunStore": "molecule_skill.store.memory",
    "SqliteRunStore": "molecule_skill.store.sqlite",
}


def __getattr__(name: str) -> object:
    if name not in _ON_FIRST_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_ON_FIRST_USE[name]), name)
