"""A new key: everything sealed is sealed again under it, while the house goes on and whenever it may stop.

The new key is kept before anything is sealed with it, and the key before it stays until the next rotation,
for whatever was on its way when it was replaced. So at every moment each sealed row has its key in the file.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from uuid import uuid4

from molecule_platform.domain import push
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.push import PushConfig
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.keys import Keys
from molecule_platform.ports.secrets import SealedLine, SealedSecret
from molecule_platform.ports.storage import Storage, StorageDown, Transaction
from molecule_platform.services.keys import secrets, signing_keys
from molecule_platform.services.keys.secrets import Sealing
from molecule_platform.services.support import audit_log
from molecule_platform.services.support.audit_log import AuditActor

BATCH = 100
FRESH_SECONDS = 5.0
TURN = timedelta(seconds=60)
GIVEN = (
    "the key comes from SECRETS_ENCRYPTION_KEY, which only you can change: write the present key and a new "
    "one into secrets.key in the data directory of every replica, one on each line, restart the replicas "
    "with the new one as SECRETS_ENCRYPTION_KEY, then rotate again"
)


@dataclass(frozen=True)
class SealedColumn:
    """How the sealed line of a workspace is read and written; `open` raises `ValueError` when it cannot."""

    seal: Callable[[SealedLine, str], str]
    open: Callable[[SealedLine], str]


@dataclass(frozen=True)
class SealedTextColumn:
    """How a text is sealed in its place; `open` raises `ValueError` when it cannot."""

    seal: Callable[[str, str], str]
    open: Callable[[str, str], str]


@dataclass(frozen=True)
class RotationResult:
    """The key in use now, how many rows were sealed again, and which ones no key here can open."""

    key_id: str
    resealed: int
    failed_keys: list[str]


class KeyRotation:
    """Changes the key under everything that is sealed."""

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        keys: Keys,
        sealing: Sealing,
        lines: SealedColumn,
        texts: SealedTextColumn,
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._keys = keys
        self._sealing = sealing
        self._lines = lines
        self._texts = texts

    async def rotate(self, by: AuditActor, org_id: str) -> RotationResult:
        """Make a new key, or take the one that was given from outside, and seal everything with it."""
        mine = str(uuid4())
        await self._storage.write(lambda tx: _hold(tx, mine))
        try:
            return await self._rotate(mine, by, org_id)
        finally:
            with suppress(StorageDown):
                await self._storage.write(lambda tx: tx.loops.release(mine))

    async def _rotate(self, mine: str, by: AuditActor, org_id: str) -> RotationResult:
        before = self._keys.current_id
        await self._take_new_key()
        now, current = self._clock.now(), self._keys.current_id
        await self._storage.write(lambda tx: audit_log.note(tx, org_id, by, "key.rotate", current, now))
        resealed, failed = await self._reseal_secrets(mine)
        more, broken = await self._reseal_lines(mine)
        told, unread = await self._reseal_push_configs(mine)
        more, broken = more + told, broken + unread
        broken += await self._storage.write(lambda tx: self._reseal_signing(tx, mine))
        in_use = await self._storage.write(lambda tx: _keys_in_use(tx, mine))
        unused = self._keys.key_ids - in_use - {before, self._keys.current_id}
        await asyncio.to_thread(self._keys.forget, unused)
        return RotationResult(self._keys.current_id, resealed + more, failed + broken)

    async def _take_new_key(self) -> None:
        if await asyncio.to_thread(self._keys.renew):
            return
        in_use = await self._storage.read(lambda tx: tx.secrets.key_ids())
        if in_use <= {self._keys.current_id}:
            raise ApiError("conflict", GIVEN)

    async def _reseal_secrets(self, mine: str) -> tuple[int, list[str]]:
        resealed, failed = 0, list[str]()
        last: SealedSecret | None = None
        while page := await self._storage.write(lambda tx, after=last: self._reseal_page(tx, mine, after)):
            resealed += sum(done is True for _, done in page)
            failed += [secrets.named(secret) for secret, done in page if done is None]
            last = page[-1][0]
        return resealed, failed

    def _reseal_page(
        self, tx: Transaction, mine: str, last: SealedSecret | None
    ) -> list[tuple[SealedSecret, bool | None]]:
        _hold(tx, mine)
        return [(secret, self._reseal(tx, secret)) for secret in tx.secrets.page(last, BATCH)]

    def _reseal(self, tx: Transaction, old: SealedSecret) -> bool | None:
        """Whether it had to be; None when it cannot be opened."""
        if old.key_id == self._keys.current_id:
            return False
        try:
            value = self._sealing.value(old)
        except ValueError:
            return None
        new = self._sealing.secret(old.org_id, old.workspace_id, old.key, value, old.updated_at)
        tx.secrets.put(replace(new, created_at=old.created_at))
        return True

    async def _reseal_lines(self, mine: str) -> tuple[int, list[str]]:
        resealed, failed, last = 0, list[str](), ""
        while page := await self._storage.write(
            lambda tx, after=last: self._reseal_line_page(tx, mine, after)
        ):
            resealed += sum(done is True for _, done in page)
            failed += [f"dispatch:{line.workspace_id}" for line, done in page if done is None]
            last = page[-1][0].workspace_id
        return resealed, failed

    def _reseal_line_page(
        self, tx: Transaction, mine: str, last: str
    ) -> list[tuple[SealedLine, bool | None]]:
        _hold(tx, mine)
        return [(line, self._reseal_line(tx, line)) for line in tx.secrets.lines(last, BATCH)]

    async def _reseal_push_configs(self, mine: str) -> tuple[int, list[str]]:
        resealed, failed, last = 0, list[str](), ""
        while page := await self._storage.write(
            lambda tx, after=last: self._reseal_push_page(tx, mine, after)
        ):
            resealed += sum(done is True for _, done in page)
            failed += [f"push:{config.id}" for config, done in page if done is None]
            last = page[-1][0].id
        return resealed, failed

    def _reseal_push_page(
        self, tx: Transaction, mine: str, last: str
    ) -> list[tuple[PushConfig, bool | None]]:
        _hold(tx, mine)
        return [(config, self._reseal_push(tx, config)) for config in tx.push_configs.sealed(last, BATCH)]

    def _reseal_push(self, tx: Transaction, config: PushConfig) -> bool | None:
        line, place = config.secret_sealed or "", push.seal_context(config.id)
        if line.startswith(f"{self._keys.current_id}."):
            return False
        try:
            plain = self._texts.open(line, place)
        except ValueError:
            return None
        tx.push_configs.change(config.id, secret_sealed=self._texts.seal(plain, place))
        return True

    def _reseal_signing(self, tx: Transaction, mine: str) -> list[str]:
        """The platform's own keys, which are few; the names of those that cannot be opened."""
        _hold(tx, mine)
        failed: list[str] = []
        for key in tx.signing.all():
            if not key.private_sealed:
                continue
            place = signing_keys.seal_context(key.kid)
            try:
                plain = self._texts.open(key.private_sealed, place)
            except ValueError:
                failed.append(f"signing:{key.kid}")
            else:
                tx.signing.reseal(key.kid, self._texts.seal(plain, place))
        return failed

    def _reseal_line(self, tx: Transaction, old: SealedLine) -> bool | None:
        if old.line.startswith(f"{self._keys.current_id}."):
            return False
        try:
            plain = self._lines.open(old)
        except ValueError:
            return None
        tx.secrets.put_line(replace(old, line=self._lines.seal(old, plain)))
        return True


def _hold(tx: Transaction, mine: str) -> None:
    """Take the turn of rotating, or keep it: two at once could each throw away the key of the other."""
    if tx.loops.claim("rotate-key", mine, TURN) is None:
        raise ApiError("conflict", "the key is being rotated already: wait a minute and look again")


def _keys_in_use(tx: Transaction, mine: str) -> frozenset[str]:
    _hold(tx, mine)
    return tx.secrets.key_ids()


class KeyCheck:
    """Whether every sealed row has its key here; looked at again after some seconds."""

    def __init__(self, storage: Storage, keys: Keys) -> None:
        self._storage = storage
        self._keys = keys
        self._well = True
        self._fresh_until = 0.0

    async def __call__(self) -> bool:
        """True when nothing is sealed with a key that is missing."""
        now = asyncio.get_running_loop().time()
        if now >= self._fresh_until:
            in_use = await self._storage.read(lambda tx: tx.secrets.key_ids())
            self._well = in_use <= self._keys.key_ids
            self._fresh_until = now + FRESH_SECONDS
        return self._well
