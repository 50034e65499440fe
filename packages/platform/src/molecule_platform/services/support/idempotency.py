"""A request repeated under its key happens once: the repeat gets the outcome of the first."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from molecule_platform.domain import messages
from molecule_platform.domain.errors import ApiError
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.idempotency import IdempotentRequest
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services.support.signals import Signals

KEPT = timedelta(days=7)
# How long the key of a request that never ended stays taken, for its sender to find out what came of it.
KEPT_UNFINISHED = timedelta(hours=1)
WAIT_SECONDS = 10.0
_UNKNOWN = (
    "the first request with this Idempotency-Key was interrupted, or still runs: "
    "look whether it took effect, then use a new key"
)


@dataclass(frozen=True)
class ResponseSealer:
    """How answers are kept, since one may show a token: `seal` and `open` take a text and its place."""

    seal: Callable[[str, str], str]
    open: Callable[[str, str], str]


@dataclass(frozen=True)
class StoredResponse:
    """How the first request ended."""

    status: int
    body: str


def finished(scope: str, key: str) -> str:
    """Rings when the first request under a key has ended."""
    return "repeat." + hashlib.sha256(f"{scope}\n{key}".encode()).hexdigest()


def body_hash(raw: bytes) -> str:
    """The same for the same JSON, however it is written; refuses a body that only looked like JSON."""
    try:
        value = json.loads(raw or b"{}")
        written = json.dumps(value, sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError) as problem:
        sentence = "the body has a number too long, a text that is not UTF-8, or is nested too deeply"
        raise ApiError("invalid-json", sentence) from problem
    return hashlib.sha256(written.encode()).hexdigest()


class IdempotencyService:
    """Keeps the first outcome of a keyed request for a week."""

    def __init__(
        self, storage: Storage, signals: Signals, clock: Clock, sealer: ResponseSealer, replica_id: str
    ) -> None:
        self._storage = storage
        self._signals = signals
        self._clock = clock
        self._sealer = sealer
        self._replica_id = replica_id

    async def begin(self, scope: str, key: str, hashed: str) -> StoredResponse | None:
        """None when this is the first request, else its outcome. Raises 409 for another body."""
        while (earlier := await self._claim(scope, key, hashed)) is not None:
            if earlier.body_hash != hashed:
                sentence = "this Idempotency-Key was used with another body: take a new key for a new request"
                raise ApiError("idempotency-conflict", sentence, existing_id=self._made_by(earlier))
            ended = await self._ended(earlier)
            if ended is not None:
                return ended
        return None

    async def _claim(self, scope: str, key: str, hashed: str) -> IdempotentRequest | None:
        """Become the first request under the key; the one that is, if there is one."""
        now = self._clock.now()
        first = IdempotentRequest(scope, key, hashed, self._replica_id, now, now + KEPT_UNFINISHED)

        def work(tx: Transaction) -> IdempotentRequest | None:
            earlier = tx.attempts.get(scope, key, now)
            if earlier is None:
                tx.attempts.begin(first)
            return earlier

        return await self._storage.write(work)

    async def _ended(self, attempt: IdempotentRequest) -> StoredResponse | None:
        """How the first request ended; None when it was refused and left the key free."""
        scope, key = attempt.scope, attempt.key

        def see(tx: Transaction) -> _KeyEntry | None:
            found = tx.attempts.get(scope, key, self._clock.now())
            running = found is not None and found.status is None and self._is_running(tx, found)
            return None if running else _KeyEntry(found)

        bell = finished(scope, key)
        seen = await self._signals.wait_for(bell, lambda: self._storage.read(see), WAIT_SECONDS)
        if seen is not None and seen.attempt is None:
            return None
        ended = None if seen is None else seen.attempt
        if ended is None or ended.status is None or ended.answer_sealed is None:
            raise ApiError("conflict", _UNKNOWN)
        return StoredResponse(ended.status, self._sealer.open(ended.answer_sealed, _place(scope, key)))

    def _is_running(self, tx: Transaction, attempt: IdempotentRequest) -> bool:
        mine = attempt.replica == self._replica_id
        return mine or attempt.replica in tx.presence.alive(messages.REPLICA_UNSEEN)

    def _made_by(self, attempt: IdempotentRequest) -> str | None:
        """The id of what the first request made, if it has one."""
        if attempt.answer_sealed is None:
            return None
        answer = json.loads(self._sealer.open(attempt.answer_sealed, _place(attempt.scope, attempt.key)))
        made = answer.get("id") if isinstance(answer, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return made if isinstance(made, str) else None

    async def finish(self, scope: str, key: str, status: int, body: str) -> None:
        """Remember how the first request ended."""

        def work(tx: Transaction) -> None:
            # Sealed in the transaction: a key that is being replaced is not thrown away under it.
            sealed = self._sealer.seal(body, _place(scope, key))
            tx.attempts.finish(scope, key, status, sealed, self._clock.now() + KEPT)

        await self._end(scope, key, work)

    async def forget(self, scope: str, key: str) -> None:
        """The first request was refused and changed nothing: the key is free again."""
        await self._end(scope, key, lambda tx: tx.attempts.forget(scope, key))

    async def abandon(self, scope: str, key: str) -> None:
        """The first request broke, and nobody knows whether it took effect: repeats are told so at once."""
        await self._end(scope, key, lambda tx: tx.attempts.abandon(scope, key))

    async def _end(self, scope: str, key: str, how: Callable[[Transaction], None]) -> None:
        def work(tx: Transaction) -> None:
            how(tx)
            tx.signal(finished(scope, key))

        await self._storage.write(work)


@dataclass(frozen=True)
class _KeyEntry:
    """The first request once it no longer runs; None when its key is free."""

    attempt: IdempotentRequest | None


def _place(scope: str, key: str) -> str:
    return f"idempotency|{scope}|{key}"
