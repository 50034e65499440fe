"""`molecule agent` and the neighbours of a workspace: who is there, whom it may call, where it is reached."""

from typing import Annotated, Any, cast

import typer
from rich.table import Table

from molecule_platform.cli import client, output, workspace_lookup
from molecule_platform.cli.session import ApiSession, command
from molecule_platform.cli.workspaces import Reference

neighbours = typer.Typer()
agents = typer.Typer(no_args_is_help=True, help="Finding agents by what they can do.")


@command(neighbours, "peers", serves=("registry.peers",))
def peers(
    session: ApiSession,
    workspace: Reference,
    query: Annotated[
        str | None, typer.Option("--query", metavar="TEXT", help="Only with this in name, role or skills.")
    ] = None,
    relation: Annotated[
        str | None, typer.Option(help="Only parent, sibling, child, ancestor, descendant or grant.")
    ] = None,
) -> None:
    """List the workspaces that this one may call."""
    row = workspace_lookup.find(session.client, workspace)
    asked = {"q": query, "relation": relation, "limit": "500"}
    wanted = {name: value for name, value in asked.items() if value is not None}
    rows = session.client.every_row(f"/registry/{client.segment(row['id'])}/peers", wanted)
    lines = [(one["name"], output.status(one["status"]), one["relation"], one["role"]) for one in rows]
    table = output.table(("name", "status", "relation", "role"), lines)
    session.answer(rows, table if rows else f"{row['name']} may call nobody{_that_fits(query, relation)}.")


@command(neighbours, "address", serves=("registry.discover",))
def address(session: ApiSession, workspace: Reference) -> None:
    """Tell where others reach it: always through the platform."""
    row = workspace_lookup.find(session.client, workspace)
    found = session.client.get(f"/registry/discover/{client.segment(row['id'])}").object()
    shown = (("calls", found["url"]), ("A2A", found["agent_url"]), ("card", found["card_url"]))
    # Not a table: an address is copied whole, also in a narrow terminal.
    session.answer(found, "\n".join(f"{name:<6} {url}" for name, url in shown))


@command(agents, "search", serves=("registry.agents",))
def search(
    session: ApiSession,
    text: Annotated[str | None, typer.Argument(metavar="TEXT", help="Words in name, role or card.")] = None,
    skill: Annotated[str | None, typer.Option(help="With this skill.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="With this tag; of several one suffices.")] = None,
    capability: Annotated[str | None, typer.Option(help="Whose card has this capability.")] = None,
    role: Annotated[str | None, typer.Option(help="With exactly this role.")] = None,
    status: Annotated[list[str] | None, typer.Option(help="Of this status; of several one suffices.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="How many at most.")] = 10,
) -> None:
    """Search the agents that you may reach, the best first."""
    single = {"q": text, "skill": skill, "capability": capability, "role": role, "limit": str(limit)}
    asked = [(name, value) for name, value in single.items() if value is not None]
    asked += [("tag", one) for one in tag or ()] + [("status", one) for one in status or ()]
    found = session.client.get("/registry/agents", asked).object()
    unreadable = [f"The card of {one['name']} cannot be read: {one['problem']}" for one in found["problems"]]
    more = ["There are more; --limit shows up to 100."] if found["next_cursor"] else []
    shown = _table(found["agents"]) if found["agents"] else "No agent fits."
    session.answer(found, shown, *unreadable, *more)


@command(agents, "card", serves=("card.show",))
def card(session: ApiSession, workspace: Reference) -> None:
    """Show the card of an agent as others see it, signed by the platform."""
    row = workspace_lookup.find(session.client, workspace)
    path = f"/agents/{client.segment(row['id'])}/.well-known/agent-card.json"
    found = session.client.get(path).object()
    ways = [f"{one['protocolBinding']} {one['protocolVersion']}" for one in found["supportedInterfaces"]]
    shown = (
        ("name", found["name"]),
        ("about", found["description"]),
        ("skills", ", ".join(_skills({"card": found}))),
        ("A2A", found["url"]),
        ("ways", ", ".join(ways)),
    )
    session.answer(found, "\n".join(f"{name:<6} {said}" for name, said in shown))


def _table(found: list[workspace_lookup.Row]) -> Table:
    lines = [
        (one["name"], output.status(one["status"]), one["role"], ", ".join(_skills(one)), one["id"])
        for one in found
    ]
    header = ("name", "status", "role", "skills", "id")
    if output.is_narrow():
        return output.table(header[:4], [line[:4] for line in lines])
    return output.table(header, lines)


def _skills(agent: workspace_lookup.Row) -> list[str]:
    skills: list[Any] = agent["card"].get("skills") or []
    told = [cast(dict[str, Any], skill) for skill in skills if isinstance(skill, dict)]
    return [str(skill.get("name") or skill.get("id") or "") for skill in told]


def _that_fits(*asked: str | None) -> str:
    return " that fits" if any(asked) else ""
