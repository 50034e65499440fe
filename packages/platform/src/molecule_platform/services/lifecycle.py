"""The operator's hand: create, pause, resume and remove workspaces, with everything below them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from molecule_platform.domain import access, credentials, messages, refusals, workspaces
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.refusals import Refusal
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.secrets import SealedSecret
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services import bells, journal, registration, settlement

ENROLMENT_LONGEST = timedelta(days=1)


@dataclass(frozen=True)
class Plan:
    """What an operator asks for when creating a workspace."""

    name: str
    role: str = ""
    tier: int = 2
    runtime: str = "external"
    parent_id: str | None = None
    budget_limit: int | None = None
    max_concurrent_tasks: int = 1
    visibility: str = "private"
    x: float = 0.0
    y: float = 0.0
    secrets: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Created:
    """A new workspace and the token to hand to its agent, shown once."""

    workspace: Workspace
    auth_token: str


@dataclass(frozen=True)
class Removal:
    """What a removal took along."""

    removed: int


Sealer = Callable[[Workspace, str, str, datetime], SealedSecret]


class Lifecycle:
    """Moves workspaces through their states, each step in one transaction with its events."""

    def __init__(self, storage: Storage, clock: Clock, claim_window: timedelta, seal_secret: Sealer) -> None:
        self._storage = storage
        self._clock = clock
        self._claim_window = claim_window
        self._seal_secret = seal_secret

    async def create(self, plan: Plan, principal: Principal) -> Created:
        """Create an external workspace that waits for its agent."""
        check_plan(plan)
        if plan.runtime != "external":
            raise Refusal(
                "no-provisioner", "this platform starts no agents itself: create the workspace as external"
            )
        now = self._clock.now()
        workspace = _new_workspace(plan, principal.org_id, now, now + self._claim_window)

        def work(tx: Transaction) -> Created:
            if plan.parent_id is not None:
                _parent_of(tx, plan.parent_id, principal.org_id)
            tx.workspaces.insert(workspace)
            for key, value in plan.secrets.items():
                tx.secrets.put(self._seal_secret(workspace, key, value, now))
            token, _recovery = registration.mint(tx, workspace, principal.text, now)
            journal.note(tx, "WORKSPACE_AWAITING_AGENT", workspace, now, name=workspace.name)
            return Created(workspace, token)

        return await self._storage.write(work)

    async def pause(self, workspace: Workspace) -> int:
        """Pause a workspace and all below it; what an agent held waits again, and mail is still accepted."""
        now = self._clock.now()

        def work(tx: Transaction) -> int:
            paused = 0
            for member in _subtree(tx, workspace):
                if member.status != "paused":
                    after = member.changed(status="paused", updated_at=now)
                    journal.move(tx, member, after, now, name=member.name)
                    _release_leases(tx, member, now)
                    paused += 1
            return paused

        return await self._storage.write(work)

    async def resume(self, workspace: Workspace) -> int:
        """Undo a pause, for everything below too; each agent is online again at its next heartbeat."""
        now = self._clock.now()

        def work(tx: Transaction) -> int:
            current = tx.workspaces.get(workspace.id)
            if current is None or current.status != "paused":
                raise Refusal("not-found", f"workspace {workspace.id} is not paused")
            _refuse_under_paused_parent(tx, current)
            resumed = [member for member in _subtree(tx, current) if member.status == "paused"]
            for member in resumed:
                after = member.changed(status="awaiting_agent", liveness_expires_at=None, updated_at=now)
                tx.workspaces.update(after)
                journal.note(tx, "WORKSPACE_RESUMED", after, now, name=member.name, status=after.status)
                tx.signal(bells.mail(member.id))
            return len(resumed)

        return await self._storage.write(work)

    async def remove(self, workspace: Workspace, confirmed: bool) -> Removal:
        """Remove a workspace and all below it for good. Senders of open messages learn it."""
        now = self._clock.now()

        def work(tx: Transaction) -> Removal:
            members = _subtree(tx, workspace)
            if len(members) > 1 and not confirmed:
                raise confirmation_required(members[1:])
            for member in reversed(members):
                _remove_one(tx, member, now, len(members) - 1)
            tx.signal(bells.CREDENTIALS)
            return Removal(len(members))

        return await self._storage.write(work)

    async def new_enrolment(self, workspace: Workspace, seconds: int) -> tuple[str, datetime]:
        """A single-use token with which a replaced machine joins again."""
        now = self._clock.now()
        expires_at = now + timedelta(seconds=seconds)
        token = credentials.new_token()
        await self._storage.write(
            lambda tx: tx.tokens.insert_enrolment(
                workspace.id, workspace.org_id, credentials.digest(token), now, expires_at
            )
        )
        return token, expires_at


def check_plan(plan: Plan) -> None:
    """The field rules of a new workspace."""
    if not plan.name.strip():
        raise workspaces.invalid("name", "name may not be empty")
    workspaces.check_label("name", plan.name, 255)
    workspaces.check_label("role", plan.role, 1000)
    workspaces.check_text("runtime", plan.runtime, 100)
    workspaces.check_choice("visibility", plan.visibility, workspaces.VISIBILITIES)
    for name, value, least, most in (
        ("tier", plan.tier, 1, 4),
        ("max_concurrent_tasks", plan.max_concurrent_tasks, 1, 1000),
        ("budget_limit", plan.budget_limit or 0, 0, 10**12),
    ):
        if not least <= value <= most:
            raise workspaces.invalid(name, f"{name} is between {least} and {most}")


def _new_workspace(plan: Plan, org_id: str, now: datetime, claim_until: datetime) -> Workspace:
    workspace_id = str(uuid4())
    return Workspace(
        id=workspace_id,
        org_id=org_id,
        name=plan.name,
        role=plan.role,
        tier=plan.tier,
        runtime="external",
        parent_id=plan.parent_id,
        visibility=plan.visibility,
        budget_limit=plan.budget_limit,
        max_concurrent_tasks=plan.max_concurrent_tasks,
        awareness_namespace=f"workspace:{workspace_id}",
        claim_until=claim_until,
        x=plan.x,
        y=plan.y,
        created_at=now,
        updated_at=now,
    )


def _parent_of(tx: Transaction, parent_id: str, org_id: str) -> Workspace:
    parent = tx.workspaces.get(parent_id)
    if parent is None or parent.removed or parent.org_id != org_id:
        raise refusals.workspace_not_found(parent_id)
    return parent


def _subtree(tx: Transaction, workspace: Workspace) -> list[Workspace]:
    found = access.subtree(workspace.id, tx.workspaces.parents(workspace.org_id))
    members = (tx.workspaces.get(member_id) for member_id in found)
    return [member for member in members if member is not None and not member.removed]


def _release_leases(tx: Transaction, member: Workspace, now: datetime) -> None:
    for message in tx.mailbox.list_leased(member.id, messages.LEASE_KINDS):
        tx.mailbox.release(message.id, message.lease_epoch, now)


def _refuse_under_paused_parent(tx: Transaction, workspace: Workspace) -> None:
    for above in access.ancestors(workspace.id, tx.workspaces.parents(workspace.org_id)):
        parent = tx.workspaces.get(above)
        if parent is not None and parent.status == "paused":
            raise Refusal("parent-paused", f"its parent {parent.name} is paused: resume that one first")


def _remove_one(tx: Transaction, member: Workspace, now: datetime, cascade: int) -> None:
    after = member.changed(status="removed", removed_at=now, updated_at=now, url="", liveness_expires_at=None)
    journal.move(tx, member, after, now, name=member.name, cascade_deleted=cascade)
    tx.tokens.revoke_all(member.id, now, "workspace-removed")
    for waiting in tx.mailbox.waiting(member.id):
        outcome = messages.cancellation("workspace-removed", f"workspace {member.name} was removed")
        settlement.settle(tx, waiting.id, outcome, now)


def confirmation_required(children: list[Workspace]) -> Refusal:
    """Removing a parent says first what it will take along."""
    listed: list[Any] = [{"id": child.id, "name": child.name} for child in children]
    sentence = f"this also removes {len(children)} workspaces below it: repeat with confirm=true"
    return Refusal(
        "confirmation-required",
        sentence,
        status="confirmation_required",
        message=sentence,
        children=listed,
        children_count=len(children),
    )
