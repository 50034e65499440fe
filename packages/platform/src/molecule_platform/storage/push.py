"""Push configs and the outbox in SQL."""

from dataclasses import asdict, fields
from datetime import datetime
from typing import Any

from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    and_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    select,
    tuple_,
    update,
)

from molecule_platform.domain.push import KIND, Notification, PushConfig
from molecule_platform.domain.tasks import TaskKey
from molecule_platform.storage.prepared import Prepared
from molecule_platform.storage.tables import outbox, push_configs, tasks
from molecule_wire import ids

_NOTIFICATION = [outbox.c[one.name] for one in fields(Notification)]
_CONFIG = [push_configs.c[one.name] for one in fields(PushConfig)]
_IS_LIVE = push_configs.c.disabled_at.is_(None)
# The parameters are the members of a task's key.
_OF_TASK = and_(
    push_configs.c.workspace_id == bindparam("workspace_id"),
    push_configs.c.tenant == bindparam("tenant"),
    push_configs.c.task_id == bindparam("id"),
)
_CONFIGS = Prepared(select(*_CONFIG).where(_OF_TASK).order_by(push_configs.c.id), _CONFIG)
_LIVE = Prepared(select(func.count()).select_from(push_configs).where(_OF_TASK, _IS_LIVE))
_WAITS = exists().where(outbox.c.push_config_id == push_configs.c.id)
_TOLD = Prepared(
    select(push_configs.c.id, push_configs.c.org_id, _WAITS).where(_OF_TASK, _IS_LIVE),
    [push_configs.c.id, push_configs.c.org_id, Column("is_behind", Boolean)],
)
_GET = Prepared(select(*_CONFIG).where(push_configs.c.id == bindparam("own_id")), _CONFIG)

_KEY = list(outbox.primary_key.columns)
_OF_CONFIG = outbox.c.push_config_id == bindparam("config")
# A row of the outbox that this owner has leased.
_HELD = and_(
    _OF_CONFIG,
    outbox.c.seq == bindparam("number"),
    outbox.c.id == bindparam("name"),
    outbox.c.lease_owner == bindparam("owner"),
)
_FORGET = Prepared(delete(outbox).where(_HELD))
_NEXT = Prepared(
    update(outbox)
    .where(tuple_(*_KEY).in_(select(*_KEY).where(_OF_CONFIG).order_by(*_KEY).limit(1)))
    .values(next_attempt_at=bindparam("at"))
)
_LEASE_OF = Prepared(
    update(outbox)
    .where(_OF_CONFIG, outbox.c.next_attempt_at <= bindparam("now"))
    .values(next_attempt_at=bindparam("until"), lease_owner=bindparam("owner"))
    .returning(*_NOTIFICATION),
    _NOTIFICATION,
)
_DUE = Prepared(
    select(outbox.c.id).where(outbox.c.next_attempt_at <= bindparam("now")).limit(1), [outbox.c.id]
)
_ADD = Prepared(insert(outbox), names=[column.name for column in outbox.c])


