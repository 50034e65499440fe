"""What is kept of a turn that is over, so that a later process answers for its task as this one would."""

from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

from molecule_wire import JSONObject
from molecule_wire.values import value


@value
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
    answer_json: bytes | None = None
    """The answer as text, if somebody has written it already."""


class TurnStore(Protocol):
    """Keeps records on disk; `save` replaces the record of the same task and `first`.

    What was saved is shown to nobody before `commit`, so turns that end together share one. Neither raises:
    a turn has its outcome, also where it cannot be kept.
    """

    def save(self, record: TurnRecord) -> None:
        """Keep a record."""
        ...

    @property
    def is_committed(self) -> bool:
        """Whether a crash would lose nothing that was saved."""
        ...

    def commit(self) -> None:
        """Make what was saved durable."""
        ...

    def load(self) -> Iterable[TurnRecord]:
        """All records that are kept, the oldest turn first."""
        ...
