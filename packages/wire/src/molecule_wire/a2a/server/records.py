"""What is kept of a turn that is over, so that a later process answers for its task as this one would."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from molecule_wire import JSONObject


@dataclass(frozen=True)
class TurnRecord:
    """A turn and its task as it stood when the turn ended; `key` and `fingerprint` know a redelivery."""

    task_id: str
    context_id: str
    principal: str
    tenant: str
    key: tuple[str, ...]
    fingerprint: str
    first: int
    last: int
    whole: JSONObject
    answer: JSONObject | None
    begun_at: datetime


class TurnStore(Protocol):
    """Keeps records on disk; `save` replaces the record of the same task and `first`."""

    def save(self, record: TurnRecord) -> None:
        """Keep a record; when this returns, a crash does not lose it."""
        ...

    def load(self) -> Iterable[TurnRecord]:
        """All records that are kept, the oldest turn first."""
        ...
