"""Sealed values, as the store keeps them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True)
class SealedSecret:
    """A row of `secrets`. `workspace_id` is empty for a secret of the whole organisation."""

    org_id: str
    workspace_id: str
    key: str
    nonce: bytes
    ciphertext: bytes
    key_id: str
    created_at: datetime
    updated_at: datetime


class Secrets(Protocol):
    """Verbs on secrets; no verb here ever sees a value in the clear."""

    def put(self, secret: SealedSecret) -> None:
        """Keep a value, over an older one of the same key."""
        ...

    def delete(self, org_id: str, workspace_id: str, key: str) -> bool:
        """Forget a value; False when there was none."""
        ...

    def all_of(self, org_id: str, workspace_id: str) -> list[SealedSecret]:
        """The secrets of exactly that scope, by key."""
        ...
