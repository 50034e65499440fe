"""The tree laid out: statements that keep `lineage`, and that walk the tree at any depth."""

from sqlalchemy import bindparam, delete, insert, literal, select, union_all

from molecule_platform.domain.access import MAX_DEPTH
from molecule_platform.storage.columns import StringList, UtcTime
from molecule_platform.storage.prepared import Prepared
from molecule_platform.storage.tables import lineage, workspaces

_one = workspaces.c
_above = workspaces.alias("above")
_start = bindparam("workspace_id", type_=StringList())
_lifecycle_services = _one.status != "removed"

_root = select(_one.id).where(_one.id == _start, _lifecycle_services).cte("below", recursive=True)
_below = _root.union(select(_one.id).where(_one.parent_id == _root.c.id, _lifecycle_services))
_members = select(_below.c.id)

_nearest = (
    select(_one.parent_id.label("ancestor_id"), _one.id.label("descendant_id"), literal(1).label("distance"))
    .add_columns(_one.created_at)
    .where(_one.id.in_(_members), _one.parent_id.is_not(None))
    .cte("line", recursive=True)
)
_lines = _nearest.union_all(
    select(
        _above.c.parent_id, _nearest.c.descendant_id, _nearest.c.distance + 1, _nearest.c.created_at
    ).where(
        _above.c.id == _nearest.c.ancestor_id,
        _above.c.parent_id.is_not(None),
        _nearest.c.distance < MAX_DEPTH,
    )
)

_first_up = select(_one.parent_id.label("id")).where(_one.id == _start).cte("up", recursive=True)
_up = _first_up.union(select(_above.c.parent_id).where(_above.c.id == _first_up.c.id))

# The workspace and all below it that live.
SUBTREE = select(workspaces).where(_one.id.in_(_members))

_COLUMNS = ["ancestor_id", "descendant_id", "distance", "created_at"]
_parent = bindparam("parent_id", type_=StringList())
_born = bindparam("created_at", type_=UtcTime())

# Above a new workspace are its parent and whoever is above that one.
JOIN_PARENT = insert(lineage).from_select(
    _COLUMNS,
    union_all(
        select(_parent, _start, literal(1), _born),
        select(lineage.c.ancestor_id, _start, lineage.c.distance + 1, _born).where(
            lineage.c.descendant_id == _parent, lineage.c.distance < MAX_DEPTH
        ),
    ),
)

# Who is above the workspace, and above each of those below it, as their parents say now.
LAY_OUT = insert(lineage).from_select(
    _COLUMNS,
    select(_lines.c.ancestor_id, _lines.c.descendant_id, _lines.c.distance, _lines.c.created_at),
)
FORGET_SUBTREE = delete(lineage).where(lineage.c.descendant_id.in_(_members))
FORGET_ONE = delete(lineage).where(lineage.c.descendant_id == _start)

# A row if `ancestor_id` is above the workspace.
DESCENDS = select(_up.c.id).where(_up.c.id == bindparam("ancestor_id", type_=StringList()))

ANCESTORS = Prepared(
    select(lineage.c.ancestor_id).where(lineage.c.descendant_id == _start).order_by(lineage.c.distance),
    [lineage.c.ancestor_id],
)
