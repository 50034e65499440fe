"""Push configs, the outbox of what they are to be told, and webhooks, as services need them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from molecule_platform.domain.push import Notification, PushConfig
from molecule_platform.domain.tasks import TaskKey


class PushConfigs(Protocol):
    """Verbs on push configs; a secret is only ever seen sealed here."""

    def put(self, config: PushConfig) -> None:
        """Keep a config, over an older one with the same id."""
        ...

    def get(self, own_id: str) -> PushConfig | None:
        """The config with that id of ours."""
        ...

    def of_task(self, key: TaskKey) -> list[PushConfig]:
        """The configs of a task, the oldest first."""
        ...

    def live(self, key: TaskKey) -> int:
        """How many configs of a task are not disabled."""
        ...

    def change(self, own_id: str, **values: Any) -> None:
        """Set columns of a config."""
        ...

    def delete(self, own_id: str) -> None:
        """Forget a config and all that it was to be told."""
        ...

    def sealed(self, after: str, limit: int) -> list[PushConfig]:
        """Configs that keep something sealed in the order of their ids, after one of them."""
        ...

    def prune(self, before: datetime, limit: int) -> int:
        """Forget configs made before that time whose task is no more; how many."""
        ...


class Outbox(Protocol):
    """What is still to be told. Of each config only the first row can be due; the others wait behind it.

    A row is held by an owner for a while; a verb that names another owner changes nothing and says so.
    """

    def add(self, key: TaskKey, first_seq: int, last_seq: int, now: datetime) -> int:
        """A row for each live config of the task and each of its events from first to last.

        How many of them can be told at once; the others wait for one before them.
        """
        ...

    def is_due(self, now: datetime) -> bool:
        """Whether anything can be leased."""
        ...

    def lease(self, owner: str, now: datetime, until: datetime, limit: int) -> list[Notification]:
        """Take what is due, the longest due first; each is of another config."""
        ...

    def lease_of(
        self, push_config_id: str, owner: str, now: datetime, until: datetime
    ) -> Notification | None:
        """Take what one config is to be told next, if that is due."""
        ...

    def done(self, notification: Notification, owner: str, now: datetime) -> bool:
        """Forget a row; the one behind it is due now. False when the owner does not hold it."""
        ...

    def retry(self, notification: Notification, owner: str, at: datetime) -> bool:
        """Count a failed attempt and try again then. False when the owner does not hold it."""
        ...

    def release(self, notification: Notification, owner: str, now: datetime) -> bool:
        """Give a row back as if it had not been taken. False when the owner does not hold it."""
        ...

    def clear(self, push_config_id: str) -> int:
        """Forget everything that a config was to be told; how many."""
        ...


@dataclass(frozen=True)
class WebhookResult:
    """How a webhook took a notification: the HTTP status, or None and why there is none."""

    status: int | None
    sentence: str = ""
    retry_after: float | None = None

    @property
    def is_success(self) -> bool:
        """Whether the event has been told."""
        return self.status is not None and 200 <= self.status < 300

    @property
    def is_gone(self) -> bool:
        """Whether the webhook asks not to be called again."""
        return self.status == 410


class WebhookSender(Protocol):
    """The way to a client's webhook."""

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> WebhookResult:
        """POST once, no redirects; every fault of the other side comes back, only cancellation is raised."""
        ...
