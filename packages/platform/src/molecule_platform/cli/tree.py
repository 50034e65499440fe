"""Workspaces as rows of the platform: finding one by id or name, and what lies below it."""

from collections.abc import Iterator, Sequence
from typing import Any

from molecule_platform.cli import client, problems
from molecule_wire import ids

Row = dict[str, Any]


def find(platform: client.Client, wanted: str, *, removed: bool = False) -> Row:
    """The workspace with this id or, if only one has it, this name; a removed one on demand."""
    query = {"include_removed": "true"} if removed else {}
    if ids.is_uuid(wanted):
        return platform.get(path(wanted), query).object()
    rows = platform.every_row("/workspaces", {"q": wanted} | query)
    named = [row for row in rows if row["name"] == wanted]
    if len(named) == 1:
        return named[0]
    if not named:
        raise problems.Problem(
            f"no workspace is named {wanted!r}: `{platform.target.command('workspace list')}` shows them all",
            "workspace-not-found",
        )
    listed = ", ".join(row["id"] for row in named)
    raise problems.Problem(
        f"{len(named)} workspaces are named {wanted!r}: use an id ({listed})", "ambiguous-name"
    )


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
