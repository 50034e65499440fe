"""Why may A not call B? The tree's answer, rule by rule, and the grants that add an edge to it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from molecule_platform.domain import access, authorisation, principals, visibility
from molecule_platform.domain.access import TreeMember, Verdict
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import Workspace, check_text, invalid
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.grants import AccessGrant
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services.identity import authorizer
from molecule_platform.services.support import event_log
from molecule_wire import ids, times

MAX_GRANT = timedelta(days=365)
MAX_REASON_LENGTH = 1000


@dataclass(frozen=True)
class GrantEdge:
    """What an operator asks for: a way from one workspace to another, for a while."""

    from_id: str
    to_id: str
    expires_at: datetime
    reason: str
    bidirectional: bool = False


class AccessGrants:
    """Explains the tree and keeps its extra edges."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock

    # Explaining

    async def check(self, principal: Principal, caller: str, target: str) -> dict[str, Any]:
        """Whether the call is allowed, by which rule, and why. An unknown id is just not allowed."""
        explained = await self.explain(principal, caller, target)
        return {name: explained[name] for name in ("allowed", "rule", "reason")}

    async def explain(self, principal: Principal, caller: str, target: str) -> dict[str, Any]:
        """Each rule in order with its verdict, and what would change it."""
        own = principal.workspace_id
        if own is not None and caller.removeprefix("workspace:").lower() != own:
            raise ApiError("forbidden", "a workspace may only ask about calls of its own")
        if own is None and not principal.may("org.read"):
            raise authorisation.scope_required([authorisation.org_with("org.read")])
        return await self._storage.read(lambda tx: self._explain(tx, principal, caller, target))

    def _explain(self, tx: Transaction, principal: Principal, caller: str, target: str) -> dict[str, Any]:
        now = self._clock.now()
        callee = _visible(tx, principal, target, now)
        if _is_person(caller):
            return _of_person(tx, principal, caller, target, callee, now)
        asker = _visible(tx, principal, caller, now)
        if asker is None or callee is None:
            missing = caller if asker is None else target
            verdict = Verdict(False, "denied", f"{missing[:64]} is unknown here")
            checked = [{"rule": "denied", "matched": True, "detail": verdict.reason}]
            shown = _shown(tx, principal, caller, asker, now), _shown(tx, principal, target, callee, now)
            return _explanation(verdict, *shown, None, checked, [])
        return self._of_workspaces(tx, principal, asker, callee, now)

    def _of_workspaces(
        self, tx: Transaction, principal: Principal, asker: Workspace, callee: Workspace, now: datetime
    ) -> dict[str, Any]:
        parents = authorizer.line_above(tx, asker) | authorizer.line_above(tx, callee)
        hidden = _hidden(tx, principal, parents, now)
        one, other = _masked(asker.as_member(), hidden), _masked(callee.as_member(), hidden)
        parents = {_mask(child, hidden): above and _mask(above, hidden) for child, above in parents.items()}
        granted = callee.id in tx.workspaces.granted_from(asker.id, now)
        verdict = access.judge(one, other, parents, granted)
        looked_at = access.steps(one, other, parents, granted)
        checked = [{"rule": s.rule, "matched": s.matched, "detail": s.detail} for s in looked_at]
        remedies = [] if verdict.allowed else _remedies(one, other, verdict)
        common = access.common_ancestor(asker.id, callee.id, parents)
        known = None if common in hidden.values() else common
        shown = _shown(tx, principal, asker.id, asker, now), _shown(tx, principal, callee.id, callee, now)
        return _explanation(verdict, *shown, known, checked, remedies)

    # Granting

    async def grant(self, principal: Principal, edge: GrantEdge) -> AccessGrant:
        """Add an edge to the tree, for a while."""
        now = self._clock.now()
        check_text("reason", edge.reason, MAX_REASON_LENGTH)
        if not edge.reason.strip():
            raise invalid("reason", "reason may not be empty: whoever reads the list later will ask")
        if not now < edge.expires_at <= now + MAX_GRANT:
            raise invalid("expires_at", "expires_at must be in the future and at most 365 days away")
        if edge.from_id == edge.to_id:
            raise invalid("to", "a workspace may always call itself")
        return await self._storage.write(lambda tx: self._grant(tx, principal, edge, now))

    def _grant(self, tx: Transaction, principal: Principal, edge: GrantEdge, now: datetime) -> AccessGrant:
        source = authorizer.living_of(tx, principal, edge.from_id, now)
        target = authorizer.living_of(tx, principal, edge.to_id, now)
        if source.org_id != target.org_id:
            raise invalid("to", "both workspaces belong to one organisation")
        grant = AccessGrant(
            id=ids.uuid7(),
            org_id=source.org_id,
            from_id=source.id,
            to_id=target.id,
            bidirectional=edge.bidirectional,
            expires_at=edge.expires_at,
            reason=edge.reason,
            created_by=principal.text,
            created_at=now,
        )
        tx.grants.insert(grant)
        event_log.note(tx, "ACCESS_GRANTED", source, now, **grant_row(grant))
        return grant

    async def grants(self, principal: Principal) -> list[AccessGrant]:
        """The organisation's grants that still hold, between workspaces that exist for who asks."""
        now = self._clock.now()

        def work(tx: Transaction) -> list[AccessGrant]:
            living = tx.grants.living(principal.org_id, now)
            hidden = _hidden(
                tx, principal, {end for grant in living for end in (grant.from_id, grant.to_id)}, now
            )
            return [grant for grant in living if hidden.keys().isdisjoint((grant.from_id, grant.to_id))]

        return await self._storage.read(work)

    async def revoke(self, principal: Principal, grant_id: str) -> None:
        """Take an edge away; calls under way are not cut."""
        now = self._clock.now()

        def work(tx: Transaction) -> None:
            grant = tx.grants.revoke(principal.org_id, grant_id, now)
            if grant is None:
                raise ApiError("not-found", f"there is no access grant {grant_id[:64]} here")
            source = tx.workspaces.get(grant.from_id)
            if source is not None:
                event_log.note(tx, "ACCESS_REVOKED", source, now, **grant_row(grant))

        await self._storage.write(work)


