"""`molecule activity`: what a workspace did and received."""

import functools
import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.text import Text

from molecule_platform.cli import client, output, problems, workspace_lookup
from molecule_platform.cli.reconnect import ReconnectPolicy
from molecule_platform.cli.session import ApiSession, command

activity = typer.Typer(no_args_is_help=True, help="What a workspace did and received.")

HOLD_SECONDS = 25
LOOK_AGAIN_SECONDS = 2.0


@command(activity, "list", serves=("activity.list",))
def list_rows(
    session: ApiSession,
    workspace: Annotated[str, typer.Argument(metavar="WORKSPACE", help="Id or name of the workspace.")],
    kind: Annotated[
        str | None, typer.Option("--type", help="Only of this type, such as a2a_receive.")
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="Only from people (canvas) or from agents (agent).")
    ] = None,
    peer: Annotated[str | None, typer.Option(help="Only from this workspace.")] = None,
    before: Annotated[str | None, typer.Option(help="Only from before this time (RFC 3339).")] = None,
    since_id: Annotated[str | None, typer.Option(help="Only after this row, oldest first.")] = None,
    seconds: Annotated[int | None, typer.Option(min=1, help="Only of the last so many seconds.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many rows at most.")] = 20,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes, oldest first; Ctrl-C ends it.")
    ] = False,
) -> None:
    """List what happened, newest first.

    With --follow and --json, each row is a line.
    """
    row = workspace_lookup.find(session.client, workspace)
    asked = {
        "type": kind,
        "source": source,
        "peer_id": None if peer is None else workspace_lookup.find(session.client, peer)["id"],
        "before_ts": before,
        "since_id": since_id,
        "since_secs": seconds,
        "limit": limit,
    }
    query = {name: str(value) for name, value in asked.items() if value is not None}
    path = workspace_lookup.path(row["id"], "/activity")
    if follow:
        _follow(session, path, query)
        return
    rows = session.client.get(path, query).rows()
    table = output.table(("when", "type", "status", "what"), [_cells(one) for one in rows])
    session.answer(rows, table if rows else f"Nothing of {row['name']} is in the log.")


def _follow(session: ApiSession, path: str, query: dict[str, str]) -> None:
    if "before_ts" in query:
        raise problems.usage("give --before or --follow, not both")
    try:
        for row in _rows(session, path, query):
            session.tell(row, functools.partial(_line, row))
    except KeyboardInterrupt:
        return


def _rows(session: ApiSession, path: str, query: dict[str, str]) -> Iterator[dict[str, Any]]:
    """What is there, then what comes. The platform holds the call once there is a row to go on from."""
    watchdog = ReconnectPolicy(session)
    while True:
        try:
            rows = _page(session.client, path, query)
            watchdog.met()
        except problems.Problem as problem:
            watchdog.bear(problem, LOOK_AGAIN_SECONDS)
            continue
        yield from rows
        if rows:
            query = query | {"since_id": rows[-1]["id"]}
        elif "since_id" not in query:
            time.sleep(LOOK_AGAIN_SECONDS)


def _page(platform: client.Client, path: str, query: dict[str, str]) -> list[dict[str, Any]]:
    """Rows, oldest first."""
    asked = query | {"wait": str(HOLD_SECONDS)}
    rows = platform.get(path, asked, timeout=HOLD_SECONDS + client.TIMEOUT_SECONDS).rows()
    return rows if "since_id" in query else rows[::-1]


def _cells(row: dict[str, Any]) -> tuple[str, str, Text, str]:
    return output.moment(row["ts"]), row["type"], output.status(row["status"]), row["summary"]


def _line(row: dict[str, Any]) -> Text:
    when, kind, status, summary = _cells(row)
    return Text.assemble(f"{when}  {kind:<12} ", status, f"  {output.one_line(summary)}")
