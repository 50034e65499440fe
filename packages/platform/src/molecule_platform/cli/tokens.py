"""`molecule token`: credentials of one workspace or of the whole organisation; each is shown once."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from molecule_platform.cli import client, hints, output, workspace_lookup
from molecule_platform.cli.session import ApiSession, command
from molecule_wire import times

tokens = typer.Typer(no_args_is_help=True, help="Credentials, each shown once.")

Workspace = Annotated[
    str | None,
    typer.Option(metavar="WORKSPACE", help="Of one workspace; else of the whole organisation."),
]


@command(tokens, "create", serves=("token.create", "org-token.create"))
def create(
    session: ApiSession,
    workspace: Workspace = None,
    name: Annotated[str, typer.Option(help="What it is for.")] = "",
    scope: Annotated[list[str] | None, typer.Option(help="What it may do; several are allowed.")] = None,
    days: Annotated[int | None, typer.Option(min=1, max=3650, help="How many days it works.")] = None,
) -> None:
    """Make a token.

    Without a scope it gets the usual ones. Nobody can give more than they hold.
    """
    body: dict[str, Any] = {"name": name}
    if scope:
        body["scopes"] = scope
    if days is not None:
        body["expires_at"] = times.format_time(datetime.now(UTC) + timedelta(days=days))
    made = session.client.post(_path(session, workspace), body).object()
    until = output.moment(made["expires_at"]) if made["expires_at"] else "it is revoked"
    about = f"It works until {until}, for {', '.join(made['scopes'])}. Keep it now: it is shown once."
    session.answer(made, made["auth_token"], about)


@command(tokens, "list", serves=("token.list", "org-token.list"))
def list_tokens(session: ApiSession, workspace: Workspace = None) -> None:
    """List the tokens that work."""
    listed = session.client.get(_path(session, workspace)).object()
    lines = [
        (
            f"{row['prefix']}…",
            row["name"],
            ", ".join(row["scopes"]),
            output.moment(row["last_used_at"]),
            output.moment(row["expires_at"]) if row["expires_at"] else "it is revoked",
            row["id"],
        )
        for row in listed["tokens"]
    ]
    own = "" if workspace is None else f" {hints.flag('--workspace', workspace)}"
    empty = f"No tokens yet. `{session.hint(f'token create --name …{own}')}` makes one."
    header = ("token", "for", "may do", "last used", "works until", "id")
    session.answer(listed, output.table(header, lines) if lines else empty)


@command(tokens, "delete", serves=("token.delete", "org-token.delete"))
def delete(
    session: ApiSession,
    token_id: Annotated[str, typer.Argument(metavar="ID", help="Its id.")],
    workspace: Workspace = None,
) -> None:
    """End a token at once."""
    done = session.client.delete(f"{_path(session, workspace)}/{client.segment(token_id)}").object()
    session.answer(done, "The token has ended, everywhere.")


def _path(session: ApiSession, workspace: str | None) -> str:
    if workspace is None:
        return "/org/tokens"
    return workspace_lookup.path(workspace_lookup.find(session.client, workspace)["id"], "/tokens")
