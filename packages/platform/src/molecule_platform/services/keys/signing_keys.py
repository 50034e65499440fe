"""The platform's own keys: made at the first start, shown to everyone who wants to check a signature."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from molecule_platform.ports.clock import Clock
from molecule_platform.ports.signing import FreshKey, SigningKey
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services.support import audit_log
from molecule_platform.services.support.audit_log import AuditActor
from molecule_platform.services.support.signals import SIGNING

ALGORITHMS = ("EdDSA", "ES256")
RETIRED_SHOWN = timedelta(days=30)
# A new key is shown before it signs: whoever checks signatures may ask for unknown keys once a minute only.
HANDOVER = timedelta(seconds=90)
# By then every replica has seen that another key took over.
PRIVATE_KEPT = timedelta(minutes=10)


def seal_context(kid: str) -> str:
    """What a sealed private key is bound to."""
    return f"signing|{kid}"


@dataclass(frozen=True)
class RotatedKey:
    """The names of the new keys, from when on they sign, and the names of those before."""

    living: dict[str, str]
    signs_at: datetime
    retired: list[str]


class SigningKeyService:
    """Keeps one living key for each purpose, and the public halves of those before it."""

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        make: Callable[[str], FreshKey],
        seal: Callable[[str, str], str],
        opens: Callable[[SigningKey], bool],
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._make = make
        self._seal = seal
        self._opens = opens

    async def ensure(self) -> None:
        """Make the keys that are missing; of replicas that start together, one does."""

        def work(tx: Transaction) -> None:
            living = {key.alg for key in tx.signing.all() if key.retired_at is None}
            for alg in ALGORITHMS:
                if alg not in living:
                    tx.signing.insert(self._fresh(alg))

        await self._storage.write(work)

    async def rotate(self, by: AuditActor, org_id: str) -> RotatedKey:
        """Make new keys, which take over once everybody can know them; those before stay shown for a while.

        Keys whose seal was lost are replaced at once.
        """
        fresh = [self._fresh(alg) for alg in ALGORITHMS]
        now = self._clock.now()

        def work(tx: Transaction) -> RotatedKey:
            before = [key for key in tx.signing.all() if key.retired_at is None]
            signing = [key for key in before if self._retire(tx, key, now)]
            for key in fresh:
                tx.signing.insert(key)
                audit_log.note(tx, org_id, by, "signing-key.rotate", key.kid, now)
            tx.signal(SIGNING)
            signs_at = now + HANDOVER if signing else now
            return RotatedKey({key.alg: key.kid for key in fresh}, signs_at, [key.kid for key in before])

        return await self._storage.write(work)

    def _retire(self, tx: Transaction, key: SigningKey, now: datetime) -> bool:
        """Whether the key can still sign until another takes over."""
        tx.signing.retire(key.kid, now)
        if self._opens(key):
            return True
        tx.signing.destroy(key.kid)
        return False

    def _fresh(self, alg: str) -> SigningKey:
        key = self._make(alg)
        sealed = self._seal(key.private, seal_context(key.kid))
        return SigningKey(key.kid, key.alg, key.public, sealed, self._clock.now())

    async def document(self, issuer: str) -> dict[str, Any]:
        """The JWKS: every key whose signatures may still be about."""
        keys = await self._storage.read(lambda tx: tx.signing.all())
        since = self._clock.now() - RETIRED_SHOWN
        shown = [key for key in keys if key.retired_at is None or key.retired_at > since]
        ordered = sorted(shown, key=lambda key: ALGORITHMS.index(key.alg))
        return {"issuer": issuer, "keys": [_public(key) for key in ordered]}


def _public(key: SigningKey) -> dict[str, Any]:
    return {**key.public, "kid": key.kid, "alg": key.alg, "use": "sig"}
