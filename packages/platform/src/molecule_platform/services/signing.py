"""The platform's own keys: made at the first start, shown to everyone who wants to check a signature."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from molecule_platform.ports.clock import Clock
from molecule_platform.ports.signing import FreshKey, SigningKey
from molecule_platform.ports.storage import Storage, Transaction

ALGORITHMS = ("EdDSA", "ES256")
RETIRED_SHOWN = timedelta(days=30)


def seal_context(kid: str) -> str:
    """What a sealed private key is bound to."""
    return f"signing|{kid}"


class Signing:
    """Keeps one living key for each purpose, and the public halves of those before it."""

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        make: Callable[[str], FreshKey],
        seal: Callable[[str, str], str],
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._make = make
        self._seal = seal

    async def ensure(self) -> None:
        """Make the keys that are missing; of replicas that start together, one does."""

        def work(tx: Transaction) -> None:
            living = {key.alg for key in tx.signing.all() if key.retired_at is None}
            for alg in ALGORITHMS:
                if alg not in living:
                    tx.signing.insert(self._fresh(alg))

        await self._storage.write(work)

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
