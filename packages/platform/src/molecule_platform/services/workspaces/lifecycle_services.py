"""Everything that moves workspaces through their life, put together."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.log import Log
from molecule_platform.ports.metrics import DeliveryMetrics
from molecule_platform.ports.provisioner import Provisioner
from molecule_platform.ports.secrets import SealedSecret
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services.keys import secrets
from molecule_platform.services.keys.secrets import Sealing
from molecule_platform.services.support import audit_log
from molecule_platform.services.support.audit_log import AuditActor
from molecule_platform.services.support.periodic_tasks import PeriodicTasks
from molecule_platform.services.support.signals import Signals
from molecule_platform.services.workspaces.hibernation import Hibernation
from molecule_platform.services.workspaces.lifecycle_service import Lifecycle
from molecule_platform.services.workspaces.process_monitor import (
    ProcessLiveness,
    StaleTaskCounts,
    StartTimeouts,
)
from molecule_platform.services.workspaces.provisioning import CREATED_BY, Provisioning, StartRules
from molecule_platform.services.workspaces.restarts import Restarts
from molecule_platform.services.workspaces.workspace_creation import UrlCheck, WorkspaceCreator
from molecule_platform.services.workspaces.workspace_updates import WorkspaceUpdater


@dataclass(frozen=True)
class LifecycleSettings:
    """What an operator decides about the lives of workspaces."""

    claim_window: timedelta | None = timedelta(hours=1)
    roots: tuple[str, ...] = ()
    idle_minutes: int = 0
    start: StartRules = field(default_factory=StartRules)


class LifecycleServices:
    """The services of a workspace's life, over one provisioner or none."""

    def __init__(
        self,
        storage: Storage,
        signals: Signals,
        clock: Clock,
        log: Log,
        provisioner: Provisioner | None,
        sealing: Sealing,
        check_url: UrlCheck,
        rules: LifecycleSettings,
        measures: DeliveryMetrics,
        replica_id: str,
    ) -> None:
        self._clock = clock
        self._sealing = sealing
        provisioning = Provisioning(
            storage, signals, clock, log, provisioner, self._opened, rules.start, replica_id
        )
        self.provisioning = provisioning
        self.creation = WorkspaceCreator(
            storage, clock, rules.claim_window, self._sealed, check_url, provisioning, rules.roots
        )
        self.changes = WorkspaceUpdater(storage, clock, rules.roots)
        self.lifecycle = Lifecycle(storage, clock, provisioning)
        self.restarts = Restarts(storage, clock, provisioning)
        self.hibernation = Hibernation(storage, clock, provisioning, rules.idle_minutes)
        self.late_starts = StartTimeouts(
            storage, clock, provisioning, rules.start.timeout_seconds, replica_id
        )
        self.process_check = ProcessLiveness(storage, clock, provisioning, self.restarts)
        self.phantom_busy = StaleTaskCounts(storage, clock, measures)

    def add_to(self, loops: PeriodicTasks) -> None:
        """Put what time does to workspaces among the loops of the house."""
        loops.add("provisioner", 5.0, self.late_starts.tick, exclusive=True)
        loops.add("processes", 15.0, self.process_check.tick, exclusive=True)
        loops.add("hibernation", 120.0, self.hibernation.tick, exclusive=True)
        loops.add("phantom-busy", 300.0, self.phantom_busy.tick, exclusive=True)

    def _sealed(self, workspace: Workspace, key: str, value: str, now: datetime) -> SealedSecret:
        return self._sealing.secret(workspace.org_id, workspace.id, key, value, now)

    def _opened(self, tx: Transaction, workspace: Workspace) -> dict[str, str]:
        """What a process may know; that it was opened is written down."""
        found = secrets.merged(tx, workspace.org_id, workspace)
        if found:
            place = secrets.place_of(workspace.org_id, workspace, "*")
            audit_log.note(
                tx, workspace.org_id, AuditActor(CREATED_BY, ""), "secret.read", place, self._clock.now()
            )
        return {secret.key: self._sealing.value(secret) for secret in found}
