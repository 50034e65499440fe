"""`molecule secret`: values that agents pull; they can be set and forgotten here, never read."""

import sys
from typing import Annotated

import typer

from molecule_platform.cli import client, problems, screen, tree
from molecule_platform.cli.session import Session, command

secrets = typer.Typer(no_args_is_help=True, help="Values for agents, never shown again.")

LARGEST_VALUE = 64 * 1024
Key = Annotated[str, typer.Argument(metavar="KEY", help="The name, such as OPENAI_API_KEY.")]
Workspace = Annotated[
    str | None,
    typer.Option(metavar="WORKSPACE", help="For one workspace alone; else for the whole organisation."),
]


@command(secrets, "set")
def set_value(
    session: Session,
    key: Key,
    workspace: Workspace = None,
    value: Annotated[
        str | None,
        typer.Option(help="The value; better give it on standard input, where no history keeps it."),
    ] = None,
) -> None:
    """Keep a value.

    It is asked for, or read from standard input.
    """
    path, owner = _place(session, workspace)
    text = value if value is not None else _read_value(key)
    if not text:
        raise problems.Problem("an empty value is not kept: use `molecule secret delete`", "invalid-request")
    done = session.client.post(path, {"key": key, "value": text}).object()
    session.answer(done, f"{key} is kept for {owner}. Agents get it when they pull their secrets next.")


@command(secrets, "list")
def list_keys(session: Session, workspace: Workspace = None) -> None:
    """List the keys that hold a value."""
    path, owner = _place(session, workspace)
    rows = session.client.get(path).rows()
    lines = [
        (row["key"], _scope(row["scope"]), screen.moment(row["updated_at"]))
        for row in sorted(rows, key=lambda row: row["key"])
    ]
    empty = f"No secrets for {owner} yet. `molecule secret set KEY` asks for a value and keeps it."
    session.answer(rows, screen.table(("key", "for", "changed"), lines) if rows else empty)


@command(secrets, "delete")
def delete(session: Session, key: Key, workspace: Workspace = None) -> None:
    """Forget a value."""
    path, owner = _place(session, workspace)
    done = session.client.delete(f"{path}/{client.segment(key)}").object()
    session.answer(done, f"{key} is forgotten for {owner}. Agents that pulled it still know it.")


def _place(session: Session, workspace: str | None) -> tuple[str, str]:
    if workspace is None:
        return "/settings/secrets", "the organisation"
    row = tree.find(session.client, workspace)
    return f"/workspaces/{client.segment(row['id'])}/secrets", row["name"]


def _scope(scope: str) -> str:
    return "the organisation" if scope == "global" else "this workspace"


def _read_value(key: str) -> str:
    if sys.stdin.isatty():
        return str(typer.prompt(f"Value of {key}", hide_input=True, err=True))
    try:
        text = sys.stdin.read(LARGEST_VALUE + 2)
    except UnicodeDecodeError:
        raise problems.Problem(f"the value of {key} is not text in UTF-8", "invalid-request") from None
    return text.removesuffix("\n").removesuffix("\r")
