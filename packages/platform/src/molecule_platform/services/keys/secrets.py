"""Secrets: sealed on write, opened only for their own workspace, and each look at a value is written down."""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.events import Event
from molecule_platform.domain.workspaces import Workspace, check_text, invalid
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.secrets import SealedSecret
from molecule_platform.ports.storage import Storage, StorageDown, Transaction
from molecule_platform.services.support import audit_log, signals
from molecule_platform.services.support.audit_log import AuditActor
from molecule_wire import times

KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
MAX_VALUE_BYTES = 64 * 1024
MODEL_KEY = "MODEL_PROVIDER"
MAX_MODEL_LENGTH = 200


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


class AgentRestarts(Protocol):
    """Restarts of agents whose environment has changed."""

    def because(self, tx: Transaction, workspace_id: str, reason: str) -> None:
        """Restart an agent that the platform runs, unless it is paused."""
        ...

    async def begin_owed(self) -> bool:
        """Begin restarts that are owed. Return True if there may be more."""
        ...


class SecretService:
    """Keeps the secrets of workspaces and of their organisation, which they inherit.

    Together with a new value is kept that whoever runs with the one before it is to restart.
    """

    def __init__(self, storage: Storage, clock: Clock, sealing: Sealing, restarts: AgentRestarts) -> None:
        self._storage = storage
        self._clock = clock
        self._sealing = sealing
        self._restarts = restarts

    async def put(
        self, by: AuditActor, org_id: str, workspace: Workspace | None, key: str, value: str
    ) -> bool:
        """Keep a value for a workspace, or for the whole organisation. True when a process must restart."""
        now = self._clock.now()

        def work(tx: Transaction) -> bool:
            # Sealed here, where a rotation of the key comes before or after, never in between.
            tx.secrets.put(self._sealing.secret(org_id, _id(workspace), key, value, now))
            _note(tx, by, "secret.write", org_id, workspace, key, now)
            return self._make_stale(tx, org_id, workspace, key, f"the secret {key} changed")

        return await self._change(work)

    async def delete(self, by: AuditActor, org_id: str, workspace: Workspace | None, key: str) -> None:
        """Forget a value."""
        now = self._clock.now()

        def work(tx: Transaction) -> bool:
            if not tx.secrets.delete(org_id, _id(workspace), key):
                raise ApiError("not-found", f"there is no secret {key[:128]} here")
            _note(tx, by, "secret.delete", org_id, workspace, key, now)
            return self._make_stale(tx, org_id, workspace, key, f"the secret {key} was deleted")

        await self._change(work)

    def _make_stale(
        self, tx: Transaction, org_id: str, workspace: Workspace | None, key: str, reason: str
    ) -> bool:
        """Let those restart that run with an older value; whether there are any."""
        if workspace is None:
            return tx.secrets.owe_restarts(org_id, key, reason) > 0
        self._restarts.because(tx, workspace.id, reason)
        return not workspace.external

    async def _change(self, work: Callable[[Transaction], bool]) -> bool:
        needs_restart = await self._storage.write(work)
        if needs_restart:
            # It is kept, and begins by itself soon, should the store be away now.
            with suppress(StorageDown):
                await self._restarts.begin_owed()
        return needs_restart

    async def listing(self, org_id: str, workspace: Workspace | None) -> list[dict[str, Any]]:
        """The keys that hold a value, never the values; a workspace's own shadow the organisation's."""
        found = await self._storage.read(lambda tx: merged(tx, org_id, workspace))
        return [_row(secret) for secret in found]

    async def values(self, by: AuditActor, workspace: Workspace) -> dict[str, str]:
        """Every value a workspace may know: all of them, or none and which ones cannot be opened."""
        now = self._clock.now()

        def work(tx: Transaction) -> list[SealedSecret]:
            audit_log.note(
                tx, workspace.org_id, by, "secret.read", place_of(workspace.org_id, workspace, "*"), now
            )
            return merged(tx, workspace.org_id, workspace)

        return self._opened(await self._storage.write(work))

    def _opened(self, found: list[SealedSecret]) -> dict[str, str]:
        opened: dict[str, str] = {}
        failed: list[Any] = []
        for secret in found:
            try:
                opened[secret.key] = self._sealing.value(secret)
            except ValueError:
                failed.append(named(secret))
        if failed:
            raise ApiError(
                "internal", "some secrets cannot be opened with the key of this platform", failed_keys=failed
            )
        return opened

    async def model(self, by: AuditActor, workspace: Workspace) -> str | None:
        """The model that was chosen for a workspace; None when it takes the default."""
        now = self._clock.now()

        def work(tx: Transaction) -> list[SealedSecret]:
            found = tx.secrets.get(workspace.org_id, workspace.id, MODEL_KEY)
            if found is None:
                return []
            place = place_of(workspace.org_id, workspace, MODEL_KEY)
            audit_log.note(tx, workspace.org_id, by, "secret.read", place, now)
            return [found]

        return self._opened(await self._storage.write(work)).get(MODEL_KEY)

    async def choose_model(self, by: AuditActor, workspace: Workspace, model: str) -> None:
        """Choose the model of a workspace; an empty one means the default again."""
        if model:
            check_text("model", model, MAX_MODEL_LENGTH)
            await self.put(by, workspace.org_id, workspace, MODEL_KEY, model)
            return
        try:
            await self.delete(by, workspace.org_id, workspace, MODEL_KEY)
        except ApiError as refusal:
            if refusal.code != "not-found":
                raise


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
    if len(value.encode()) > MAX_VALUE_BYTES:
        raise invalid("value", f"value is larger than {MAX_VALUE_BYTES} bytes")


def bound_to(org_id: str, workspace_id: str, key: str) -> str:
    """The place a sealed value cannot be moved away from."""
    return f"{org_id}|{workspace_id}|{key}"


def named(secret: SealedSecret) -> str:
    """What a secret is called where its value may not be shown."""
    return f"{_scope(secret)}:{secret.key}"


def place_of(org_id: str, workspace: Workspace | None, key: str) -> str:
    """What the security log calls a secret."""
    return f"org:{org_id}/{key}" if workspace is None else f"workspace:{workspace.id}/{key}"


def _note(
    tx: Transaction,
    by: AuditActor,
    action: str,
    org_id: str,
    workspace: Workspace | None,
    key: str,
    now: datetime,
) -> None:
    """Write down that a value changed."""
    audit_log.note(tx, org_id, by, action, place_of(org_id, workspace, key), now)
    payload = {"key": key, "scope": "global" if workspace is None else "workspace"}
    # Its keys are no business of a workspace's peers; those of the organisation are everybody's.
    parties = None if workspace is None else (workspace.id,)
    tx.events.append(Event("SECRET_CHANGED", org_id, _id(workspace), payload, now, parties=parties))
    tx.signal(signals.EVENTS)


def _id(workspace: Workspace | None) -> str:
    return "" if workspace is None else workspace.id


def _scope(secret: SealedSecret) -> str:
    return "workspace" if secret.workspace_id else "global"


def _row(secret: SealedSecret) -> dict[str, Any]:
    return {
        "key": secret.key,
        "has_value": True,
        "scope": _scope(secret),
        "created_at": times.format_time(secret.created_at),
        "updated_at": times.format_time(secret.updated_at),
    }
