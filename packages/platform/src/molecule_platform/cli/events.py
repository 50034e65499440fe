"""`molecule event`: what happened in the organisation, and what happens."""

import functools
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from molecule_platform.cli import client, output, problems, sse, workspace_lookup
from molecule_platform.cli.session import ApiSession, command

events = typer.Typer(no_args_is_help=True, help="What happened, and what happens.")

Of = Annotated[
    str | None,
    typer.Argument(metavar="WORKSPACE", help="Only of this one, by id, path or name.", show_default="all"),
]
Types = Annotated[
    list[str] | None, typer.Option("--type", help="Only of this type, such as WORKSPACE_ONLINE; or several.")
]
MAX_TYPE_LENGTH = 27
MAX_DETAILS_LENGTH = 120
ONE_BY_ONE = 10


@command(events, "list", serves=("event.list",))
def list_events(
    session: ApiSession,
    workspace: Of = None,
    types: Types = None,
    since: Annotated[
        str | None, typer.Option(metavar="EVENT", help="Only after this one, oldest first.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many at most.")] = 20,
) -> None:
    """List what happened, newest first."""
    asked = {"type": ",".join(types or ()) or None, "since": since, "limit": str(limit)}
    query = {name: value for name, value in asked.items() if value is not None}
    of = (
        ""
        if workspace is None
        else f"/{client.segment(workspace_lookup.find(session.client, workspace)['id'])}"
    )
    rows = session.client.get(f"/events{of}", query).rows()
    names = Names(session)
    session.answer(rows, lambda: _table(rows, names) if rows else "Nothing like that happened.")


@command(events, "watch", serves=("event.stream",))
def watch(
    session: ApiSession,
    workspace: Of = None,
    types: Types = None,
    since: Annotated[str | None, typer.Option(metavar="EVENT", help="Begin after this one.")] = None,
    count: Annotated[int | None, typer.Option(min=1, help="End after so many.")] = None,
) -> None:
    """Print what happens, as it happens; Ctrl-C ends it.

    A stream that is cut goes on where it was. With --json, each event is a line.
    """
    found = None if workspace is None else workspace_lookup.find(session.client, workspace)["id"]
    asked = {"types": ",".join(types or ()) or None, "workspace_id": found}
    query = {name: value for name, value in asked.items() if value is not None}
    _print(session, sse.EventFollower(session, "/events/stream", query, since), count)


def _print(session: ApiSession, followed: Iterable[dict[str, Any]], count: int | None) -> None:
    names = Names(session)
    try:
        for number, event in enumerate(followed, start=1):
            session.tell(event, functools.partial(_line, event, names))
            if number == count:
                return
    except KeyboardInterrupt:
        return


class Names:
    """What workspaces are called; each is asked for once."""

    def __init__(self, session: ApiSession) -> None:
        self._client = session.client
        self._known: dict[str, str] = {"": ""}

    def learn(self, workspace_ids: Iterable[str]) -> None:
        """Get ready to be asked for these: of many, all are fetched at once."""
        if len(set(workspace_ids)) > ONE_BY_ONE:
            rows = self._client.every_row("/workspaces", {"include_removed": "true"})
            self._known |= {row["id"]: row["name"] for row in rows if row["name"]}

    def of(self, workspace_id: str) -> str:
        """The name of a workspace; the beginning of its id if nobody tells."""
        if workspace_id not in self._known:
            self._known[workspace_id] = self._asked(workspace_id)
        return self._known[workspace_id]

    def _asked(self, workspace_id: str) -> str:
        try:
            name = str(workspace_lookup.find(self._client, workspace_id, removed=True)["name"])
        except problems.Problem:
            name = ""
        return name or f"{workspace_id[:8]}…"


def _table(rows: list[dict[str, Any]], names: Names) -> Table:
    names.learn(row["workspace_id"] for row in rows)
    lines = [
        (
            output.moment(row["created_at"]),
            row["event_type"],
            names.of(row["workspace_id"]),
            _details(row),
            row["id"],
        )
        for row in rows
    ]
    return output.table(("when", "event", "workspace", "details", "id"), lines)


def _line(event: Mapping[str, Any], names: Names) -> Text:
    when, name = output.moment(event["timestamp"]), names.of(event["workspace_id"])
    return Text(output.one_line(f"{when}  {event['event']:<{MAX_TYPE_LENGTH}}  {name}  {_details(event)}"))


def _details(event: Mapping[str, Any]) -> str:
    """The plain values of an event on one line; whose it is, is told beside them."""
    told = ("", event["workspace_id"])
    payload = {name: value for name, value in event["payload"].items() if name != "name"}
    plain = [(name, value) for name, value in payload.items() if isinstance(value, str | int | float)]
    text = output.one_line(" ".join(f"{name}={value}" for name, value in plain if value not in told))
    return text if len(text) <= MAX_DETAILS_LENGTH else f"{text[: MAX_DETAILS_LENGTH - 1]}…"
