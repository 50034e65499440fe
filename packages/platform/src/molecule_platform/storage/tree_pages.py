"""Pages of the tree: an organisation's, and those whom a workspace may call, as short scans of indexes."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, case, exists, func, literal, or_, select, tuple_, union_all

from molecule_platform.domain.access import Relation
from molecule_platform.domain.visibility import Unclaimed
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.workspaces import WorkspaceFilter
from molecule_platform.storage.tables import lineage, workspaces

_one = workspaces.c
_line = lineage.c
_Condition = ColumnElement[bool]


@dataclass(frozen=True)
class IndexScan:
    """Some workspaces, and the columns of the index that brings them in the order of creation."""

    condition: _Condition
    relation: Relation | ColumnElement[str]
    # The last two are the time and the id; what stands before them is the same in every row.
    order: tuple[ColumnElement[Any], ...] = (_one.created_at, _one.id)
    along_lineage: bool = False

    def page(self, wanted: WorkspaceFilter) -> Select[*tuple[Any, ...]]:
        """The rows after the place where the last page ended."""
        created_at, identifier = place = self.order[-2:]
        relation = literal(self.relation) if isinstance(self.relation, str) else self.relation
        columns = (created_at.label("created_at"), identifier.label("id"), relation.label("relation"))
        rows = select(*columns).where(self.condition, *_conditions(wanted))
        if self.along_lineage:
            rows = rows.select_from(lineage.join(workspaces, _line.descendant_id == _one.id))
        if wanted.after is not None:
            after = (literal(wanted.after.created_at, _one.created_at.type), literal(wanted.after.id))
            rows = rows.where(tuple_(*place) > tuple_(*after))
        return rows.order_by(*self.order).limit(wanted.limit)


def page_of_org(org_id: str, wanted: WorkspaceFilter) -> Select[*tuple[Any, ...]]:
    """The workspaces of an organisation."""
    if wanted.parent_id is None:
        return IndexScan(_one.org_id == org_id, "none").page(wanted)
    return IndexScan(_one.org_id == org_id, "none", _FAMILY_ORDER).page(wanted)


def scans_of(
    caller: Workspace, relations: Collection[Relation], named: Mapping[str, Collection[str]]
) -> list[IndexScan]:
    """Those whom the access rule lets the caller call; no workspace is found by two of the scans.

    `named` holds the few whom no index finds: those above the parent, and those that grants lead to.
    """
    kinds = {"self"}.intersection(relations) if caller.isolated else set[str](relations)
    kinds -= {kind for kind, members in named.items() if not members}
    if kinds >= _BELOW:
        kinds = (kinds - _BELOW) | {"below"}
    return [scan(caller, named.get(kind, ())) for kind, scan in _SCANS.items() if kind in kinds]


def page_of_reach(scans: Collection[IndexScan], wanted: WorkspaceFilter) -> Select[*tuple[Any, ...]]:
    """What the scans find, merged."""
    found = union_all(*(select(scan.page(wanted).subquery()) for scan in scans)).subquery()
    return select(found).order_by(found.c.created_at, found.c.id).limit(wanted.limit)


def _conditions(wanted: WorkspaceFilter) -> list[_Condition]:
    conditions: list[_Condition] = []
    if wanted.statuses:
        conditions.append(_one.status.in_(wanted.statuses))
    if not wanted.include_removed:
        conditions.append(_one.status != "removed")
    if wanted.parent_id is not None:
        conditions.append(_one.parent_id == wanted.parent_id)
    if wanted.hidden is not None:
        conditions.append(~is_unclaimed(wanted.hidden))
    return conditions


def is_unclaimed(which: Unclaimed) -> _Condition:
    """`Unclaimed.covers` for those that are not removed; never unknown, so that it can be negated."""
    now = literal(which.at, _one.claim_until.type)
    can_be_claimed = _one.claimed_at.is_(None) & (func.coalesce(_one.claim_until, now) > now)
    return can_be_claimed & _one.claim_reads_secrets if which.only_with_secrets else can_be_claimed


# PostgreSQL takes a missing parent for the same in every row only when the order names it.
_FAMILY_ORDER = (_one.parent_id, _one.created_at, _one.id)
_LINEAGE_ORDER = (_line.created_at, _line.descendant_id)


def _callable_by(caller: Workspace) -> _Condition:
    return (_one.org_id == caller.org_id) & _one.isolated.is_(False) & (_one.id != caller.id)


def _one_of(caller: Workspace, named: Collection[str]) -> _Condition:
    """The few by their key: no index has this form of the organisation, so none is walked for their sake."""
    in_org = _one.org_id.concat("") == caller.org_id
    return _one.id.in_(named) & in_org & _one.isolated.is_(False) & (_one.id != caller.id)


def _has_parent(parent_id: str | None) -> _Condition:
    return _one.parent_id.is_(None) if parent_id is None else _one.parent_id == parent_id


def _itself(caller: Workspace, _named: Collection[str]) -> IndexScan:
    return IndexScan(_one.id == caller.id, "self")


def _siblings(caller: Workspace, _named: Collection[str]) -> IndexScan:
    return IndexScan(_callable_by(caller) & _has_parent(caller.parent_id), "sibling", _FAMILY_ORDER)


def _children(caller: Workspace, _named: Collection[str]) -> IndexScan:
    return IndexScan(_callable_by(caller) & _has_parent(caller.id), "child", _FAMILY_ORDER)


def _descendants(caller: Workspace, _named: Collection[str]) -> IndexScan:
    below = (_line.ancestor_id == caller.id) & (_line.distance > 1)
    return IndexScan(_callable_by(caller) & below, "descendant", _LINEAGE_ORDER, along_lineage=True)


def _below(caller: Workspace, _named: Collection[str]) -> IndexScan:
    """Children and descendants in one scan: to leave either out of the lineage means to pass it by."""
    relation = case((_line.distance == 1, "child"), else_="descendant")
    below = _callable_by(caller) & (_line.ancestor_id == caller.id)
    return IndexScan(below, relation, _LINEAGE_ORDER, along_lineage=True)


def _parent(caller: Workspace, _named: Collection[str]) -> IndexScan:
    return IndexScan(_callable_by(caller) & (_one.id == caller.parent_id), "parent")


def _ancestors(caller: Workspace, named: Collection[str]) -> IndexScan:
    return IndexScan(_one_of(caller, named), "ancestor")


def _granted(caller: Workspace, named: Collection[str]) -> IndexScan:
    above, below = _line.ancestor_id, _line.descendant_id
    lineal = or_((above == caller.id) & (below == _one.id), (above == _one.id) & (below == caller.id))
    strangers = ~exists().where(lineal) & _one.parent_id.is_distinct_from(caller.parent_id)
    return IndexScan(_one_of(caller, named) & strangers, "grant")


_BELOW = frozenset({"child", "descendant"})
_SCANS: Mapping[str, Callable[[Workspace, Collection[str]], IndexScan]] = {
    "self": _itself,
    "parent": _parent,
    "sibling": _siblings,
    "child": _children,
    "ancestor": _ancestors,
    "descendant": _descendants,
    "below": _below,
    "grant": _granted,
}
