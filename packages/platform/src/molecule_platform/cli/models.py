"""`molecule model`: which model an agent is to use."""

from typing import Annotated

import typer

from molecule_platform.cli import client, problems, workspace_lookup
from molecule_platform.cli.session import ApiSession, command

models = typer.Typer(no_args_is_help=True, help="Which model an agent is to use.")

Workspace = Annotated[str, typer.Argument(metavar="WORKSPACE", help="Id or name of the workspace.")]


@command(models, "show", serves=("model.show",))
def show(session: ApiSession, workspace: Workspace) -> None:
    """Show the model of a workspace."""
    row = workspace_lookup.find(session.client, workspace)
    found = session.client.get(workspace_lookup.path(row["id"], "/model")).object()
    session.answer(found, found["model"] or f"{row['name']} uses the default of its runtime.")


@command(models, "set", serves=("model.choose",))
def choose(
    session: ApiSession,
    workspace: Workspace,
    model: Annotated[str | None, typer.Argument(metavar="MODEL", help="The name of the model.")] = None,
    default: Annotated[bool, typer.Option("--default", help="Go back to the default.")] = False,
) -> None:
    """Choose the model of a workspace."""
    if default == bool(model):
        raise problems.usage("name a model, or give --default")
    row = workspace_lookup.find(session.client, workspace)
    asked = client.ApiRequest("PUT", workspace_lookup.path(row["id"], "/model"), {"model": model or ""})
    done = session.client.send(asked).object()
    session.answer(done, f"{row['name']} uses {model or 'the default of its runtime'} from now on.")
