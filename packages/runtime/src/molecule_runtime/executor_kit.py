"""The executor kit for authors of adapters."""

from molecule_runtime.domain.turns import (
    Attachment,
    Caller,
    Delegation,
    HistoryItem,
    TurnError,
    TurnResult,
    Usage,
)
from molecule_runtime.kit.turns.a2a_sdk_executor import GuardedExecutor
from molecule_runtime.kit.turns.executor import Turn, TurnExecutor
from molecule_runtime.kit.turns.processes import spawn
from molecule_runtime.kit.turns.sink import Sink

__all__ = [
    "Attachment",
    "Caller",
    "Delegation",
    "GuardedExecutor",
    "HistoryItem",
    "Sink",
    "Turn",
    "TurnError",
    "TurnExecutor",
    "TurnResult",
    "Usage",
    "spawn",
]
