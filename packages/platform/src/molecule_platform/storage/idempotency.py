"""Idempotency keys in SQL."""

from dataclasses import asdict
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, delete, insert, select, update

from molecule_platform.ports.idempotency import IdempotentRequest
from molecule_platform.storage.tables import idempotency


class SqlAttempts:
    """See `ports.repeats.Attempts`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, scope: str, key: str, now: datetime) -> IdempotentRequest | None:
        """The attempt under that key."""
        living = idempotency.c.expires_at > now
        wanted = select(idempotency).where(_named(scope, key), living)
        row = self._connection.execute(wanted).mappings().first()
        return None if row is None else IdempotentRequest(**row)

    def begin(self, attempt: IdempotentRequest) -> None:
        """Keep a new attempt."""
        self.forget(attempt.scope, attempt.key)
        self._connection.execute(insert(idempotency).values(asdict(attempt)))

    def finish(self, scope: str, key: str, status: int, answer_sealed: str, expires_at: datetime) -> None:
        """Remember how it ended."""
        ended = update(idempotency).where(_named(scope, key))
        self._connection.execute(
            ended.values(status=status, answer_sealed=answer_sealed, expires_at=expires_at)
        )

    def abandon(self, scope: str, key: str) -> None:
        """No replica works on it any longer."""
        self._connection.execute(update(idempotency).where(_named(scope, key)).values(replica=""))

    def forget(self, scope: str, key: str) -> None:
        """The key is free again."""
        self._connection.execute(delete(idempotency).where(_named(scope, key)))


def _named(scope: str, key: str) -> ColumnElement[bool]:
    return (idempotency.c.scope == scope) & (idempotency.c.key == key)
