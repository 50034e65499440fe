"""`molecule workspace`: create, look, change. Its life is in `lives.py`."""

import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from rich.table import Table
from rich.text import Text

from molecule_platform.cli import hints, problems, workspace_lookup
from molecule_platform.cli import output as cli_output
from molecule_platform.cli.session import ApiSession, Option, command

workspaces = typer.Typer(no_args_is_help=True, help="The members of the organisation.")

Reference = Annotated[
    str, typer.Argument(metavar="WORKSPACE", help="An id, a path, or a name that only one has.")
]
_Query = Annotated[
    str | None, typer.Option("--query", metavar="TEXT", help="Only with this in name, role or skills.")
]
_Parent = Annotated[str | None, typer.Option(metavar="WORKSPACE", help="The one above it in the tree.")]
_Removed = Annotated[bool, typer.Option("--removed", help="Removed ones too.")]


def _field(name: str, kind: Any, flag: str, sentence: str, **more: Any) -> Option:
    return name, Annotated[kind | None, typer.Option(flag, help=sentence, **more)], None


# Named as on the wire: what is given is sent.
FIELDS: tuple[Option, ...] = (
    _field("role", str, "--role", "What it is for, in a sentence."),
    _field("tier", int, "--tier", "How large it may be, from 1 to 4.", min=1, max=4),
    _field("visibility", str, "--visibility", "Who may read its card: private or public."),
    _field("delivery_mode", str, "--delivery", "How it gets its messages: push or poll."),
    _field(
        "max_concurrent_tasks",
        int,
        "--max-concurrent",
        "How many tasks it takes at once, whatever its agent says.",
        min=1,
    ),
    _field(
        "hibernation_idle_minutes",
        int,
        "--hibernate-after",
        "Sleep after so many idle minutes; 0 for never.",
        metavar="MINUTES",
        min=0,
    ),
    _field("runtime", str, "--runtime", "What runs its agent; external if it runs elsewhere."),
    _field("workspace_dir", str, "--folder", "Folder of this machine that it works in."),
    _field("workspace_access", str, "--folder-access", "What it may there: none, read_only or read_write."),
)


