"""`molecule workspace`, the life of one: pause, resume, restart, sleep, wake, state, enrol, delete."""

import sys
from typing import Annotated, Any

import typer

from molecule_platform.cli import hints, output, problems, workspace_lookup
from molecule_platform.cli.session import ApiSession, command
from molecule_platform.cli.workspaces import Reference
from molecule_wire import ids

lifecycle_services = typer.Typer()


@command(lifecycle_services, "pause", serves=("workspace.pause",))
def pause(session: ApiSession, workspace: Reference) -> None:
    """Pause a workspace and all below it.

    Messages to them are kept and wait.
    """
    row, done = _post(session, workspace, "/pause")
    goes_on = session.hint(f"workspace resume {hints.word(row['name'])}")
    session.answer(
        done,
        f"{row['name']} is paused{_along(done['paused_count'])}. "
        f"Messages to it are kept; `{goes_on}` goes on.",
    )


@command(lifecycle_services, "resume", serves=("workspace.resume",))
def resume(session: ApiSession, workspace: Reference) -> None:
    """Undo a pause, for all below it too."""
    row, done = _post(session, workspace, "/resume")
    session.answer(
        done,
        f"{row['name']} may go on{_along(done['resumed_count'])}. It is online again when its agent reports.",
    )


@command(lifecycle_services, "restart", serves=("workspace.restart",))
def restart(
    session: ApiSession,
    workspace: Reference,
    reset: Annotated[bool, typer.Option("--reset", help="Forget its session and begin afresh.")] = False,
) -> None:
    """Start its agent again; one that runs elsewhere is asked to."""
    row, done = _post(session, workspace, "/restart", {"reset": reset})
    asked = f"{row['name']} is asked to start again; its agent decides when."
    started = f"{row['name']} starts again{', with nothing in mind' if reset else ''}."
    session.answer(done, asked if done.get("signal") else started)


@command(lifecycle_services, "hibernate", serves=("workspace.hibernate",))
def hibernate(
    session: ApiSession,
    workspace: Reference,
    force: Annotated[
        bool, typer.Option("--force", help="Also while it works; that work waits again.")
    ] = False,
) -> None:
    """Stop its agent until something is wanted of it."""
    row, done = _post(session, workspace, f"/hibernate{'?force=true' if force else ''}")
    session.answer(done, f"{row['name']} sleeps. The next message wakes it.")


@command(lifecycle_services, "wake", serves=("workspace.wake",))
def wake(session: ApiSession, workspace: Reference) -> None:
    """Wake its agent if it sleeps."""
    row, done = _post(session, workspace, "/wake")
    wakes = done["status"] == "provisioning"
    session.answer(done, f"{row['name']} wakes up." if wakes else f"{row['name']} is {done['status']}.")


@command(lifecycle_services, "state", serves=("workspace.state",))
def state(session: ApiSession, workspace: Reference) -> None:
    """Tell what its agent is told when it asks whether to go on."""
    known = workspace if ids.is_uuid(workspace) else workspace_lookup.find(session.client, workspace)["id"]
    told = session.client.get(workspace_lookup.path(known, "/state")).object()
    session.answer(
        told,
        output.facts(
            [
                ("status", output.status(told["status"])),
                ("paused", "yes" if told["paused"] else "no"),
                ("restart", "asked for" if told["needs_restart"] else "not needed"),
                ("waiting", output.counted(told["pending"], "message")),
            ]
        ),
    )


@command(lifecycle_services, "enrol", serves=("workspace.enrol",))
def enrol(
    session: ApiSession,
    workspace: Reference,
    ttl: Annotated[int, typer.Option(metavar="SECONDS", help="How long the token can be used.")] = 3600,
) -> None:
    """Let an agent on a new machine join again.

    The token it makes works once.
    """
    row, made = _post(session, workspace, "/enrolment-tokens", {"ttl_seconds": ttl})
    session.answer(
        made,
        f"{made['enrolment_token']}\n",
        f"It works once, until {output.moment(made['expires_at'])}. On the machine of {row['name']}:\n"
        f"  export MOLECULE_ENROLMENT_TOKEN=<the token>, then start its agent",
    )


@command(lifecycle_services, "delete", serves=("workspace.delete",))
def delete(
    session: ApiSession,
    workspace: Reference,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    purge: Annotated[bool, typer.Option("--purge", help="Erase their data too, also later.")] = False,
) -> None:
    """Remove a workspace for good, with all below it."""
    row = workspace_lookup.find(session.client, workspace, removed=purge)
    children = workspace_lookup.below(session.client.every_row("/workspaces"), row["id"])
    if not yes:
        _ask_before_removal(session, _removal(row, children, purge), children)
    query = {"confirm": "true"} if children else {}
    query |= {"purge": "true"} if purge else {}
    done = session.client.delete(workspace_lookup.path(row["id"]), query).object()
    session.answer(
        done | {"id": row["id"]}, f"{row['name']} is {done['status']}{_along(1 + done['cascade_deleted'])}."
    )


def _post(
    session: ApiSession, workspace: str, rest: str, body: Any = None
) -> tuple[workspace_lookup.Row, dict[str, Any]]:
    """The workspace, and what came of the request, with the id that a name stood for."""
    row = workspace_lookup.find(session.client, workspace)
    return row, session.client.post(workspace_lookup.path(row["id"], rest), body).object() | {"id": row["id"]}


def _along(count: int) -> str:
    return f", and {count - 1} below it" if count > 1 else ""


def _ask_before_removal(session: ApiSession, what: str, children: list[workspace_lookup.Row]) -> None:
    if session.as_json or not sys.stdin.isatty():
        listed = [{"id": child["id"], "name": child["name"]} for child in children]
        raise problems.Problem(
            f"{what} Repeat with --yes.", "confirmation-required", extras={"children": listed}
        )
    output.show(what)
    typer.confirm("Remove?", abort=True, err=True)


def _removal(row: workspace_lookup.Row, children: list[workspace_lookup.Row], purge: bool) -> str:
    names = ", ".join(child["name"] for child in children[:10]) + (", …" if len(children) > 10 else "")
    waiting = sum(member["pending"] for member in [row, *children])
    along = f" along with {output.counted(len(children), 'workspace')} below it ({names})" if children else ""
    parts = [
        f"This removes {row['name']} for good{along}",
        f"revokes {'their' if children else 'its'} tokens",
    ]
    if waiting:
        parts.append(f"cancels {output.counted(waiting, 'waiting message')}")
    if purge:
        parts.append("erases all that is kept of them")
    return f"{', '.join(parts[:-1])} and {parts[-1]}."
