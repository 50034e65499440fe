"""`molecule dead-letter`: messages that nobody tries again, until somebody says so."""

import functools
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.table import Table

from molecule_platform.cli import client, events, output, problems, workspace_lookup
from molecule_platform.cli.session import ApiSession, command

dead_letters = typer.Typer(no_args_is_help=True, help="Messages that nobody tries again.")


@command(dead_letters, "list", serves=("message.list", "event.list", "message.show"))
def list_letters(
    session: ApiSession,
    workspace: Annotated[
        str | None, typer.Argument(help="Only of this one, by id, path or name.", show_default="all")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many failures to look at.")] = 50,
) -> None:
    """List dead letters with their reasons, newest first."""
    if workspace is None:
        letters = _of_all(session, limit)
    else:
        letters = _of_one(session, workspace_lookup.find(session.client, workspace)["id"], limit)
    session.answer(letters, functools.partial(_shown, session, letters))


@command(dead_letters, "redrive", serves=("message.list", "message.show", "inbox.redeliver"))
def redrive(
    session: ApiSession,
    messages: Annotated[
        list[str] | None, typer.Argument(metavar="[MESSAGE]...", help="Their ids.", show_default=False)
    ] = None,
    everything: Annotated[
        str | None, typer.Option("--all", metavar="WORKSPACE", help="All that this workspace has.")
    ] = None,
) -> None:
    """Give dead letters all their attempts again."""
    if bool(messages) == (everything is not None):
        raise problems.usage("name messages, or a workspace with --all")
    if everything is None:
        letters = [_look(session, name) for name in messages or ()]
    else:
        letters = _of_one(session, workspace_lookup.find(session.client, everything)["id"], 200)
    redriven = [_redriven(session, letter) for letter in letters]
    session.answer(redriven, functools.partial(_done, session, redriven))


def _redriven(session: ApiSession, letter: dict[str, Any]) -> dict[str, Any]:
    path = workspace_lookup.path(letter["target_id"], f"/inbox/{client.segment(letter['id'])}/redeliver")
    return session.client.post(path).object()


def _of_one(session: ApiSession, workspace_id: str, limit: int) -> list[dict[str, Any]]:
    query = {"direction": "in", "status": "failed", "limit": str(limit)}
    found = session.client.get(workspace_lookup.path(workspace_id, "/messages"), query).object()
    return [row for row in found["messages"] if row["dead_letter"]]


def _of_all(session: ApiSession, limit: int) -> list[dict[str, Any]]:
    """Those among the newest failures of the organisation that are still dead."""
    query = {"type": "MESSAGE_FAILED", "limit": str(limit)}
    failures = session.client.get("/events", query).rows()
    names = dict.fromkeys(str(event["payload"]["message_id"]) for event in failures)
    found = (_kept(session, name) for name in names)
    return [row for row in found if row is not None and row["dead_letter"]]


def _kept(session: ApiSession, name: str) -> dict[str, Any] | None:
    """The message, unless it is forgotten by now."""
    try:
        return _look(session, name)
    except problems.Refused as refused:
        if refused.status == 404:
            return None
        raise


def _look(session: ApiSession, name: str) -> dict[str, Any]:
    return session.client.get(f"/messages/{client.segment(name)}").object()


def _shown(session: ApiSession, letters: list[dict[str, Any]]) -> RenderableType:
    if not letters:
        return "No dead letters: every message was answered, or is still being tried."
    return _table(session, letters)


def _table(session: ApiSession, letters: list[dict[str, Any]]) -> Table:
    names = events.Names(session)
    names.learn(letter["target_id"] for letter in letters)
    lines = [
        (
            output.moment(letter["finished_at"]),
            letter["caller_name"] or letter["caller"],
            names.of(letter["target_id"]),
            str(letter["attempts"]),
            letter["id"],
            output.one_line(str(letter["error"]["message"])),
        )
        for letter in letters
    ]
    if output.is_narrow():
        return output.table(("to", "id", "details"), [(line[2], *line[4:]) for line in lines])
    return output.table(("when", "from", "to", "attempts", "id", "details"), lines)


def _done(session: ApiSession, redriven: list[dict[str, Any]]) -> str:
    if not redriven:
        return "There was nothing to try again."
    steps = [(session.hint(f"message watch {one['id']}"), "tells how it goes") for one in redriven[:3]]
    return f"{output.counted(len(redriven), 'message')} will be tried again.\n{output.steps(steps)}"
