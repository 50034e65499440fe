"""`molecule inbox`: what waits for an agent, without taking any of it."""

import functools
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.table import Table

from molecule_platform.cli import output, problems, workspace_lookup
from molecule_platform.cli.session import ApiSession, command
from molecule_platform.cli.workspaces import Reference

inbox = typer.Typer(no_args_is_help=True, help="What waits for an agent.")

MOST = 100


@command(inbox, "list", serves=("inbox.peek",))
def list_items(
    session: ApiSession,
    workspace: Reference,
    dead: Annotated[bool, typer.Option("--dead", help="What nobody tries again, instead.")] = False,
    kind: Annotated[
        str | None, typer.Option(help="Only of this kind, such as message or delegation.")
    ] = None,
    peer: Annotated[str | None, typer.Option(metavar="WORKSPACE", help="Only from this one.")] = None,
    context: Annotated[str | None, typer.Option(help="Only of this conversation.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=MOST, help="How many at most.")] = 20,
) -> None:
    """List what waits for an agent, the next one first. Looking takes nothing away."""
    row = workspace_lookup.find(session.client, workspace)
    asked = {
        "status": "dead" if dead else None,
        "kind": kind,
        "peer_id": None if peer is None else workspace_lookup.find(session.client, peer)["id"],
        "context_id": context,
        "limit": str(limit),
    }
    query = {name: value for name, value in asked.items() if value is not None}
    seen = session.client.get(workspace_lookup.path(row["id"], "/inbox"), query).object()
    session.answer(seen, functools.partial(_listed, session, row, seen, dead), _counts(row, seen))


@command(inbox, "show", serves=("inbox.peek",))
def show(
    session: ApiSession,
    workspace: Reference,
    message: Annotated[str, typer.Argument(metavar="MESSAGE", help="Its id, or that of its activity row.")],
) -> None:
    """Show one item of an inbox, also a dead one, with all that was said."""
    row = workspace_lookup.find(session.client, workspace)
    item = _found(session, row, message)
    session.answer(item, functools.partial(_facts, item), f"\n{item['text'] or 'It has no words.'}")


def _found(session: ApiSession, row: workspace_lookup.Row, name: str) -> dict[str, Any]:
    for status in ("open", "dead"):
        query = {"limit": str(MOST), "status": status}
        seen = session.client.get(workspace_lookup.path(row["id"], "/inbox"), query).object()
        for item in seen["messages"]:
            if name in (item["message_id"], item["activity_id"]):
                return item
    looks = session.hint(f"message show {name}")
    raise problems.Problem(
        f"{name} is not in the inbox of {row['name']}: `{looks}` tells what became of it", "message-not-found"
    )


def _listed(
    session: ApiSession, row: workspace_lookup.Row, seen: dict[str, Any], dead: bool
) -> RenderableType:
    if seen["messages"]:
        return _table(seen["messages"])
    if dead:
        return f"No dead letters of {row['name']}: whatever failed was tried again with success."
    step = (session.hint(f"send {row['name']} 'Hello'"), "puts something in")
    return f"Nothing waits for {row['name']}.\n{output.steps([step])}"


def _table(items: list[dict[str, Any]]) -> Table:
    lines = [
        (
            output.moment(item["created_at"]),
            item["peer_name"] or item["caller"],
            item["kind"],
            str(item["attempt"]),
            item["message_id"],
            _details(item),
        )
        for item in items
    ]
    if output.is_narrow():
        return output.table(("from", "id", "details"), [(line[1], *line[4:]) for line in lines])
    return output.table(("when", "from", "kind", "attempt", "id", "details"), lines)


def _details(item: dict[str, Any]) -> str:
    why = f" — {item['error_detail']}" if item["error_detail"] else ""
    return output.one_line(f"{item['text']}{why}")


def _counts(row: workspace_lookup.Row, seen: dict[str, Any]) -> str:
    return (
        f"{row['name']}: {seen['pending']} waiting, {seen['leased']} in work, "
        f"{output.counted(seen['dead'], 'dead letter')}."
    )


def _facts(item: dict[str, Any]) -> Table:
    error: dict[str, Any] = item.get("error") or {}
    delegation: dict[str, Any] = item["delegation"] or {}
    return output.facts(
        [
            ("from", item["peer_name"] or item["caller"]),
            ("kind", item["kind"]),
            ("received", output.moment(item["created_at"])),
            ("deadline", output.moment(item["deadline_at"])),
            ("attempts", str(item["attempt"])),
            ("context", item["context_id"]),
            ("task", item["task_id"]),
            ("delegation", str(delegation.get("id", ""))),
            ("error", str(error.get("message", ""))),
        ]
    )
