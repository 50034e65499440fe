"""The outbox: what is to be told to webhooks, written in the same transaction as what happened."""

from datetime import datetime

from molecule_platform.domain.tasks import Task, TaskKey
from molecule_platform.ports.storage import Transaction
from molecule_platform.services.support import signals


def enqueue(tx: Transaction, task: Task, first_seq: int, last_seq: int, now: datetime) -> None:
    """Let every live config of the task be told of these events, which are in its log already."""
    if tx.outbox.add(task.key, first_seq, last_seq, now):
        tx.signal(signals.OUTBOX)


def watchers(tx: Transaction, key: TaskKey) -> int:
    """How many configs are to be told of a task, which may be still to come."""
    return tx.push_configs.live(key)


def moved(tx: Transaction, old: TaskKey, new: TaskKey) -> int:
    """Let the configs of a task follow it to its new name; how many are to be told of it then.

    A task that has that name already keeps to itself: its events are not for those who watched the other.
    """
    if old == new:
        return watchers(tx, new)
    if tx.tasks.get(new) is not None:
        return 0
    for config in tx.push_configs.of_task(old):
        name = new.id if config.config_id == old.id else config.config_id
        tx.push_configs.change(config.id, task_id=new.id, tenant=new.tenant, config_id=name)
    return watchers(tx, new)


def recount(tx: Transaction, key: TaskKey) -> None:
    """Write down at the task how many are to be told of it."""
    tx.tasks.change(key, watchers=watchers(tx, key))