class SqlPushConfigs:
    """See `ports.push.PushConfigs`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def put(self, config: PushConfig) -> None:
        """Keep a config, over an older one with the same id."""
        row = asdict(config)
        same = update(push_configs).where(push_configs.c.id == config.id).values(row)
        if self._connection.execute(same).rowcount == 0:
            self._connection.execute(insert(push_configs).values(row))

    def get(self, own_id: str) -> PushConfig | None:
        """The config with that id of ours."""
        row = _GET.first(self._connection, {"own_id": own_id})
        return None if row is None else PushConfig(**row)

    def of_task(self, key: TaskKey) -> list[PushConfig]:
        """The configs of a task, the oldest first."""
        return [PushConfig(**row) for row in _CONFIGS.rows(self._connection, vars(key))]

    def live(self, key: TaskKey) -> int:
        """How many configs of a task are not disabled."""
        return _LIVE.scalar(self._connection, vars(key))

    def change(self, own_id: str, **values: Any) -> None:
        """Set columns of a config."""
        self._connection.execute(update(push_configs).where(push_configs.c.id == own_id).values(values))

    def delete(self, own_id: str) -> None:
        """Forget a config; its rows of the outbox go with it."""
        self._connection.execute(delete(push_configs).where(push_configs.c.id == own_id))

    def sealed(self, after: str, limit: int) -> list[PushConfig]:
        """Configs that keep something sealed."""
        column = push_configs.c
        kept = column.secret_sealed.is_not(None) & (column.id > after)
        wanted = select(push_configs).where(kept).order_by(column.id).limit(limit)
        return [PushConfig(**row) for row in self._connection.execute(wanted).mappings()]

    def prune(self, before: datetime, limit: int) -> int:
        """Forget old configs whose task is no more."""
        column = push_configs.c
        has_task = exists().where(
            tasks.c.workspace_id == column.workspace_id,
            tasks.c.tenant == column.tenant,
            tasks.c.id == column.task_id,
        )
        batch = select(column.id).where(column.created_at < before, ~has_task).limit(limit)
        return self._connection.execute(delete(push_configs).where(column.id.in_(batch))).rowcount


class SqlOutbox:
    """See `ports.push.Outbox`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, key: TaskKey, first_seq: int, last_seq: int, now: datetime) -> int:
        """A row for each live config and each event."""
        told = _TOLD.rows(self._connection, vars(key))
        rows = [
            _row(one["id"], one["org_id"], seq, now, is_first=seq == first_seq and not one["is_behind"])
            for one in told
            for seq in range(first_seq, last_seq + 1)
        ]
        for row in rows:
            _ADD.run(self._connection, row)
        return sum(row["next_attempt_at"] is not None for row in rows)

    def is_due(self, now: datetime) -> bool:
        """Whether anything can be leased."""
        return _DUE.first(self._connection, {"now": now}) is not None

    def lease(self, owner: str, now: datetime, until: datetime, limit: int) -> list[Notification]:
        """Take what is due, the longest due first."""
        due = select(*_KEY).where(outbox.c.next_attempt_at <= now)
        due = due.order_by(outbox.c.next_attempt_at, outbox.c.id).limit(limit)
        taken = update(outbox).where(tuple_(*_KEY).in_(due)).values(next_attempt_at=until, lease_owner=owner)
        rows = self._connection.execute(taken.returning(*_NOTIFICATION)).mappings()
        return [Notification(**row) for row in rows]

    def lease_of(
        self, push_config_id: str, owner: str, now: datetime, until: datetime
    ) -> Notification | None:
        """Take what one config is to be told next."""
        asked = {"config": push_config_id, "owner": owner, "now": now, "until": until}
        row = _LEASE_OF.first(self._connection, asked)
        return None if row is None else Notification(**row)

    def done(self, notification: Notification, owner: str, now: datetime) -> bool:
        """Forget a row; the one behind it is due now."""
        if _FORGET.count(self._connection, _held(notification, owner)) == 0:
            return False
        _NEXT.run(self._connection, {"config": notification.push_config_id, "at": now})
        return True

    def retry(self, notification: Notification, owner: str, at: datetime) -> bool:
        """Count a failed attempt and try again then."""
        failed = {"attempts": outbox.c.attempts + 1, "next_attempt_at": at, "lease_owner": None}
        return self._given_back(notification, owner, failed)

    def release(self, notification: Notification, owner: str, now: datetime) -> bool:
        """Give a row back as if it had not been taken."""
        return self._given_back(notification, owner, {"next_attempt_at": now, "lease_owner": None})

    def _given_back(self, notification: Notification, owner: str, values: dict[str, Any]) -> bool:
        back = update(outbox).where(_HELD).values(values)
        return self._connection.execute(back, _held(notification, owner)).rowcount == 1

    def clear(self, push_config_id: str) -> int:
        """Forget everything that a config was to be told."""
        return self._connection.execute(
            delete(outbox).where(outbox.c.push_config_id == push_config_id)
        ).rowcount


def _held(notification: Notification, owner: str) -> dict[str, Any]:
    """The parameters of `_HELD`."""
    return {
        "config": notification.push_config_id,
        "number": notification.seq,
        "name": notification.id,
        "owner": owner,
    }


def _row(config_id: str, org_id: str, seq: int, now: datetime, *, is_first: bool) -> dict[str, Any]:
    return {
        "id": ids.uuid7(),
        "org_id": org_id,
        "kind": KIND,
        "push_config_id": config_id,
        "seq": seq,
        "attempts": 0,
        "next_attempt_at": now if is_first else None,
        "lease_owner": None,
        "created_at": now,
    }
