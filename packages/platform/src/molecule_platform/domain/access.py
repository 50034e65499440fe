"""The tree is the firewall: who may call whom (the first matching rule decides), and why not."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from molecule_wire.values import value

MAX_DEPTH = 32

Relation = Literal["self", "parent", "sibling", "child", "ancestor", "descendant", "grant", "none"]


@value
class TreeMember:
    """What the access rule needs to know of a workspace."""

    id: str
    org_id: str
    parent_id: str | None
    isolated: bool = False
    removed: bool = False


@value
class Verdict:
    """Whether the call is allowed, by which rule, and a sentence that says why."""

    allowed: bool
    rule: str
    reason: str
    relation: Relation = "none"


Parents = Mapping[str, str | None]


def ancestors(member_id: str, parents: Parents) -> list[str]:
    """The chain above a member, nearest first; stops at a cycle and after 32 steps."""
    chain: list[str] = []
    current = parents.get(member_id)
    while current is not None and current not in chain and current != member_id and len(chain) < MAX_DEPTH:
        chain.append(current)
        current = parents.get(current)
    return chain


def subtree(root_id: str, parents: Parents) -> list[str]:
    """The root and everything below it, parents before children."""
    children: dict[str, list[str]] = {}
    for child, parent in parents.items():
        if parent is not None:
            children.setdefault(parent, []).append(child)
    found = {root_id: None}
    waiting = [root_id]
    for member in waiting:
        fresh = [child for child in children.get(member, []) if child not in found]
        found |= dict.fromkeys(fresh)
        waiting += fresh
    return list(found)


def relation_between(caller: TreeMember, target: TreeMember, parents: Parents) -> Relation:
    """What the target is to the caller in the tree."""
    if caller.id == target.id:
        return "self"
    above_caller = ancestors(caller.id, parents)
    if target.id in above_caller:
        return "parent" if above_caller[0] == target.id else "ancestor"
    above_target = ancestors(target.id, parents)
    if caller.id in above_target:
        return "child" if above_target[0] == caller.id else "descendant"
    if caller.parent_id == target.parent_id:
        return "sibling"
    return "none"


@value
class _Case:
    caller: TreeMember
    target: TreeMember
    parents: Parents
    granted: bool

    @property
    def relation(self) -> Relation:
        return relation_between(self.caller, self.target, self.parents)


def _removed(case: _Case) -> Verdict | None:
    if case.target.removed:
        return Verdict(False, "removed", f"{case.target.id} was removed")
    return None


def _other_org(case: _Case) -> Verdict | None:
    if case.caller.org_id != case.target.org_id:
        return Verdict(False, "org", f"{case.target.id} is unknown here")
    return None


def _self(case: _Case) -> Verdict | None:
    if case.caller.id == case.target.id:
        return Verdict(True, "self", "a workspace may call itself", "self")
    return None


def _isolated(case: _Case) -> Verdict | None:
    for member in (case.caller, case.target):
        if member.isolated:
            return Verdict(False, "isolated", f"{member.id} is isolated")
    return None


def _sibling(case: _Case) -> Verdict | None:
    if case.relation != "sibling":
        return None
    under = (
        f"share the parent {case.caller.parent_id}"
        if case.caller.parent_id
        else "are roots of one organisation"
    )
    return Verdict(True, "sibling", f"both {under}", "sibling")


def _ancestor(case: _Case) -> Verdict | None:
    if case.relation not in ("parent", "ancestor"):
        return None
    return Verdict(True, "ancestor", f"{case.target.id} is above {case.caller.id}", case.relation)


def _descendant(case: _Case) -> Verdict | None:
    if case.relation not in ("child", "descendant"):
        return None
    return Verdict(True, "descendant", f"{case.target.id} is below {case.caller.id}", case.relation)


def _grant(case: _Case) -> Verdict | None:
    if case.granted:
        return Verdict(True, "grant", "an access grant allows it", "grant")
    return None


def _denied(case: _Case) -> Verdict:
    pair = f"{case.caller.id} and {case.target.id}"
    reason = f"{pair} have different parents and neither is an ancestor of the other"
    return Verdict(False, "denied", reason)


RULES: tuple[tuple[str, Callable[[_Case], Verdict | None]], ...] = (
    ("removed", _removed),
    ("org", _other_org),
    ("self", _self),
    ("isolated", _isolated),
    ("sibling", _sibling),
    ("ancestor", _ancestor),
    ("descendant", _descendant),
    ("grant", _grant),
)


def judge(caller: TreeMember, target: TreeMember, parents: Parents, granted: bool = False) -> Verdict:
    """Apply the rules in order; the first that matches decides, and nothing matching means no."""
    case = _Case(caller, target, parents, granted)
    for _name, rule in RULES:
        verdict = rule(case)
        if verdict is not None:
            return verdict
    return _denied(case)


@dataclass(frozen=True)
class RuleStep:
    """One rule that was looked at: whether it spoke, and what it said."""

    rule: str
    matched: bool
    detail: str = ""


def steps(caller: TreeMember, target: TreeMember, parents: Parents, granted: bool = False) -> list[RuleStep]:
    """The rules in order, up to and with the one that decides."""
    case = _Case(caller, target, parents, granted)
    looked_at: list[RuleStep] = []
    for name, rule in RULES:
        verdict = rule(case)
        looked_at.append(RuleStep(name, verdict is not None, "" if verdict is None else verdict.reason))
        if verdict is not None:
            return looked_at
    return [*looked_at, RuleStep("denied", True, _denied(case).reason)]


def common_ancestor(caller_id: str, target_id: str, parents: Parents) -> str | None:
    """The nearest workspace that both are, or are below."""
    above_target = [target_id, *ancestors(target_id, parents)]
    return next((one for one in (caller_id, *ancestors(caller_id, parents)) if one in above_target), None)
