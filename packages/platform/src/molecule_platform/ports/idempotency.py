"""Idempotency keys, as the store keeps them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True)
class IdempotentRequest:
    """The first request under a key. `status` is None while nobody knows how it ended."""

    scope: str
    key: str
    body_hash: str
    replica: str
    created_at: datetime
    expires_at: datetime
    status: int | None = None
    answer_sealed: str | None = None


class IdempotencyKeys(Protocol):
    """Verbs on attempts."""

    def get(self, scope: str, key: str, now: datetime) -> IdempotentRequest | None:
        """The attempt under that key, unless it has expired."""
        ...

    def begin(self, attempt: IdempotentRequest) -> None:
        """Keep a new attempt, over an expired one of the same key."""
        ...

    def finish(self, scope: str, key: str, status: int, answer_sealed: str, expires_at: datetime) -> None:
        """Remember how it ended, until then."""
        ...

    def abandon(self, scope: str, key: str) -> None:
        """No replica works on it any longer, and nobody knows how it ended."""
        ...

    def forget(self, scope: str, key: str) -> None:
        """Nothing came of it: the key is free again."""
        ...
