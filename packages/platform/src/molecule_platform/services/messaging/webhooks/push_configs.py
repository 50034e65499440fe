"""Push configs: the creator of a task says who is to be told of its events."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

from molecule_platform.domain import push, push_requests
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.push import PushConfig
from molecule_platform.domain.push_requests import PushConfigRequest
from molecule_platform.domain.tasks import Task, TaskKey
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.log import Log
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services.keys.key_rotation import SealedTextColumn
from molecule_platform.services.messaging.webhooks import outbox
from molecule_platform.services.support import event_log
from molecule_wire import JSONObject, ids, jsontext
from molecule_wire.a2a import errors
from molecule_wire.a2a.errors import Violation
from molecule_wire.a2a.operations import Dialect

CheckUrl = Callable[[str], Awaitable[str | None]]
"""Raises `ApiError` for a URL that may not be called; a sentence if its name has no address now."""


@dataclass(frozen=True)
class InlineConfig:
    """A config that came with a message, checked: `PushConfigs.attach` keeps it with the message's task.

    `unresolved` says why its address could not be judged yet.
    """

    wish: PushConfigRequest
    owner: str
    org_id: str
    dialect: Dialect
    unresolved: str | None = None


class PushConfigService:
    """Registers, shows and forgets. For anyone but the creator of a task there is no such task.

    A webhook whose name does not resolve is registered with a warning: name servers fail and names come late,
    and its address is judged again whenever it is called.
    """

    def __init__(
        self, storage: Storage, clock: Clock, log: Log, check_url: CheckUrl, sealing: SealedTextColumn
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._log = log
        self._check_url = check_url
        self._sealing = sealing

    async def create(
        self, principal: Principal, key: TaskKey, config: JSONObject, dialect: Dialect
    ) -> JSONObject:
        """Keep a config in 1.0 shape, over an older one with the same id; `dialect` is what it is told in."""
        await self._storage.read(lambda tx: _task(tx, principal, key))
        inline = await self.take_inline(principal, config, dialect)

        def work(tx: Transaction) -> JSONObject:
            task = _task(tx, principal, key)
            # 0.3 sets the one config of a task unless it says which; 1.0 makes another one.
            name = task.id if dialect == "0.3" else ids.uuid7()
            return self._shown(self._keep(tx, inline, task.key, name, self._clock.now()))

        return await self._storage.write(work)

    async def get(self, principal: Principal, key: TaskKey, config_id: str | None) -> JSONObject:
        """One config; without an id the first, as 0.3 asks."""

        def work(tx: Transaction) -> JSONObject:
            found = _named(tx, _task(tx, principal, key).key, config_id)
            if found is None:
                sentence = "The task has no such push notification config"
                raise errors.protocol_error(errors.TASK_NOT_FOUND, sentence)
            return self._shown(found)

        return await self._storage.read(work)

    async def list(self, principal: Principal, key: TaskKey) -> list[JSONObject]:
        """All configs of the task, the oldest first; there are few."""

        def work(tx: Transaction) -> list[JSONObject]:
            task = _task(tx, principal, key)
            return [self._shown(config) for config in tx.push_configs.of_task(task.key)]

        return await self._storage.read(work)

    async def delete(self, principal: Principal, key: TaskKey, config_id: str) -> None:
        """Forget a config and what it was still to be told; nothing happens when there is none."""

        def work(tx: Transaction) -> None:
            task = _task(tx, principal, key)
            found = _named(tx, task.key, config_id)
            if found is not None:
                tx.push_configs.delete(found.id)
                outbox.recount(tx, task.key)

        await self._storage.write(work)

    async def take_inline(self, principal: Principal, config: JSONObject, dialect: Dialect) -> InlineConfig:
        """Read and check the config of a message before the message is accepted. Raises -32602."""
        wish = push_requests.read(config)
        try:
            unresolved = await self._check_url(wish.url)
        except ApiError as problem:
            raise push_requests.bad_url(problem.sentence) from problem
        if unresolved is not None:
            self._log.warning("a webhook cannot be resolved", problem=unresolved, owner=principal.text)
        return InlineConfig(wish, principal.text, principal.org_id, dialect, unresolved)

    def attach(self, tx: Transaction, inline: InlineConfig, key: TaskKey, now: datetime) -> None:
        """Keep the config of a message with its task, which may be still to come, in one transaction.

        Without an id of its own it takes the place of what an earlier message of the task brought.
        """
        task = tx.tasks.named(key.workspace_id, key.tenant, key.id)
        if task is not None and task.owner != inline.owner:
            raise errors.protocol_error(errors.TASK_NOT_FOUND)
        own = key if task is None else task.key
        self._keep(tx, inline, own, own.id, now)

    def _keep(
        self, tx: Transaction, inline: InlineConfig, key: TaskKey, default_id: str, now: datetime
    ) -> PushConfig:
        wish = inline.wish
        config_id = wish.config_id or default_id
        older = _named(tx, key, config_id)
        if older is None and len(tx.push_configs.of_task(key)) >= push.MAX_CONFIGS:
            sentence = f"a task has at most {push.MAX_CONFIGS} push configs: delete one first"
            raise errors.invalid_params(Violation("id", sentence))
        own_id = ids.uuid7() if older is None else older.id
        config = PushConfig(
            id=own_id,
            org_id=inline.org_id,
            workspace_id=key.workspace_id,
            tenant=key.tenant,
            task_id=key.id,
            config_id=config_id,
            owner=inline.owner,
            dialect=inline.dialect,
            url=wish.url,
            config=dict(wish.more),
            created_at=now if older is None else older.created_at,
            # Sealed in the transaction: a key that is being replaced is not thrown away under it.
            secret_sealed=self._sealed(wish.secret, own_id),
        )
        tx.push_configs.put(config)
        outbox.recount(tx, key)
        if inline.unresolved is not None:
            event_log.note_push(tx, "PUSH_CONFIG_UNRESOLVED", config, now, warning=inline.unresolved)
        return config

    def _sealed(self, secret: JSONObject, own_id: str) -> str | None:
        if not secret:
            return None
        return self._sealing.seal(jsontext.encode(secret).decode(), push.seal_context(own_id))

    def _shown(self, config: PushConfig) -> JSONObject:
        return push_requests.public_row(config, push_requests.secret_of(config, self._sealing.open))


def _task(tx: Transaction, principal: Principal, key: TaskKey) -> Task:
    """The task, by any of its names, for its creator."""
    task = tx.tasks.named(key.workspace_id, key.tenant, key.id)
    if task is None or task.owner != principal.text:
        raise errors.protocol_error(errors.TASK_NOT_FOUND)
    return task


def _named(tx: Transaction, key: TaskKey, config_id: str | None) -> PushConfig | None:
    configs = tx.push_configs.of_task(key)
    return next((one for one in configs if config_id is None or one.config_id == config_id), None)
