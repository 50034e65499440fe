"""Secrets: sealed on write, opened only for their own workspace."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from molecule_platform.domain.refusals import Refusal
from molecule_platform.domain.workspaces import Workspace, invalid
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.secrets import SealedSecret
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services import journal
from molecule_wire import times

KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
VALUE_MOST_BYTES = 64 * 1024


@dataclass(frozen=True)
class Sealing:
    """How values are sealed and opened; the keys themselves are elsewhere.

    `seal(plaintext, bound_to)` gives nonce, ciphertext and key id; `open` undoes it and raises `ValueError`
    when it cannot.
    """

    seal: Callable[[bytes, str], tuple[bytes, bytes, str]]
    open: Callable[[bytes, bytes, str, str], bytes]

    def secret(self, org_id: str, workspace_id: str, key: str, value: str, now: datetime) -> SealedSecret:
        """A value, sealed for its place."""
        check_secret(key, value)
        nonce, ciphertext, key_id = self.seal(value.encode(), bound_to(org_id, workspace_id, key))
        return SealedSecret(org_id, workspace_id, key, nonce, ciphertext, key_id, now, now)

    def value(self, secret: SealedSecret) -> str:
        """The value of a sealed secret."""
        place = bound_to(secret.org_id, secret.workspace_id, secret.key)
        return self.open(secret.nonce, secret.ciphertext, secret.key_id, place).decode()


class SecretService:
    """Keeps the secrets of workspaces and of their organisation, which they inherit."""

    def __init__(self, storage: Storage, clock: Clock, sealing: Sealing) -> None:
        self._storage = storage
        self._clock = clock
        self._sealing = sealing

    async def put(self, org_id: str, workspace: Workspace | None, key: str, value: str) -> None:
        """Keep a value for a workspace, or for the whole organisation."""
        now = self._clock.now()
        secret = self._sealing.secret(org_id, workspace.id if workspace else "", key, value, now)

        def work(tx: Transaction) -> None:
            tx.secrets.put(secret)
            if workspace is not None:
                journal.note(tx, "SECRET_CHANGED", workspace, now, key=key, scope="workspace")

        await self._storage.write(work)

    async def delete(self, org_id: str, workspace: Workspace | None, key: str) -> None:
        """Forget a value."""
        now = self._clock.now()

        def work(tx: Transaction) -> None:
            if not tx.secrets.delete(org_id, workspace.id if workspace else "", key):
                raise Refusal("not-found", f"there is no secret {key[:128]} here")
            if workspace is not None:
                journal.note(tx, "SECRET_CHANGED", workspace, now, key=key, scope="workspace")

        await self._storage.write(work)

    async def listing(self, org_id: str, workspace: Workspace | None) -> list[dict[str, Any]]:
        """The keys that hold a value, never the values; a workspace's own shadow the organisation's."""
        found = await self._storage.read(lambda tx: merged(tx, org_id, workspace))
        return [_row(secret) for secret in found]

    async def values(self, workspace: Workspace) -> dict[str, str]:
        """Every value a workspace may know: all of them, or none and which ones cannot be opened."""
        found = await self._storage.read(lambda tx: merged(tx, workspace.org_id, workspace))
        opened: dict[str, str] = {}
        failed: list[Any] = []
        for secret in found:
            try:
                opened[secret.key] = self._sealing.value(secret)
            except ValueError:
                failed.append(f"{'workspace' if secret.workspace_id else 'global'}:{secret.key}")
        if failed:
            raise Refusal(
                "internal", "some secrets cannot be opened with the key of this platform", failed_keys=failed
            )
        return opened


def merged(tx: Transaction, org_id: str, workspace: Workspace | None) -> list[SealedSecret]:
    """The organisation's secrets, with a workspace's own over them, by key."""
    found = {secret.key: secret for secret in tx.secrets.all_of(org_id, "")}
    if workspace is not None:
        found |= {secret.key: secret for secret in tx.secrets.all_of(org_id, workspace.id)}
    return [found[key] for key in sorted(found)]


def check_secret(key: str, value: str) -> None:
    """The rules of keys and values; a refusal never repeats the value."""
    if not KEY.fullmatch(key):
        raise invalid("key", "key begins with a letter or _ and has at most 128 letters, digits and _")
    if len(value.encode()) > VALUE_MOST_BYTES:
        raise invalid("value", f"value is larger than {VALUE_MOST_BYTES} bytes")


def bound_to(org_id: str, workspace_id: str, key: str) -> str:
    """The place a sealed value cannot be moved away from."""
    return f"{org_id}|{workspace_id}|{key}"


def _row(secret: SealedSecret) -> dict[str, Any]:
    return {
        "key": secret.key,
        "has_value": True,
        "scope": "workspace" if secret.workspace_id else "global",
        "created_at": times.format_time(secret.created_at),
        "updated_at": times.format_time(secret.updated_at),
    }
