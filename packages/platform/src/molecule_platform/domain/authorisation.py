"""Who may call a route: each route lists rules, and one of them must hold."""

from dataclasses import dataclass
from typing import Literal

from molecule_platform.domain.access import Verdict
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.principals import Principal


@dataclass(frozen=True)
class Who:
    """One kind of caller, with the scope it needs."""

    kind: Literal["public", "any", "workspace", "self", "peer", "org"]
    scope: str = ""

    def __str__(self) -> str:
        return f"{self.kind}({self.scope})" if self.scope else self.kind


PUBLIC = Who("public")
ANY = Who("any")


def workspace_with(scope: str) -> Who:
    """Any workspace's token."""
    return Who("workspace", scope)


def self_with(scope: str) -> Who:
    """The workspace of the path itself."""
    return Who("self", scope)


def peer_with(scope: str) -> Who:
    """A workspace that the tree allows to reach the one of the path."""
    return Who("peer", scope)


def org_with(scope: str) -> Who:
    """A user or an organisation's token of the same organisation."""
    return Who("org", scope)


def permit(
    principal: Principal, rules: tuple[Who, ...], target_id: str | None, verdict: Verdict | None
) -> Who:
    """The rule that lets the principal in. Raises the refusal that says why there is none.

    `verdict` is what the tree says of a workspace calling another one, when a rule asks for it.
    """
    fitting: list[Who] = []
    for who in rules:
        if not _fits(principal, who, target_id, verdict):
            continue
        if not who.scope or principal.may(who.scope):
            return who
        fitting.append(who)
    if fitting:
        raise scope_required(fitting)
    if verdict is not None and not verdict.allowed:
        raise hierarchy_denied(principal, target_id, verdict)
    raise ApiError("forbidden", f"{principal.text} may not do this")


def _fits(principal: Principal, who: Who, target_id: str | None, verdict: Verdict | None) -> bool:
    mine = principal.workspace_id
    if who.kind == "self":
        return mine is not None and mine == target_id
    if who.kind == "peer":
        return mine is not None and mine != target_id and verdict is not None and verdict.allowed
    if who.kind in ("org", "workspace"):
        return (mine is None) == (who.kind == "org")
    return True


def scope_required(rules: list[Who]) -> ApiError:
    """The credential is right, its scopes are too few."""
    required = sorted({who.scope for who in rules})
    return ApiError(
        "scope-required", f"this needs the scope {' or '.join(required)}", required=list(required)
    )


def hierarchy_denied(principal: Principal, target_id: str | None, verdict: Verdict) -> ApiError:
    """The tree says no, and why."""
    explain = f"/access/explain?caller={principal.workspace_id}&target={target_id}"
    return ApiError(
        "hierarchy-denied",
        f"the org tree does not let {principal.workspace_id} reach {target_id}: {verdict.reason}",
        rule=verdict.rule,
        reason=verdict.reason,
        explain_url=explain,
    )
