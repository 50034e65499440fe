"""`molecule plugin`: what the platform offers, and what each workspace has."""

from typing import Annotated, Any

import typer

from molecule_platform.cli import client, hints, output, workspace_lookup
from molecule_platform.cli.session import ApiSession, command

plugins = typer.Typer(no_args_is_help=True, help="Skills, rules and tools that agents install.")

# A source may take its five minutes.
FETCH_SECONDS = 330.0
Workspace = Annotated[str, typer.Argument(metavar="WORKSPACE", help="Id or name of the workspace.")]


@command(plugins, "list", serves=("plugin.list", "plugin.installed"))
def list_plugins(
    session: ApiSession,
    workspace: Annotated[
        str | None, typer.Option(metavar="WORKSPACE", help="Those of one workspace; else what is offered.")
    ] = None,
    runtime: Annotated[str | None, typer.Option(help="Only those that suit this runtime.")] = None,
) -> None:
    """List the plugins that the platform offers, or those of a workspace."""
    if workspace is None:
        rows = session.client.get("/plugins", {"runtime": runtime} if runtime else None).rows()
        session.answer(rows, _offered(rows) if rows else "The platform offers no plugins yet.")
        return
    row = workspace_lookup.find(session.client, workspace)
    rows = session.client.get(workspace_lookup.path(row["id"], "/plugins")).rows()
    adds = session.hint(f"plugin install {hints.word(workspace)} SOURCE")
    empty = f"{row['name']} has no plugins. `{adds}` installs one."
    session.answer(rows, _installed(rows) if rows else empty)


@command(plugins, "available", serves=("plugin.available",))
def available(session: ApiSession, workspace: Workspace) -> None:
    """List what a workspace could install."""
    row = workspace_lookup.find(session.client, workspace)
    rows = session.client.get(workspace_lookup.path(row["id"], "/plugins/available")).rows()
    session.answer(rows, _offered(rows) if rows else f"Nothing is offered that suits {row['name']}.")


@command(plugins, "check", serves=("plugin.compatibility",))
def check(
    session: ApiSession,
    workspace: Workspace,
    runtime: Annotated[str, typer.Argument(metavar="RUNTIME", help="The runtime it may move to.")],
) -> None:
    """Tell which plugins of a workspace work on another runtime."""
    row = workspace_lookup.find(session.client, workspace)
    split = session.client.get(
        workspace_lookup.path(row["id"], "/plugins/compatibility"), {"runtime": runtime}
    ).object()
    lines = [(one["name"], "yes") for one in split["compatible"]]
    lines += [(one["name"], "no") for one in split["incompatible"]]
    session.answer(split, output.table(("plugin", runtime), lines) if lines else "It has no plugins.")


@command(plugins, "sources", serves=("plugin.sources",))
def sources(session: ApiSession) -> None:
    """List where plugins may come from."""
    found = session.client.get("/plugins/sources").object()
    session.answer(found, ", ".join(f"{scheme}://" for scheme in found["schemes"]))


@command(plugins, "install", serves=("plugin.install",))
def install(
    session: ApiSession,
    workspace: Workspace,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A name, or github://owner/repo, then a /folder in it and a #tag, #branch or #commit.",
        ),
    ],
    sha256: Annotated[str | None, typer.Option(help="Install only what has this digest.")] = None,
    upgrade: Annotated[
        bool, typer.Option("--upgrade", help="Take what the source holds now, for the whole organisation.")
    ] = False,
    allow_signer_change: Annotated[
        bool, typer.Option("--allow-signer-change", help="Another signer than the last time, or none.")
    ] = False,
) -> None:
    """Install a plugin; an external agent is only written down as having it."""
    row = workspace_lookup.find(session.client, workspace)
    body: dict[str, Any] = {"source": source, "upgrade": upgrade, "allow_signer_change": allow_signer_change}
    body |= {} if sha256 is None else {"sha256": sha256}
    asked = client.ApiRequest(
        "POST", workspace_lookup.path(row["id"], "/plugins"), body, timeout=FETCH_SECONDS
    )
    done = session.client.send(asked).object()
    for warning in done["warnings"]:
        session.remark(warning)
    what = f"{done['plugin']} {done['version']} from {done['resolved']}"
    said = [f"{row['name']}: {what} is {done['status']}. sha256 {done['sha256']}"]
    if done["status"] == "recorded":
        # Somebody else's machine: we can write down what it has, and not put anything there.
        own = f"molecule-agent install {hints.word(done['plugin'])} --source {hints.word(source)}"
        said.append(output.steps([(own, "installs it, run where the agent is")]))
    session.answer(done, *said)


@command(plugins, "uninstall", serves=("plugin.uninstall",))
def uninstall(
    session: ApiSession,
    workspace: Workspace,
    name: Annotated[str, typer.Argument(metavar="PLUGIN", help="The name of the plugin.")],
) -> None:
    """Take a plugin away; files that its user changed stay."""
    row = workspace_lookup.find(session.client, workspace)
    done = session.client.delete(
        workspace_lookup.path(row["id"], f"/plugins/{client.segment(name)}")
    ).object()
    kept = [f"{path} was changed and stays." for path in done["kept"]]
    session.answer(done, f"{row['name']} has no plugin {name} any more.", *kept)


def _offered(rows: list[dict[str, Any]]) -> Any:
    lines = [
        (row["name"], row["version"], ", ".join(row["runtimes"] or ["any"]), _signed(row), row["description"])
        for row in rows
    ]
    return output.table(("plugin", "version", "runtimes", "signed", "about"), lines)


def _installed(rows: list[dict[str, Any]]) -> Any:
    lines = [
        (row["name"], row["version"], row["state"], row["resolved"] or row["source"], _signed(row))
        for row in rows
    ]
    return output.table(("plugin", "version", "state", "from", "signed"), lines)


def _signed(row: dict[str, Any]) -> str:
    return ", ".join(row["signed_by"]) if row["signed"] else "no"
