"""A request repeated under its key happens once: the repeat gets the outcome of the first."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from molecule_platform.domain.refusals import Refusal
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.repeats import Attempt
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services.bells import Bells

KEPT = timedelta(days=7)
WAIT_SECONDS = 10.0


@dataclass(frozen=True)
class Sealer:
    """How answers are kept, since one may show a token: `seal` and `open` take a text and its place."""

    seal: Callable[[str, str], str]
    open: Callable[[str, str], str]


@dataclass(frozen=True)
class Outcome:
    """How the first request ended."""

    status: int
    body: str


def finished(scope: str, key: str) -> str:
    """Rings when the first request under a key has ended."""
    return "repeat." + hashlib.sha256(f"{scope}\n{key}".encode()).hexdigest()


def body_hash(raw: bytes) -> str:
    """The same for the same JSON, however it is written; `raw` was read as JSON before."""
    value = json.loads(raw or b"{}")
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


class Repeats:
    """Keeps the first outcome of a keyed request for a week."""

    def __init__(self, storage: Storage, bells: Bells, clock: Clock, sealer: Sealer, replica_id: str) -> None:
        self._storage = storage
        self._bells = bells
        self._clock = clock
        self._sealer = sealer
        self._replica_id = replica_id

    async def begin(self, scope: str, key: str, hashed: str) -> Outcome | None:
        """None when this is the first request, else its outcome. Raises 409 for another body."""
        now = self._clock.now()
        first = Attempt(scope, key, hashed, self._replica_id, now, now + KEPT)

        def work(tx: Transaction) -> Attempt | None:
            earlier = tx.attempts.get(scope, key, now)
            if earlier is None:
                tx.attempts.begin(first)
            return earlier

        earlier = await self._storage.write(work)
        if earlier is None:
            return None
        if earlier.body_hash != hashed:
            sentence = "this Idempotency-Key was used with another body: take a new key for a new request"
            raise Refusal("idempotency-conflict", sentence, existing_id=None)
        return await self._outcome(scope, key)

    async def _outcome(self, scope: str, key: str) -> Outcome:
        async def look() -> Attempt | None:
            found = await self._storage.read(lambda tx: tx.attempts.get(scope, key, self._clock.now()))
            return found if found is not None and found.status is not None else None

        ended = await self._bells.wait_for(finished(scope, key), look, WAIT_SECONDS)
        if ended is None or ended.status is None or ended.answer_sealed is None:
            sentence = (
                "the first request with this Idempotency-Key was interrupted, or still runs: "
                "look whether it took effect, then use a new key"
            )
            raise Refusal("conflict", sentence)
        return Outcome(ended.status, self._sealer.open(ended.answer_sealed, _place(scope, key)))

    async def finish(self, scope: str, key: str, status: int, body: str) -> None:
        """Remember how the first request ended."""
        sealed = self._sealer.seal(body, _place(scope, key))

        def work(tx: Transaction) -> None:
            tx.attempts.finish(scope, key, status, sealed)
            tx.signal(finished(scope, key))

        await self._storage.write(work)

    async def forget(self, scope: str, key: str) -> None:
        """The first request was refused and changed nothing: the key is free again."""
        await self._storage.write(lambda tx: tx.attempts.forget(scope, key))


def _place(scope: str, key: str) -> str:
    return f"idempotency|{scope}|{key}"
