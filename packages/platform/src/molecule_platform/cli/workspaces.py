"""`molecule workspace`: create, look, pause, resume, delete, enrol."""

import sys
from typing import Annotated, Any

import typer
from rich.text import Text

from molecule_platform.cli import client, problems, screen, tree
from molecule_platform.cli.session import Session, command

workspaces = typer.Typer(no_args_is_help=True, help="The members of the organisation.")

Reference = Annotated[str, typer.Argument(metavar="WORKSPACE", help="An id, or a name that only one has.")]

EMPTY = (
    "No workspaces yet.\n\n"
    "  molecule workspace create helper    makes the first one and shows how an agent connects\n"
    "  molecule up --demo                  starts a small organisation to look at"
)


@command(workspaces, "create")
def create(
    session: Session,
    name: Annotated[str, typer.Argument(help="What others call it.")],
    role: Annotated[str, typer.Option(help="What it is for, in a sentence.")] = "",
    parent: Annotated[
        str | None, typer.Option(metavar="WORKSPACE", help="The workspace above it in the tree.")
    ] = None,
) -> None:
    """Create a workspace and show how an agent joins.

    The agent may run anywhere. Its token is shown this once.
    """
    body: dict[str, Any] = {"name": name, "role": role, "external": True}
    if parent is not None:
        body["parent_id"] = tree.find(session.client, parent)["id"]
    made = session.client.post("/workspaces", body).object()
    session.answer(made, *_welcome(name, made["connection"]))


@command(workspaces, "list")
def list_all(session: Session) -> None:
    """List the organisation as a tree."""
    rows = session.client.every_row("/workspaces")
    session.answer(rows, lambda: _listing(rows) if rows else EMPTY)


@command(workspaces, "show")
def show(session: Session, workspace: Reference) -> None:
    """Show one workspace."""
    row = tree.find(session.client, workspace)
    session.answer(row, lambda: screen.facts(_details(row)))


@command(workspaces, "pause")
def pause(session: Session, workspace: Reference) -> None:
    """Pause a workspace and all below it.

    Messages to them are kept and wait.
    """
    row = tree.find(session.client, workspace)
    done = session.client.post(f"{_path(row)}/pause").object()
    session.answer(
        done | {"id": row["id"]},
        f"{row['name']} is paused{_along(done['paused_count'])}. Messages to it are kept; "
        f"`molecule workspace resume {row['name']}` goes on.",
    )


@command(workspaces, "resume")
def resume(session: Session, workspace: Reference) -> None:
    """Undo a pause, for all below it too."""
    row = tree.find(session.client, workspace)
    done = session.client.post(f"{_path(row)}/resume").object()
    session.answer(
        done | {"id": row["id"]},
        f"{row['name']} may go on{_along(done['resumed_count'])}. It is online again when its agent reports.",
    )


@command(workspaces, "delete")
def delete(
    session: Session,
    workspace: Reference,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove a workspace for good, with all below it."""
    row = tree.find(session.client, workspace)
    children = tree.below(session.client.every_row("/workspaces"), row["id"])
    if not yes:
        _ask_before_removal(session, row, children)
    query = {"confirm": "true"} if children else {}
    done = session.client.delete(_path(row), query).object()
    session.answer(
        done | {"id": row["id"]}, f"{row['name']} is removed{_along(1 + done['cascade_deleted'])}."
    )


@command(workspaces, "enrol")
def enrol(
    session: Session,
    workspace: Reference,
    ttl: Annotated[int, typer.Option(metavar="SECONDS", help="How long the token can be used.")] = 3600,
) -> None:
    """Let an agent on a new machine join again.

    The token it makes works once.
    """
    row = tree.find(session.client, workspace)
    made = session.client.post(f"{_path(row)}/enrolment-tokens", {"ttl_seconds": ttl}).object()
    session.answer(
        made | {"id": row["id"]},
        f"{made['enrolment_token']}\n",
        f"It works once, until {screen.moment(made['expires_at'])}. On the machine of {row['name']}:\n"
        f"  export MOLECULE_ENROLMENT_TOKEN=<the token>, then start its agent",
    )


def _path(row: tree.Row) -> str:
    return f"/workspaces/{client.segment(row['id'])}"


def _along(count: int) -> str:
    return f", and {count - 1} below it" if count > 1 else ""


def _listing(rows: list[tree.Row]) -> Any:
    lines = [
        (
            "  " * depth + row["name"],
            screen.status(row["status"]),
            row["delivery_mode"],
            str(row["pending"]) if row["pending"] else "",
            screen.moment(row["last_heartbeat_at"]),
            row["id"],
        )
        for depth, row in tree.walk(rows)
    ]
    if screen.is_narrow():
        return screen.table(
            ("name", "status", "waiting", "id"), [(*line[:2], line[3], line[5]) for line in lines]
        )
    return screen.table(("name", "status", "delivery", "waiting", "last seen", "id"), lines)


def _details(row: tree.Row) -> list[tuple[str, str | Text]]:
    return [
        ("name", row["name"]),
        ("id", row["id"]),
        ("status", screen.status(row["status"])),
        ("because", row.get("status_reason") or ""),
        ("role", row["role"]),
        ("parent", row["parent_id"] or ""),
        ("delivery", row["delivery_mode"]),
        ("agent's URL", row.get("url") or ""),
        ("doing", row.get("current_task") or ""),
        ("tasks", f"{row['active_tasks']} of {row['max_concurrent_tasks']}"),
        ("waiting", screen.counted(row["pending"], "message") if row["pending"] else ""),
        ("last error", row.get("last_sample_error") or ""),
        ("last seen", screen.moment(row["last_heartbeat_at"])),
        ("created", screen.moment(row["created_at"])),
    ]


def _welcome(name: str, connection: dict[str, Any]) -> list[Any]:
    return [
        screen.facts(
            [
                ("workspace", name),
                ("id", connection["workspace_id"]),
                ("platform", connection["platform_url"]),
                ("token", connection["auth_token"]),
            ]
        ),
        "\nThe token is shown this once. An agent joins with it like this:\n",
        connection["python_snippet"],
    ]


def _ask_before_removal(session: Session, row: tree.Row, children: list[tree.Row]) -> None:
    what = _removal(row, children)
    if session.as_json or not sys.stdin.isatty():
        listed = [{"id": child["id"], "name": child["name"]} for child in children]
        raise problems.Problem(
            f"{what} Repeat with --yes.", "confirmation-required", extras={"children": listed}
        )
    screen.show(what)
    typer.confirm("Remove?", abort=True, err=True)


def _removal(row: tree.Row, children: list[tree.Row]) -> str:
    names = ", ".join(child["name"] for child in children[:10]) + (", …" if len(children) > 10 else "")
    waiting = sum(member["pending"] for member in [row, *children])
    parts = [f"This removes {row['name']} for good and revokes its tokens"]
    if children:
        parts.append(f"along with {screen.counted(len(children), 'workspace')} below it ({names})")
    if waiting:
        parts.append(f"and cancels {screen.counted(waiting, 'waiting message')}")
    return ", ".join(parts) + "."
