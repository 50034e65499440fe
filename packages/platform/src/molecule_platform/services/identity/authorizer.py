"""Deny by default: whether a principal may use a route on a workspace."""

from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Literal

from molecule_platform.domain import access, authorisation, errors, message_access, principals, visibility
from molecule_platform.domain.access import TreeMember, Verdict
from molecule_platform.domain.authorisation import Who
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.messages import Message
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services.identity import claim_window, organisations
from molecule_platform.services.support import audit_log
from molecule_platform.services.support.audit_log import AuditActor
from molecule_wire import ids, times
from molecule_wire.values import value

MAX_KNOWN = 4096


@value
class AccessDecision:
    """A caller that was let in, by which rule, and the workspace of the path."""

    principal: Principal
    by: Who
    workspace: Workspace | None = None


Presence = Literal["gone", "unclaimed", "known"]


class Authorizer:
    """Applies the rules that routes state."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock
        self._known: dict[str, Workspace] = {}

    async def authorize(
        self,
        principal: Principal,
        rules: tuple[Who, ...],
        workspace_id: str | None,
        *,
        removed_too: bool = False,
        to_send: bool = False,
    ) -> AccessDecision:
        """Let the principal in, or raise the refusal that says why not.

        With `removed_too` operators are let in to a workspace that is gone, and the handler answers for it.
        With `to_send` it is enough to know of the workspace what delivery decides by.
        """
        if workspace_id is None:
            return AccessDecision(principal, authorisation.permit(principal, rules, None, None))
        is_other = principal.workspace_id not in (None, workspace_id)
        ask_tree = is_other and any(who.kind == "peer" for who in rules)
        looking = partial(self._look, principal, workspace_id, ask_tree, to_send)
        workspace, verdict = await self._storage.glance(looking)
        if workspace.removed and not (removed_too and principal.workspace_id is None):
            raise errors.workspace_removed(workspace_id, removed_at(workspace))
        return AccessDecision(
            principal, authorisation.permit(principal, rules, workspace_id, verdict), workspace
        )

    def _look(
        self, principal: Principal, workspace_id: str, ask_tree: bool, to_send: bool, tx: Transaction
    ) -> tuple[Workspace, Verdict | None]:
        workspace = self._standing(tx, workspace_id) if to_send else tx.workspaces.get(workspace_id)
        if workspace is None or not visibility.is_visible_to(principal, workspace, self._clock.now()):
            raise errors.workspace_not_found(workspace_id)
        if not ask_tree or principal.workspace_id is None:
            return workspace, None
        return workspace, verdict(tx, principal.workspace_id, workspace, self._clock)

    def _standing(self, tx: Transaction, workspace_id: str) -> Workspace | None:
        """The workspace: what delivery decides by as it is now, the rest of it in its last version."""
        known = self._known.get(workspace_id)
        found = tx.workspaces.get(workspace_id) if known is None else tx.workspaces.standing(known)
        if found is not None and found is not known:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[workspace_id] = found
        return found

    async def check_org(self, principal: Principal, named: str | None) -> Principal:
        """The principal in the organisation that a request names: its own, any for the administrator."""
        if named is None or named == principal.org_id:
            return principal
        org = await self._storage.glance(lambda tx: organisations.org_named(tx, principal, named))
        return replace(principal, org_id=org.id)

    async def check_org_of(self, workspace_id: str, named: str) -> None:
        """Whoever names an organisation and shows no credential names that of the workspace."""

        def work(tx: Transaction) -> bool:
            workspace, org = tx.workspaces.get(workspace_id), tx.people.org_named(named)
            return workspace is None or (org is not None and org.id == workspace.org_id)

        if not await self._storage.glance(work):
            raise ApiError("not-found", "there is no such organisation")

    async def presence(self, workspace_id: str) -> Presence:
        """Return "gone" for an unknown or removed id. A stranger must not tell that from "unclaimed"."""
        workspace = await self._storage.glance(lambda tx: tx.workspaces.get(workspace_id))
        if workspace is None or workspace.removed:
            return "gone"
        return "unclaimed" if workspace.can_be_claimed(self._clock.now()) else "known"

    def is_public(self, workspace: Workspace) -> bool:
        """Whether everybody may know of a workspace and read its card."""
        is_there = not workspace.removed and not workspace.can_be_claimed(self._clock.now())
        return is_there and workspace.visibility == "public"

    async def acting_as(self, principal: Principal, named: str, request_id: str) -> Principal:
        """Check the workspace a request names for itself: a cross-check, never an identity.

        Whoever may act as a workspace is written down with the request; what follows bears the same id.
        """
        if named.startswith(principals.FORGED_PREFIXES):
            raise ApiError(
                "forged-identity", "no request may name itself a system, webhook or channel identity"
            )
        named = named.lower()
        if principal.workspace_id is not None:
            if principal.workspace_id != named:
                raise ApiError("identity-mismatch", "the named workspace is not the one of this token")
            return principal
        if not principal.may("org.impersonate"):
            raise authorisation.scope_required([Who("org", "org.impersonate")])
        workspace = await self.same_org(principal, named)
        actor, now = AuditActor(principal.text, request_id), self._clock.now()
        what = principals.workspace_principal(workspace.id)

        def work(tx: Transaction) -> None:
            audit_log.note(tx, workspace.org_id, actor, "act-as", what, now)
            claim_window.close_after_disclosure(tx, workspace, now)

        await self._storage.write(work)
        return replace(
            principal,
            text=what,
            org_id=workspace.org_id,
            scopes=principals.IMPERSONATED_SCOPES,
            name=workspace.name,
            token_id=None,
            acted_by=principal.text,
        )

    async def same_org(self, principal: Principal, workspace_id: str) -> Workspace:
        """A workspace of the principal's organisation, whatever the tree says."""
        workspace = None
        if ids.is_uuid(workspace_id):
            workspace = await self._storage.glance(lambda tx: tx.workspaces.get(workspace_id))
        if workspace is None or not visibility.is_visible_to(principal, workspace, self._clock.now()):
            raise errors.workspace_not_found(workspace_id)
        return workspace


