"""One event for one webhook: what is written to it, and what becomes of it when the webhook has answered."""

from dataclasses import dataclass, field
from datetime import datetime

from molecule_platform.domain import push
from molecule_platform.domain.push import Notification, PushConfig
from molecule_platform.domain.tasks import Task, TaskEvent
from molecule_platform.ports.storage import Transaction
from molecule_platform.ports.webhooks import WebhookResult
from molecule_platform.services.messaging.tasks import task_log
from molecule_platform.services.messaging.webhooks import outbox
from molecule_platform.services.support import event_log, signals
from molecule_wire import JSONObject, jsontext
from molecule_wire.a2a import convert
from molecule_wire.a2a import tasks as machine

PAGE = 500


@dataclass(frozen=True)
class WebhookNotification:
    """A notification that this replica holds, and its body. `whole` is the task as of the event, for 0.3."""

    notification: Notification
    config: PushConfig
    body: bytes = field(repr=False)
    whole: JSONObject | None = field(default=None, repr=False)


def lease(tx: Transaction, owner: str, now: datetime, limit: int) -> list[WebhookNotification]:
    """Take what is due, at most one letter of each config."""
    taken = tx.outbox.lease(owner, now, now + push.LEASE, limit)
    letters = [_written(tx, notification, owner, now, None) for notification in taken]
    return [letter for letter in letters if letter is not None]


def lease_next(
    tx: Transaction, before: WebhookNotification, owner: str, now: datetime
) -> WebhookNotification | None:
    """Take what the same config is to be told next."""
    taken = tx.outbox.lease_of(before.config.id, owner, now, now + push.LEASE)
    return None if taken is None else _written(tx, taken, owner, now, before)


def settle(
    tx: Transaction,
    letter: WebhookNotification,
    told: WebhookResult,
    owner: str,
    now: datetime,
    chance: float,
) -> None:
    """Write what became of a letter. Whoever let its lease run out changes nothing."""
    notification = letter.notification
    if told.is_success:
        if tx.outbox.done(notification, owner, now) and letter.config.failures:
            tx.push_configs.change(letter.config.id, failures=0)
        return
    config = tx.push_configs.get(notification.push_config_id)
    if config is None or config.url != letter.config.url:
        # Registered anew while the old webhook was being asked: what that one said no longer counts.
        tx.outbox.release(notification, owner, now)
        return
    if _given_back(tx, notification, told, owner, now, chance):
        _failed(tx, config, told, now)


def _given_back(
    tx: Transaction, notification: Notification, told: WebhookResult, owner: str, now: datetime, chance: float
) -> bool:
    again = push.next_try(notification, now, chance, told.retry_after)
    if again is None:
        return tx.outbox.done(notification, owner, now)
    return tx.outbox.retry(notification, owner, again)


def _failed(tx: Transaction, config: PushConfig, told: WebhookResult, now: datetime) -> None:
    if told.is_gone:
        tx.push_configs.delete(config.id)
        outbox.recount(tx, config.task_key)
        return
    failures = config.failures + 1
    tx.push_configs.change(config.id, failures=failures)
    if failures >= push.MAX_FAILURES:
        _disable(tx, config, told.sentence, now)


def _disable(tx: Transaction, config: PushConfig, sentence: str, now: datetime) -> None:
    tx.push_configs.change(config.id, disabled_at=now)
    tx.outbox.clear(config.id)
    outbox.recount(tx, config.task_key)
    event_log.note_push(tx, "PUSH_CONFIG_DISABLED", config, now, error=sentence)


def _written(
    tx: Transaction, notification: Notification, owner: str, now: datetime, before: WebhookNotification | None
) -> WebhookNotification | None:
    """The letter; None when its event is no longer kept, and then it is given up."""
    config = tx.push_configs.get(notification.push_config_id)
    task = None if config is None else tx.tasks.get(config.task_key)
    letter = None
    if config is not None and task is not None:
        letter = _letter(tx, notification, config, task, before)
    if letter is None:
        tx.outbox.done(notification, owner, now)
        tx.signal(signals.OUTBOX)
    return letter


def _letter(
    tx: Transaction,
    notification: Notification,
    config: PushConfig,
    task: Task,
    before: WebhookNotification | None,
) -> WebhookNotification | None:
    if config.dialect == "0.3":
        whole = _as_of(tx, task, notification.seq, before)
        if whole is None:
            return None
        return WebhookNotification(notification, config, jsontext.encode(convert.TO_0_3.task(whole)), whole)
    found = tx.tasks.events(task.key, notification.seq - 1, 1)
    if not found or found[0].seq != notification.seq:
        return None
    return WebhookNotification(notification, config, _body_of(found[0]))


def _body_of(event: TaskEvent) -> bytes:
    return event.payload if event.dialect == "1.0" else jsontext.encode(task_log.modern(event))


def _as_of(tx: Transaction, task: Task, seq: int, before: WebhookNotification | None) -> JSONObject | None:
    """The whole task once that event had happened; None when its log no longer reaches back so far."""
    after, current = _nearest(task, seq, before)
    try:
        while after < seq:
            events = tx.tasks.events(task.key, after, min(PAGE, seq - after))
            if not events:
                return None
            for event in events:
                current = machine.fold(current, task_log.modern(event))
            after = events[-1].seq
    except machine.EventRefused:
        return None
    return current


def _nearest(task: Task, seq: int, before: WebhookNotification | None) -> tuple[int, JSONObject | None]:
    """Where to begin: what was told last, or the snapshot, or the beginning."""
    if before is not None and before.whole is not None and before.notification.seq <= seq:
        return before.notification.seq, before.whole
    if task.snapshot is not None and task.snapshot_seq <= seq:
        kept = jsontext.decode(task.snapshot)
        return task.snapshot_seq, kept if isinstance(kept, dict) else None
    return 0, None
