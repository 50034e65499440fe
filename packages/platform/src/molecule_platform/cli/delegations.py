"""`molecule delegation`: work that one workspace asked of another, and what became of it."""

from typing import Annotated, Any

import typer
from rich.console import RenderableType

from molecule_platform.cli import client, output, workspace_lookup
from molecule_platform.cli.session import ApiSession, command
from molecule_platform.cli.workspaces import Reference

delegations = typer.Typer(no_args_is_help=True, help="Work that one workspace asked of another.")

OPEN = ("pending", "dispatched", "queued")
MAX_WAIT = 60.0

Id = Annotated[str, typer.Argument(metavar="DELEGATION", help="Its id.")]


@command(delegations, "create", serves=("delegation.create",))
def create(
    session: ApiSession,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="Id or name of the workspace that asks.")],
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="Id or name of the workspace that is asked.")
    ],
    task: Annotated[str, typer.Argument(help="What is to be done.")],
    deadline: Annotated[
        int, typer.Option(metavar="SECONDS", min=1, max=604_800, help="How long it may take.")
    ] = 1800,
) -> None:
    """Ask a workspace to do something, in the name of another one."""
    source_id, target_id = (workspace_lookup.find(session.client, name)["id"] for name in (source, target))
    body = {"target_id": target_id, "task": task, "deadline_seconds": deadline}
    made = session.client.post(workspace_lookup.path(source_id, "/delegations"), body).object()
    looks = session.hint(f"delegation show {made['delegation_id']} --wait 60")
    done = f"Delegated until {output.moment(made['deadline_at'])}. `{looks}` waits for the result."
    session.answer(made, done, *([f"Note: {made['warning']}."] if "warning" in made else []))


@command(delegations, "list", serves=("delegation.list",))
def list_delegations(
    session: ApiSession,
    workspace: Reference,
    role: Annotated[str, typer.Option(help="source, target or any: who asked, or who was asked.")] = "any",
    status: Annotated[
        str | None, typer.Option(help="pending, dispatched, queued, completed or failed.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many at most.")] = 50,
) -> None:
    """List the delegations of a workspace, newest first."""
    row = workspace_lookup.find(session.client, workspace)
    query = {"role": role, "limit": str(limit)} | ({} if status is None else {"status": status})
    rows = session.client.get(workspace_lookup.path(row["id"], "/delegations"), query).rows()
    names = {one["id"]: one["name"] for one in session.client.every_row("/workspaces", {})} if rows else {}
    header = ("when", "from", "to", "status", "id", "details")
    empty = f"No delegations of {row['name']}."
    session.answer(rows, output.table(header, [_line(one, names) for one in rows]) if rows else empty)


def _line(row: dict[str, Any], names: dict[str, str]) -> tuple[Any, ...]:
    return (
        output.moment(row["created_at"]),
        names.get(row["source_id"], row["source_id"]),
        names.get(row["target_id"], row["target_id"]),
        output.status(row["outcome"] or row["status"]),
        row["id"],
        output.one_line(row.get("error") or row["summary"]),
    )


@command(delegations, "show", serves=("delegation.show",))
def show(
    session: ApiSession,
    delegation: Id,
    wait: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, max=MAX_WAIT, help="How long to wait for its end.")
    ] = 0.0,
) -> None:
    """Show a delegation, and its result once there is one."""
    path = f"/delegations/{client.segment(delegation)}"
    timeout = wait + client.TIMEOUT_SECONDS
    found = session.client.get(path, {"wait": f"{wait:.3f}"}, timeout=timeout).object()
    session.answer(found, *_told(session, found))


@command(delegations, "cancel", serves=("delegation.cancel",))
def cancel(
    session: ApiSession,
    delegation: Id,
    reason: Annotated[str | None, typer.Option(help="Why; both sides are told.")] = None,
) -> None:
    """Call off a delegation and all that came of it."""
    path = f"/delegations/{client.segment(delegation)}/cancel"
    done = session.client.post(path, {} if reason is None else {"reason": reason}).object()
    session.answer(done, "The delegation is called off, with all that came of it.")


def _told(session: ApiSession, found: dict[str, Any]) -> list[RenderableType]:
    error: dict[str, Any] = found["error"] or {}
    facts = output.facts(
        [
            ("status", output.status(found["outcome"] or found["status"])),
            ("from", found["source"]),
            ("to", found["target_id"]),
            ("task", output.one_line(found["task"])),
            ("deadline", output.moment(found["deadline_at"])),
            ("attempts", str(found["attempts"])),
            ("missing", ", ".join(found["missing"])),
            ("evidence", output.counted(len(found["evidence"]), "piece") if found["evidence"] else ""),
            ("error", error.get("message", "")),
        ]
    )
    shown: list[RenderableType] = [facts]
    if found["result"] is not None:
        shown.append(found["result"]["text"] or "It was done without words.")
    elif found["status"] in OPEN:
        ends = session.hint(f"delegation cancel {found['delegation_id']}")
        shown.append(output.steps([(ends, "calls it off")]))
    return shown