@command(workspaces, "create", serves=("workspace.create",), options=FIELDS)
def create(
    session: ApiSession,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What others call it.")],
    parent: _Parent = None,
    model: Annotated[str | None, typer.Option(help="The model it is to use.")] = None,
    agent_url: Annotated[str | None, typer.Option(help="Where its agent listens, for push.")] = None,
    budget: Annotated[int | None, typer.Option(metavar="CENTS", min=0, help="Most to spend a month.")] = None,
    claimable: Annotated[
        bool | None,
        typer.Option(
            "--claimable/--not-claimable", help="Whether the first who registers it may get its token."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write its connection to a new file that only you read."),
    ] = None,
    **fields: Any,
) -> None:
    """Create a workspace and show how an agent joins.

    The agent may run anywhere. Its token is shown this once. With --runtime the platform starts the agent.
    """
    own = {"name": name, "model": model, "url": agent_url, "budget_limit": budget, "claimable": claimable}
    body = _given(fields | own) | ({} if fields["runtime"] else {"external": True})
    if parent is not None:
        body["parent_id"] = workspace_lookup.find(session.client, parent)["id"]
    if output is None:
        made = session.client.post("/workspaces", body).object()
    elif fields["runtime"] not in (None, "external"):
        raise problems.usage(
            "--output is for agents that run elsewhere: the platform gives its own their token"
        )
    else:
        # The token is shown once: the file is there before the workspace is, and goes if that fails.
        with _new_private_file(output) as file:
            made = session.client.post("/workspaces", body).object()
            file.write(_connection_text(made["connection"]) + "\n")
    session.answer(made, *_welcome(session, name, made, output))


@command(workspaces, "list", serves=("workspace.list",))
def list_all(
    session: ApiSession,
    status: Annotated[str | None, typer.Option(help="Only of this status, such as online.")] = None,
    parent: Annotated[
        str | None, typer.Option(metavar="WORKSPACE", help="Only those right below this one.")
    ] = None,
    query: _Query = None,
    removed: _Removed = False,
) -> None:
    """List the organisation as a tree."""
    asked = {
        "status": status,
        "parent_id": None if parent is None else workspace_lookup.find(session.client, parent)["id"],
        "q": query,
        "include_removed": "true" if removed else None,
    }
    wanted = _given(asked)
    rows = session.client.every_row("/workspaces", wanted)
    empty = "No workspace fits." if wanted else _first_steps(session)
    session.answer(rows, lambda: _listing(rows) if rows else empty)


@command(workspaces, "show", serves=("workspace.show",))
def show(
    session: ApiSession,
    workspace: Reference,
    removed: Annotated[bool, typer.Option("--removed", help="Also if it is removed.")] = False,
) -> None:
    """Show one workspace."""
    row = workspace_lookup.find(session.client, workspace, removed=removed)
    session.answer(row, lambda: cli_output.facts(_details(row)))


@command(workspaces, "update", serves=("workspace.change",), options=FIELDS)
def update(
    session: ApiSession,
    workspace: Reference,
    name: Annotated[str | None, typer.Option(help="What others call it from now on.")] = None,
    parent: _Parent = None,
    root: Annotated[bool, typer.Option("--root", help="Move it to the top of the tree.")] = False,
    isolated: Annotated[
        bool | None, typer.Option("--isolated/--not-isolated", help="Cut it off from all others, or not.")
    ] = None,
    **fields: Any,
) -> None:
    """Change a workspace, or move it in the tree.

    What is not given stays as it is.
    """
    if root and parent is not None:
        raise problems.usage("give --parent or --root, not both")
    body = _given(fields | {"name": name, "isolated": isolated})
    if root or parent is not None:
        body["parent_id"] = None if parent is None else workspace_lookup.find(session.client, parent)["id"]
    if not body:
        raise problems.usage("nothing to change: give an option, such as --role; --help lists them")
    row = workspace_lookup.find(session.client, workspace)
    done = session.client.patch(workspace_lookup.path(row["id"]), body).object()
    session.answer(done | {"id": row["id"]}, *_changed(session, name or row["name"], done))


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _changed(session: ApiSession, name: str, done: dict[str, Any]) -> list[str]:
    if not done.get("needs_restart"):
        return [f"{name} is changed."]
    restart = session.hint(f"workspace restart {hints.word(name)}")
    return [f"{name} is changed. Its agent sees some of it when it starts again: `{restart}`"]


def _first_steps(session: ApiSession) -> str:
    create = (session.hint("workspace create helper"), "makes the first one and shows how an agent connects")
    demo = (session.target.start("up --demo"), "starts a small organisation to look at")
    return "No workspaces yet.\n\n" + cli_output.steps([create, demo])


def _listing(rows: list[workspace_lookup.Row]) -> Table:
    lines = [
        (
            "  " * depth + (row["name"] or "(erased)"),
            cli_output.status(row["status"]),
            row["delivery_mode"],
            str(row["pending"]) if row["pending"] else "",
            cli_output.moment(row["last_heartbeat_at"]),
            row["id"],
        )
        for depth, row in workspace_lookup.walk(rows)
    ]
    if cli_output.is_narrow():
        return cli_output.table(
            ("name", "status", "waiting", "id"), [(*line[:2], line[3], line[5]) for line in lines]
        )
    return cli_output.table(("name", "status", "delivery", "waiting", "last seen", "id"), lines)


def _details(row: workspace_lookup.Row) -> list[tuple[str, str | Text]]:
    return [
        ("name", row["name"]),
        ("id", row["id"]),
        ("status", cli_output.status(row["status"])),
        ("because", row.get("status_reason") or ""),
        ("role", row["role"]),
        ("parent", row["parent_id"] or ""),
        ("runtime", row["runtime"]),
        ("tier", str(row["tier"])),
        ("isolated", "from all others" if row["isolated"] else ""),
        ("card", row["visibility"] + _signed(row)),
        ("delivery", row["delivery_mode"]),
        ("agent's URL", row.get("url") or ""),
        ("folder", f"{row['workspace_dir']} ({row['workspace_access']})" if row.get("workspace_dir") else ""),
        ("doing", row.get("current_task") or ""),
        ("tasks", f"{row['active_tasks']} of {row['max_concurrent_tasks']}"),
        ("waiting", cli_output.counted(row["pending"], "message") if row["pending"] else ""),
        ("last error", row.get("last_sample_error") or ""),
        ("last seen", cli_output.moment(row["last_heartbeat_at"])),
        ("created", cli_output.moment(row["created_at"])),
    ]


def _signed(row: workspace_lookup.Row) -> str:
    """Nothing for a card without signatures, which most are."""
    state = row.get("card_signature", "unsigned")
    return "" if state == "unsigned" else f", signature {state}"


@contextmanager
def _new_private_file(path: Path) -> Generator[TextIO]:
    """A file that was not there and that nobody else may read; without an error it stays."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise problems.usage(f"{path} is there already: remove it, or name another file") from None
    except OSError as error:
        raise problems.usage(f"{path} cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            yield file
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _connection_text(connection: dict[str, Any]) -> str:
    """What a program needs of a connection."""
    needed = ("workspace_id", "name", "platform_url", "auth_token")
    return json.dumps({key: connection[key] for key in needed}, indent=2)


def _welcome(session: ApiSession, name: str, made: dict[str, Any], output: Path | None) -> list[Any]:
    connection = made.get("connection")
    if connection is None:
        show = session.hint(f"workspace show {hints.word(name)}")
        return [f"{name} is {made['status']}. `{show}` tells when its agent is there."]
    program = [
        "\nThis is an agent (`pip install molecule-ai-sdk`). Save it beside as hello.py and run it:\n",
        connection["python_snippet"],
    ]
    if output is not None:
        told = f"{name} waits for its agent. Its connection is in {output}, which only you can read."
        snippet = connection["python_snippet"].replace("hello.json", output.name)
        return [told, program[0], snippet]
    return [
        f"{name} waits for its agent. The token is shown this once: save this as hello.json.\n",
        _connection_text(connection),
        *program,
    ]