def grant_row(grant: AccessGrant) -> dict[str, Any]:
    """A grant on the wire."""
    return {
        "id": grant.id,
        "from": grant.from_id,
        "to": grant.to_id,
        "bidirectional": grant.bidirectional,
        "expires_at": times.format_time(grant.expires_at),
        "reason": grant.reason,
        "created_by": grant.created_by,
        "created_at": times.format_time(grant.created_at),
    }


def _is_person(caller: str) -> bool:
    return caller.startswith(("user:", "org-token:"))


def _visible(tx: Transaction, principal: Principal, named: str, now: datetime) -> Workspace | None:
    """The workspace of that id or principal, if it exists for who asks."""
    workspace_id = named.removeprefix("workspace:").lower()
    workspace = tx.workspaces.get(workspace_id) if ids.is_uuid(workspace_id) else None
    if workspace is None or not visibility.is_visible_to(principal, workspace, now):
        return None
    return workspace


def _hidden(
    tx: Transaction, principal: Principal, workspace_ids: Collection[str], now: datetime
) -> dict[str, str]:
    """Those that do not exist for who asks, each with what stands in its place in an explanation."""
    unclaimed = visibility.hidden_from(principal, now)
    if unclaimed is None:
        return {}
    found = sorted(tx.workspaces.unclaimed(workspace_ids, unclaimed) - {principal.workspace_id or ""})
    return {workspace_id: f"unknown-{number}" for number, workspace_id in enumerate(found, 1)}


def _mask(workspace_id: str, hidden: Mapping[str, str]) -> str:
    return hidden.get(workspace_id, workspace_id)


def _masked(member: TreeMember, hidden: Mapping[str, str]) -> TreeMember:
    parent_id = member.parent_id
    return member if parent_id is None else replace(member, parent_id=_mask(parent_id, hidden))


def _of_person(
    tx: Transaction, principal: Principal, caller: str, target: str, callee: Workspace | None, now: datetime
) -> dict[str, Any]:
    org_id = principal.org_id if callee is None else callee.org_id
    held = _scopes_of(tx, caller, org_id, now)
    verdict = _of_scopes(caller, target, callee, held)
    checked = [{"rule": verdict.rule, "matched": True, "detail": verdict.reason}]
    name = "unknown" if held is None else caller.partition(":")[2]
    shown: dict[str, Any] = {"id": caller[:64], "name": name, "path": []}
    return _explanation(verdict, shown, _shown(tx, principal, target, callee, now), None, checked, [])


def _of_scopes(caller: str, target: str, callee: Workspace | None, held: Collection[str] | None) -> Verdict:
    if callee is None or held is None:
        return Verdict(False, "denied", f"{(target if callee is None else caller)[:64]} is unknown here")
    if callee.removed:
        return Verdict(False, "removed", f"{callee.id} was removed")
    if not principals.implies(held, "org.send"):
        return Verdict(False, "denied", f"{caller[:64]} does not have the scope org.send")
    reason = "people and tokens of the organisation may call its workspaces, with the scope org.send"
    return Verdict(True, "org-principal", reason)


def _scopes_of(tx: Transaction, caller: str, org_id: str, now: datetime) -> Collection[str] | None:
    """What a person or a token of the organisation may do; None when the organisation has no such one."""
    kind, _, name = caller.partition(":")
    if kind == "user":
        person = tx.people.member(name, org_id)
        return None if person is None or person.disabled else person.scopes
    token = tx.tokens.get(name)
    if token is None or token.org_id != org_id or token.workspace_id is not None:
        return None
    ended = token.revoked_at is not None or (token.expires_at is not None and token.expires_at <= now)
    return None if ended else token.scopes


def _shown(
    tx: Transaction, principal: Principal, named: str, workspace: Workspace | None, now: datetime
) -> dict[str, Any]:
    """A workspace with the names from its root down to it."""
    if workspace is None:
        return {"id": named[:64], "name": "unknown", "path": []}
    line = list(authorizer.line_above(tx, workspace))
    found = (tx.workspaces.get(workspace_id) for workspace_id in reversed(line))
    known = (one for one in found if one is not None and visibility.is_visible_to(principal, one, now))
    return {"id": workspace.id, "name": workspace.name, "path": [one.name for one in known]}


def _remedies(caller: TreeMember, target: TreeMember, verdict: Verdict) -> list[dict[str, Any]]:
    """What an operator could do about a refusal by the tree."""
    if verdict.rule != "denied":
        return []
    request = {"from": caller.id, "to": target.id, "expires_at": "<time>", "reason": "<why>"}
    return [
        {"kind": "grant", "request": request},
        {"kind": "move", "workspace_id": caller.id, "parent_id": target.parent_id},
    ]


def _explanation(
    verdict: Verdict,
    caller: dict[str, Any],
    target: dict[str, Any],
    common: str | None,
    checked: list[dict[str, Any]],
    remedies: list[dict[str, Any]],
) -> dict[str, Any]:
    return {
        "allowed": verdict.allowed,
        "rule": verdict.rule,
        "reason": verdict.reason,
        "caller": caller,
        "target": target,
        "common_ancestor": common,
        "checked": checked,
        "remedies": remedies,
    }
