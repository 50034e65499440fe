"""The store: transactions as plain functions over nouns.

A promise is kept by one function `work(tx)` that reads and writes through the nouns of the transaction. The
store runs it where its driver lives (a writer thread, a connection) and commits it durably, together with
whatever else is waiting. So a service says what must be true together, and never sees a driver.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

from molecule_platform.ports.activity import ActivityLog
from molecule_platform.ports.audit_log import AuditLog
from molecule_platform.ports.delegations import Delegations
from molecule_platform.ports.events import EventLog
from molecule_platform.ports.grants import Grants
from molecule_platform.ports.idempotency import IdempotencyKeys
from molecule_platform.ports.loops import LoopLeases
from molecule_platform.ports.mailbox import Mailbox
from molecule_platform.ports.maintenance import MaintenanceQueries
from molecule_platform.ports.people import People
from molecule_platform.ports.plugins import Plugins
from molecule_platform.ports.presence import Presence
from molecule_platform.ports.retention import Retention
from molecule_platform.ports.secrets import Secrets
from molecule_platform.ports.signing import SigningKeys
from molecule_platform.ports.tasks import Tasks
from molecule_platform.ports.tokens import Tokens
from molecule_platform.ports.webhooks import Outbox, PushConfigs
from molecule_platform.ports.workspaces import Workspaces

T = TypeVar("T")


class StorageDown(Exception):
    """The database does not answer, or does not take writes.

    What the caller wanted to write is not known to be written; it may try again.
    """


class Transaction(Protocol):
    """One all-or-nothing view of the store. Valid only inside the function it was given to."""

    @property
    def workspaces(self) -> Workspaces:
        """The org tree."""
        ...

    @property
    def tokens(self) -> Tokens:
        """Credentials of workspaces and organisations."""
        ...

    @property
    def people(self) -> People:
        """Organisations, users, sessions and login codes."""
        ...

    @property
    def mailbox(self) -> Mailbox:
        """Messages and their leases."""
        ...

    @property
    def tasks(self) -> Tasks:
        """Tasks and their events."""
        ...

    @property
    def push_configs(self) -> PushConfigs:
        """Who is told of which tasks."""
        ...

    @property
    def outbox(self) -> Outbox:
        """What is still to be told."""
        ...

    @property
    def delegations(self) -> Delegations:
        """Work that one asks of another."""
        ...

    @property
    def activity(self) -> ActivityLog:
        """What each workspace did and received."""
        ...

    @property
    def events(self) -> EventLog:
        """What happened, in order."""
        ...

    @property
    def secrets(self) -> Secrets:
        """Sealed values."""
        ...

    @property
    def plugins(self) -> Plugins:
        """What workspaces have, and what organisations pinned, allow and trust."""
        ...

    @property
    def audit(self) -> AuditLog:
        """Who touched what only few may touch."""
        ...

    @property
    def retention(self) -> Retention:
        """What may be forgotten."""
        ...

    @property
    def signing(self) -> SigningKeys:
        """The platform's own key pairs."""
        ...

    @property
    def grants(self) -> Grants:
        """Extra edges of the tree."""
        ...

    @property
    def presence(self) -> Presence:
        """Which replicas are alive."""
        ...

    @property
    def loops(self) -> LoopLeases:
        """Which replica does which periodic work."""
        ...

    @property
    def attempts(self) -> IdempotencyKeys:
        """First requests under idempotency keys."""
        ...

    @property
    def upkeep(self) -> MaintenanceQueries:
        """What the house looks after by itself."""
        ...

    def signal(self, subject: str) -> None:
        """Ring the bell of `subject` once this transaction is durable; not at all if it fails."""
        ...


class Storage(Protocol):
    """Durable state. Every write is serial: numbers drawn inside it grow in the order of the commits."""

    async def write(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` in a transaction that is on disk when this returns.

        All or nothing: an exception from `work` undoes it and is raised here; others of the same group are
        not touched. `work` may run on another thread, must not block or await, and may be run
        again from the start. Raises `StorageDown` when the database does not answer.
        """
        ...

    async def write_aside(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` in a transaction that does not wait for other writes.

        For rows that this replica alone writes: the work draws no numbers and sends no signals.
        """
        ...

    async def read(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` on a snapshot that holds every write that has returned. It must not write."""
        ...

    async def glance(self, work: Callable[[Transaction], T]) -> T:
        """Read a few rows by their keys, on the spot where that is quicker.

        What it sees is newest, but no snapshot: another write may come between two of its looks.
        """
        ...

    async def check(self) -> None:
        """Raise `StorageDown` while the database does not answer or does not take writes."""
        ...

    async def close(self) -> None:
        """Finish what is waiting, then let go."""
        ...
