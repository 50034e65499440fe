"""`molecule access` and `molecule grant`: who may call whom, why not, and extra ways through the tree."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from urllib.parse import urlencode

import typer

from molecule_platform.cli import client, hints, output, workspace_lookup
from molecule_platform.cli.session import ApiSession, command
from molecule_wire import times

access = typer.Typer(no_args_is_help=True, help="Who may call whom, and why not.")
grants = typer.Typer(no_args_is_help=True, help="Extra ways through the tree, for a while.")

Caller = Annotated[str, typer.Argument(metavar="CALLER", help="Id or name of the workspace that would call.")]
Target = Annotated[str, typer.Argument(metavar="TARGET", help="Id or name of the workspace that is called.")]
_PEOPLE = ("user:", "org-token:")


@command(access, "check", serves=("access.check",))
def check(session: ApiSession, caller: Caller, target: Target) -> None:
    """Tell whether one may call the other."""
    body = {"caller_id": _named(session, caller), "target_id": _named(session, target)}
    verdict = session.client.post("/registry/check-access", body).object()
    session.answer(verdict, f"{_word(verdict)}: {verdict['reason']}")


@command(access, "explain", serves=("access.explain",))
def explain(session: ApiSession, caller: Caller, target: Target) -> None:
    """Tell why one may, or may not, call the other, rule by rule."""
    query = urlencode({"caller": _named(session, caller), "target": _named(session, target)})
    explained = session.client.get(f"/access/explain?{query}").object()
    lines = [
        (step["rule"], "yes" if step["matched"] else "no", step["detail"]) for step in explained["checked"]
    ]
    rules = output.table(("rule", "speaks", "what it says"), lines)
    session.answer(explained, _sentence(explained), rules, *_remedy(session, explained))


@command(grants, "create", serves=("grant.create",))
def create(
    session: ApiSession,
    caller: Caller,
    target: Target,
    reason: Annotated[str, typer.Option(help="Why; whoever reads the list later will ask.")],
    days: Annotated[int, typer.Option(min=1, max=365, help="How many days it holds.")] = 30,
    both_ways: Annotated[
        bool, typer.Option("--both-ways", help="The target may call the caller too.")
    ] = False,
) -> None:
    """Let one workspace call another."""
    body = {
        "from": workspace_lookup.find(session.client, caller)["id"],
        "to": workspace_lookup.find(session.client, target)["id"],
        "expires_at": times.format_time(datetime.now(UTC) + timedelta(days=days)),
        "reason": reason,
        "bidirectional": both_ways,
    }
    grant = session.client.post("/access/grants", body).object()
    until = output.moment(grant["expires_at"])
    ends = session.hint(f"grant delete {grant['id']}")
    session.answer(grant, f"{caller} may call {target} until {until}. `{ends}` ends it.")


@command(grants, "list", serves=("grant.list",))
def list_grants(session: ApiSession) -> None:
    """List the grants that hold."""
    rows = session.client.get("/access/grants").rows()
    names = {row["id"]: row["name"] for row in session.client.every_row("/workspaces", {})}
    lines = [
        (
            names.get(row["from"], row["from"]),
            "↔" if row["bidirectional"] else "→",
            names.get(row["to"], row["to"]),
            output.moment(row["expires_at"]),
            row["reason"],
            row["id"],
        )
        for row in rows
    ]
    adds = session.hint("grant create CALLER TARGET --reason …")
    empty = f"No grants: the tree alone decides. `{adds}` adds a way."
    header = ("from", "", "to", "until", "reason", "id")
    session.answer(rows, output.table(header, lines) if rows else empty)


@command(grants, "delete", serves=("grant.delete",))
def delete(
    session: ApiSession, grant: Annotated[str, typer.Argument(metavar="GRANT", help="Its id.")]
) -> None:
    """End a grant; calls under way are not cut."""
    done = session.client.delete(f"/access/grants/{client.segment(grant)}").object()
    session.answer(done, "The grant has ended. The tree alone decides again.")


def _named(session: ApiSession, wanted: str) -> str:
    return wanted if wanted.startswith(_PEOPLE) else str(workspace_lookup.find(session.client, wanted)["id"])


def _word(verdict: dict[str, Any]) -> str:
    word = "allowed" if verdict["allowed"] else "denied"
    return word if verdict["rule"] == word else f"{word} ({verdict['rule']})"


def _sentence(explained: dict[str, Any]) -> str:
    caller, target = (
        " / ".join(explained[side]["path"]) or explained[side]["name"] for side in ("caller", "target")
    )
    return f"{caller} → {target}: {_word(explained)}. {explained['reason'].capitalize()}."


def _remedy(session: ApiSession, explained: dict[str, Any]) -> list[str]:
    if not any(remedy["kind"] == "grant" for remedy in explained["remedies"]):
        return []
    caller, target = (hints.word(explained[side]["name"]) for side in ("caller", "target"))
    return [f"To allow it for a while: {session.hint(f'grant create {caller} {target} --reason …')}"]
