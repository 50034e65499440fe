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


@dataclass(frozen=True)
class SealedLine:
    """What a workspace's row keeps sealed: the secret that the platform shows to its agent."""

    workspace_id: str
    org_id: str
    line: str


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

    def get(self, org_id: str, workspace_id: str, key: str) -> SealedSecret | None:
        """One secret of exactly that scope."""
        ...

    def owe_restarts(self, org_id: str, key: str, reason: str) -> int:
        """Owe a restart to each process of ours that was started with the organisation's value; how many."""
        ...

    def page(self, after: SealedSecret | None, limit: int) -> list[SealedSecret]:
        """Secrets of every organisation in the order of their keys, after one of them."""
        ...

    def lines(self, after: str, limit: int) -> list[SealedLine]:
        """Sealed lines of workspaces in the order of their ids, after one of them."""
        ...

    def put_line(self, line: SealedLine) -> None:
        """Write a sealed line over the one before it, as a new version of the workspace."""
        ...

    def key_ids(self) -> frozenset[str]:
        """The ids of all keys that something is sealed with."""
        ...
