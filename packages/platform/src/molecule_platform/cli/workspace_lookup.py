"""Workspaces as rows of the platform: finding one by id, name or path, and what lies below it."""

from collections.abc import Iterator, Sequence
from typing import Any

from molecule_platform.cli import client, problems
from molecule_wire import ids

Row = dict[str, Any]


def find(platform: client.Client, wanted: str, *, removed: bool = False) -> Row:
    """The one workspace with this id, this name, or this path, such as `lead/writer`.

    A removed one on demand. Names and paths are taken as they are written, then in any case.
    """
    query = {"include_removed": "true"} if removed else {}
    if ids.is_uuid(wanted):
        return platform.get(path(wanted), query).object()
    found = _matching(platform.every_row("/workspaces", {"q": wanted} | query), wanted, _name)
    if not found and "/" in wanted:
        rows = platform.every_row("/workspaces", query)
        places = WorkspaceIndex(rows)
        # A whole path first: it may also be the end of a longer one.
        found = _matching(rows, wanted, places.of) or [
            row for row in rows if places.of(row).casefold().endswith(f"/{wanted}".casefold())
        ]
    if len(found) == 1:
        return found[0]
    if not found:
        raise problems.Problem(
            f"no workspace is named {wanted!r}: `{platform.target.command('workspace list')}` shows them all",
            "workspace-not-found",
        )
    places = WorkspaceIndex(platform.every_row("/workspaces", query))
    listed = ", ".join(f"{places.of(row)} ({row['id']})" for row in found)
    raise problems.Problem(
        f"{len(found)} workspaces are named {wanted!r}: use a path or an id: {listed}", "ambiguous-name"
    )


def _name(row: Row) -> str:
    return str(row["name"])


def _matching(rows: Sequence[Row], wanted: str, named: Any) -> list[Row]:
    """Those of exactly this name; if there is none, those of it in other letters."""
    return [row for row in rows if named(row) == wanted] or [
        row for row in rows if named(row).casefold() == wanted.casefold()
    ]


class WorkspaceIndex:
    """Where workspaces are in the tree: their names from the top down."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = {row["id"]: row for row in rows}

    def of(self, row: Row) -> str:
        """The path of a workspace."""
        names = [_name(row)]
        while (above := self._rows.get(row["parent_id"])) is not None:
            names.append(_name(above))
            row = above
        return "/".join(reversed(names))


def path(workspace_id: str, rest: str = "") -> str:
    """The path of a workspace, or of something that belongs to it."""
    return f"/workspaces/{client.segment(workspace_id)}{rest}"


def walk(rows: Sequence[Row], top: str | None = None) -> Iterator[tuple[int, Row]]:
    """The rows below a workspace, or of the whole organisation, in order and with their depth."""
    known = {row["id"] for row in rows}
    children: dict[str | None, list[Row]] = {}
    for row in rows:
        children.setdefault(row["parent_id"] if row["parent_id"] in known else None, []).append(row)
    waiting = [(0, row) for row in reversed(children.get(top, []))]
    while waiting:
        depth, row = waiting.pop()
        yield depth, row
        waiting += [(depth + 1, child) for child in reversed(children.get(row["id"], []))]


def below(rows: Sequence[Row], workspace_id: str) -> list[Row]:
    """All descendants of a workspace."""
    return [row for _depth, row in walk(rows, workspace_id)]
