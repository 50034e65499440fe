"""New workspaces: external ones wait for their agent, the others are started here."""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from uuid import uuid4

from molecule_platform.domain import access, authorisation, errors, principals, workspaces
from molecule_platform.domain.authorisation import Who
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.secrets import SealedSecret
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services.keys.secrets import MODEL_KEY
from molecule_platform.services.support import event_log, signals
from molecule_platform.services.workspaces import pause_rules, registration
from molecule_platform.services.workspaces.provisioning import Provisioning
from molecule_platform.services.workspaces.restarts import restart_row
from molecule_wire.registry import DEFAULT_RUNTIME

ADMIN_TIER = 4

Sealer = Callable[[Workspace, str, str, datetime], SealedSecret]
UrlCheck = Callable[[str], Awaitable[None]]


@dataclass(frozen=True)
class NewWorkspace:
    """What an operator asks for when creating a workspace."""

    name: str
    role: str = ""
    tier: int = 2
    runtime: str = "external"
    model: str = ""
    url: str = ""
    delivery_mode: str | None = None
    parent_id: str | None = None
    workspace_dir: str | None = None
    workspace_access: str = "none"
    budget_limit: int | None = None
    max_concurrent_tasks: int | None = None
    hibernation_idle_minutes: int | None = None
    visibility: str = "private"
    x: float = 0.0
    y: float = 0.0
    secrets: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    claimable: bool = True

    @property
    def external(self) -> bool:
        """Whether its agent runs somewhere else."""
        return self.runtime == "external"


@dataclass(frozen=True)
class CreatedWorkspace:
    """A new workspace and, when it is external, the token to hand to its agent, shown once."""

    workspace: Workspace
    auth_token: str


class WorkspaceCreator:
    """Brings workspaces into the tree."""

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        claim_window: timedelta | None,
        seal_secret: Sealer,
        check_url: UrlCheck,
        provisioning: Provisioning,
        roots: Collection[str] = (),
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._claim_window = claim_window
        self._seal_secret = seal_secret
        self._check_url = check_url
        self._provisioning = provisioning
        self._roots = roots

    async def create(self, plan: NewWorkspace, principal: Principal) -> CreatedWorkspace:
        """Keep a new workspace with all that belongs to it, or nothing.

        Who names no runtime gets an agent started here, or, where nothing can start one, a place for theirs.
        """
        if not plan.runtime:
            plan = replace(plan, runtime=DEFAULT_RUNTIME if self._provisioning.is_there else "external")
        check_plan(plan, self._roots)
        check_tier(plan.tier, principal)
        if plan.url:
            await self._check_url(plan.url)
        if not plan.external:
            self._provisioning.required()
        now = self._clock.now()
        # What we start ourselves gets its token with its process: nobody claims it from outside.
        window = self._claim_window if plan.claimable and plan.external else None
        workspace = _new_workspace(plan, principal.org_id, now).but(
            claim_until=None if window is None else now + window,
            claim_reads_secrets=principal.may("org.secrets"),
        )
        return await self._storage.write(lambda tx: self._create(tx, plan, workspace, principal, now))

    def _create(
        self, tx: Transaction, plan: NewWorkspace, workspace: Workspace, principal: Principal, now: datetime
    ) -> CreatedWorkspace:
        if plan.parent_id is not None:
            parent_of(tx, plan.parent_id, principal.org_id)
        tx.workspaces.insert(workspace)
        model = {MODEL_KEY: plan.model} if plan.model else {}
        for key, value in {**plan.secrets, **model}.items():
            tx.secrets.put(self._seal_secret(workspace, key, value, now))
        if not plan.external:
            pause_rules.refuse_below_paused(tx, workspace)
            event_log.note(
                tx, "WORKSPACE_PROVISIONING", workspace, now, name=plan.name, **restart_row(workspace)
            )
            tx.signal(signals.start(workspace.id))
            return CreatedWorkspace(workspace, "")
        scopes = principals.handed_out_scopes(principal.scopes)
        minted = registration.mint(tx, workspace, principal.text, now, scopes)
        event_log.note(tx, "WORKSPACE_AWAITING_AGENT", workspace, now, name=plan.name)
        return CreatedWorkspace(workspace, minted.secret)


def check_plan(plan: NewWorkspace, roots: Collection[str]) -> None:
    """The field rules of a new workspace."""
    workspaces.check_fields(vars(plan), roots)
    if plan.url and not plan.external:
        raise workspaces.invalid("url", "url is for external agents: the others tell theirs when they start")
    if plan.delivery_mode == "push" and not plan.url and plan.external:
        raise workspaces.invalid("delivery_mode", "push needs a url: give one, or let the agent register")


def check_tier(tier: int, principal: Principal) -> None:
    """The largest tier is the platform administrator's to give."""
    if tier >= ADMIN_TIER and not principal.is_admin:
        raise authorisation.scope_required([Who("org", "admin")])


def parent_of(tx: Transaction, parent_id: str, org_id: str, height: int = 0) -> Workspace:
    """The workspace to stand below, with so many levels of one's own: of the same organisation, and there."""
    parent = tx.workspaces.get(parent_id)
    if parent is None or parent.removed or parent.org_id != org_id:
        raise errors.workspace_not_found(parent_id)
    if len(tx.workspaces.ancestors(parent_id)) + 1 + height > access.MAX_DEPTH:
        sentence = f"a tree has at most {access.MAX_DEPTH} levels below its root: choose a parent further up"
        raise workspaces.invalid("parent_id", sentence)
    return parent


def _new_workspace(plan: NewWorkspace, org_id: str, now: datetime) -> Workspace:
    workspace_id = str(uuid4())
    return Workspace(
        id=workspace_id,
        org_id=org_id,
        name=plan.name,
        role=plan.role,
        tier=plan.tier,
        status="awaiting_agent" if plan.external else "provisioning",
        runtime=plan.runtime,
        external=plan.external,
        url=plan.url,
        delivery_mode=plan.delivery_mode or ("push" if plan.url else "poll"),
        parent_id=plan.parent_id,
        visibility=plan.visibility,
        workspace_dir=plan.workspace_dir,
        workspace_access=plan.workspace_access,
        budget_limit=plan.budget_limit,
        max_concurrent_tasks=plan.max_concurrent_tasks,
        hibernation_idle_minutes=plan.hibernation_idle_minutes,
        awareness_namespace=f"workspace:{workspace_id}",
        last_activity_at=None if plan.external else now,
        x=plan.x,
        y=plan.y,
        created_at=now,
        updated_at=now,
    )
