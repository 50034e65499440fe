"""Every table that grows is kept short: what is old enough is forgotten, a little at a time."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from molecule_platform.ports.clock import Clock
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services.keys.signing_keys import PRIVATE_KEPT, RETIRED_SHOWN

BATCH = 100
SECURITY_LOG = timedelta(days=365)
ENDED_CREDENTIALS = timedelta(days=90)
# For a day it can still be told from one that never was.
EXPIRED_SIGN_INS = timedelta(days=1)
SILENT_REPLICAS = timedelta(days=1)

Prune = Callable[[Transaction, datetime, int], int]


@dataclass(frozen=True)
class RetentionPeriods:
    """How long an operator keeps what."""

    activity: timedelta = timedelta(days=7)
    events: timedelta = timedelta(days=30)
    messages: timedelta = timedelta(days=7)
    message_events: timedelta = timedelta(hours=24)
    delegations: timedelta = timedelta(days=90)


class RetentionService:
    """Forgets in small transactions, so that nobody waits for it."""

    def __init__(self, storage: Storage, clock: Clock, kept: RetentionPeriods) -> None:
        self._storage = storage
        self._clock = clock
        self._rules: tuple[tuple[timedelta, Prune], ...] = (
            (kept.activity, lambda tx, before, most: tx.retention.activity(before, most)),
            (kept.messages, lambda tx, before, most: tx.retention.messages(before, most)),
            (kept.messages, lambda tx, before, most: tx.retention.tasks(before, most)),
            (kept.messages, lambda tx, before, most: tx.push_configs.prune(before, most)),
            (kept.message_events, lambda tx, before, most: tx.retention.message_events(before, most)),
            (kept.delegations, lambda tx, before, most: tx.retention.delegations(before, most)),
            (kept.events, lambda tx, before, most: tx.events.prune(before, most)),
            (SECURITY_LOG, lambda tx, before, most: tx.retention.security_log(before, most)),
            (timedelta(), lambda tx, before, most: tx.retention.idempotency(before, most)),
            (EXPIRED_SIGN_INS, lambda tx, before, most: tx.retention.sign_ins(before, most)),
            (ENDED_CREDENTIALS, lambda tx, before, most: tx.retention.tokens(before, most)),
            (ENDED_CREDENTIALS, lambda tx, before, most: tx.retention.grants(before, most)),
            (SILENT_REPLICAS, lambda tx, before, most: tx.retention.replicas(before, most)),
            (RETIRED_SHOWN, lambda tx, before, most: tx.retention.signing_keys(before, most)),
            (PRIVATE_KEPT, lambda tx, before, most: tx.retention.private_halves(before, most)),
        )

    async def tick(self) -> None:
        """Forget all that is old enough."""
        now = self._clock.now()
        for age, prune in self._rules:
            await self._prune(prune, now - age)

    async def _prune(self, prune: Prune, before: datetime) -> None:
        while await self._storage.write(lambda tx: prune(tx, before, BATCH)) >= BATCH:
            pass
