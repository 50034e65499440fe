"""`molecule secret`: values that agents pull; they can be set and forgotten here, never read."""

import sys
from typing import Annotated

import typer

from molecule_platform.cli import client, hints, output, problems, workspace_lookup
from molecule_platform.cli.session import ApiSession, command

secrets = typer.Typer(no_args_is_help=True, help="Values for agents, never shown again.")

MAX_VALUE = 64 * 1024
ROTATION_SECONDS = 600.0
Key = Annotated[str, typer.Argument(metavar="KEY", help="The name, such as OPENAI_API_KEY.")]
Workspace = Annotated[
    str | None,
    typer.Option(metavar="WORKSPACE", help="For one workspace alone; else for the whole organisation."),
]


@command(secrets, "set", serves=("secret.put", "org-secret.put"))
def set_value(
    session: ApiSession,
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
        forget = session.hint(f"secret delete {hints.word(key)}{_flag(workspace)}")
        raise problems.Problem(f"an empty value is not kept: use `{forget}`", "invalid-request")
    done = session.client.post(path, {"key": key, "value": text}).object()
    session.answer(done, f"{key} is kept for {owner}. Agents get it when they pull their secrets next.")


@command(secrets, "list", serves=("secret.list", "org-secret.list"))
def list_keys(session: ApiSession, workspace: Workspace = None) -> None:
    """List the keys that hold a value."""
    path, owner = _place(session, workspace)
    rows = session.client.get(path).rows()
    lines = [
        (row["key"], _scope(row["scope"]), output.moment(row["updated_at"]))
        for row in sorted(rows, key=lambda row: row["key"])
    ]
    keep = session.hint(f"secret set KEY{_flag(workspace)}")
    empty = f"No secrets for {owner} yet. `{keep}` asks for a value and keeps it."
    session.answer(rows, output.table(("key", "for", "changed"), lines) if rows else empty)


@command(secrets, "delete", serves=("secret.delete", "org-secret.delete"))
def delete(session: ApiSession, key: Key, workspace: Workspace = None) -> None:
    """Forget a value."""
    path, owner = _place(session, workspace)
    done = session.client.delete(f"{path}/{client.segment(key)}").object()
    session.answer(done, f"{key} is forgotten for {owner}. Agents that pulled it still know it.")


@command(secrets, "rotate-key", serves=("secret.rotate-key",))
def rotate_key(session: ApiSession) -> None:
    """Seal every secret of the platform with a new key.

    Agents notice nothing. The old key stays in the key file until the next rotation.
    """
    asked = client.ApiRequest("POST", "/admin/secrets/rotate-key", {}, timeout=ROTATION_SECONDS)
    done = session.client.send(asked).object()
    sealed = output.counted(done["resealed"], "value")
    failed = [f"No key here opens {name}: set it again." for name in done["failed_keys"]]
    session.answer(done, f"{sealed} sealed again, with key {done['key_id']}.", *failed)


def _place(session: ApiSession, workspace: str | None) -> tuple[str, str]:
    if workspace is None:
        return "/settings/secrets", "the organisation"
    row = workspace_lookup.find(session.client, workspace)
    return workspace_lookup.path(row["id"], "/secrets"), row["name"]


def _flag(workspace: str | None) -> str:
    return "" if workspace is None else f" {hints.flag('--workspace', workspace)}"


def _scope(scope: str) -> str:
    return "the organisation" if scope == "global" else "this workspace"


def _read_value(key: str) -> str:
    if sys.stdin.isatty():
        return str(typer.prompt(f"Value of {key}", hide_input=True, err=True))
    try:
        text = sys.stdin.read(MAX_VALUE + 2)
    except UnicodeDecodeError:
        raise problems.Problem(f"the value of {key} is not text in UTF-8", "invalid-request") from None
    return text.removesuffix("\n").removesuffix("\r")
