"""The private keys that sign now, held in memory: opened once, and again when they were rotated."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from molecule_platform.domain.errors import ApiError
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.log import Log
from molecule_platform.ports.signing import Signer, SigningKey
from molecule_platform.ports.storage import Storage, StorageDown
from molecule_platform.services.keys.signing_keys import ALGORITHMS, HANDOVER
from molecule_platform.services.support.signals import SIGNING, Signals

LOOK_AGAIN_SECONDS = 30.0
LOST = (
    "the platform's own signing key cannot be opened: put back the key that sealed it, or make new ones with "
    "`molecule key rotate`"
)


class ActiveSigners:
    """Gives whoever signs the newest key of an algorithm that everybody can know by now.

    `opened` gives what signs with a key of the store, or raises `ValueError` when its seal does not open.
    """

    def __init__(
        self,
        storage: Storage,
        signals: Signals,
        clock: Clock,
        log: Log,
        opened: Callable[[SigningKey], Signer],
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._log = log
        self._opened = opened
        self._signers: dict[str, Signer] = {}
        self._following: set[asyncio.Task[None]] = set()
        signals.watch(SIGNING, lambda _rest: self._follow())

    def signer(self, alg: str) -> Signer:
        """The key that signs now. Refuses when there is none that opens."""
        signer = self._signers.get(alg)
        if signer is None:
            raise ApiError("platform-unavailable", LOST, retry_after=int(LOOK_AGAIN_SECONDS))
        return signer

    async def refresh(self) -> None:
        """Take over what was done to the keys, here or on another replica."""
        keys = [key for key in await self._storage.read(lambda tx: tx.signing.all()) if key.private_sealed]
        chosen = (self._chosen([key for key in keys if key.alg == alg]) for alg in ALGORITHMS)
        self._signers = {signer.alg: signer for signer in chosen if signer is not None}

    def _chosen(self, newest_first: list[SigningKey]) -> Signer | None:
        known_since = self._clock.now() - HANDOVER
        known = [key for key in newest_first if key.created_at <= known_since]
        fresh = [key for key in reversed(newest_first) if key.created_at > known_since]
        return next((signer for key in [*known, *fresh] if (signer := self._in_hand(key))), None)

    def _in_hand(self, key: SigningKey) -> Signer | None:
        held = self._signers.get(key.alg)
        if held is not None and held.kid == key.kid:
            return held
        try:
            return self._opened(key)
        except ValueError as problem:
            self._log.error("a signing key does not open", kid=key.kid, problem=str(problem))
            return None

    def _follow(self) -> None:
        task = asyncio.get_running_loop().create_task(self._refresh_if_possible())
        self._following.add(task)
        task.add_done_callback(self._following.discard)

    async def _refresh_if_possible(self) -> None:
        with suppress(StorageDown):  # the loop looks again
            await self.refresh()