def verdict(tx: Transaction, caller_id: str, target: Workspace, clock: Clock) -> Verdict:
    """What the tree says of one workspace calling another."""
    caller, callee, now = tx.workspaces.member(caller_id), target.as_member(), clock.now()
    if caller is None:
        return Verdict(False, "denied", f"{caller_id} is unknown here")
    if caller_id != target.id and target.can_be_claimed(now):
        return Verdict(False, "denied", f"{target.id} is unknown here")
    parents = line_above(tx, caller) | line_above(tx, callee)
    found = access.judge(caller, callee, parents)
    # A grant is the last rule: it is asked for only where no other speaks.
    if found.rule == "denied" and target.id in tx.workspaces.granted_from(caller_id, now):
        return access.judge(caller, callee, parents, granted=True)
    return found


def line_above(tx: Transaction, workspace: Workspace | TreeMember) -> dict[str, str | None]:
    """The workspace and those above it, each with its parent."""
    if workspace.parent_id is None:
        return {workspace.id: None}
    line = [workspace.id, *tx.workspaces.ancestors(workspace.id)]
    return dict(zip(line, [*line[1:], None], strict=True))


def living_of(tx: Transaction, principal: Principal, workspace_id: str, now: datetime) -> Workspace:
    """A workspace that exists for the principal and is not removed, inside a transaction."""
    workspace = tx.workspaces.get(workspace_id)
    if workspace is None or workspace.removed or not visibility.is_visible_to(principal, workspace, now):
        raise errors.workspace_not_found(workspace_id)
    return workspace


def may_read(tx: Transaction, principal: Principal, message: Message, now: datetime) -> bool:
    """Whether the principal may see a message, and the workspace it was sent to exists for it."""
    if not message_access.may_see(principal, message):
        return False
    hidden = visibility.hidden_from(principal, now)
    if principal.workspace_id is not None or hidden is None:
        return True
    return not tx.workspaces.unclaimed((message.target_id,), hidden)


def removed_at(workspace: Workspace) -> str | None:
    """When the workspace was removed, for the wire."""
    return None if workspace.removed_at is None else times.format_time(workspace.removed_at)
