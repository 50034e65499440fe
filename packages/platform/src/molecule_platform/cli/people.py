"""`molecule user` and `molecule org`: who belongs to an organisation, and which organisations there are."""

from typing import Annotated, Any

import typer

from molecule_platform.cli import client, output, problems
from molecule_platform.cli.session import ApiSession, command

users = typer.Typer(no_args_is_help=True, help="The people of the organisation.")
orgs = typer.Typer(no_args_is_help=True, help="Organisations, which do not see each other.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name they sign in with.")]
NamedOrg = Annotated[str, typer.Argument(metavar="ORG", help="Its id or slug.")]
_ROLES = "viewer looks, member also talks to agents, admin also manages, owner may do everything"


@command(users, "list", serves=("user.list",))
def list_users(session: ApiSession) -> None:
    """List the people of the organisation."""
    rows = session.client.every_row("/users")
    lines = [
        (
            row["name"],
            row["role"] + (", platform administrator" if row.get("platform_admin") else ""),
            "disabled" if row["disabled"] else "",
            output.moment(row["last_login_at"]),
        )
        for row in rows
    ]
    empty = f"Nobody yet. `{session.hint('user invite NAME')}` lets the first one in."
    header = ("name", "role", "", "last signed in")
    session.answer(rows, output.table(header, lines) if lines else empty)


@command(users, "invite", serves=("login.code",))
def invite(
    session: ApiSession,
    name: Name,
    role: Annotated[str, typer.Option(help=f"For somebody new: {_ROLES}.")] = "member",
    minutes: Annotated[int, typer.Option(min=1, max=1440, help="How long the link works.")] = 15,
) -> None:
    """Make a one-time link that signs somebody in; who is new becomes a member."""
    body = {"user": name, "role": role, "ttl_seconds": minutes * 60}
    made = session.client.post("/auth/login-codes", body).object()
    until = output.moment(made["expires_at"])
    session.answer(made, made["url"], f"\nIt signs {name} in once, until {until}.")


@command(users, "set", serves=("user.change",))
def change(
    session: ApiSession,
    name: Name,
    role: Annotated[str | None, typer.Option(help=f"Another role: {_ROLES}.")] = None,
    disabled: Annotated[
        bool | None, typer.Option("--disable/--enable", help="Close the door, or open it again.")
    ] = None,
    platform_admin: Annotated[
        bool | None,
        typer.Option(
            "--platform-admin/--no-platform-admin", help="Administrator of the platform; given by another."
        ),
    ] = None,
) -> None:
    """Give somebody another role, or close or open the door.

    Their sessions end at once, everywhere.
    """
    wanted: dict[str, Any] = {"role": role, "disabled": disabled, "platform_admin": platform_admin}
    body = {name: value for name, value in wanted.items() if value is not None}
    if not body:
        raise problems.usage("Nothing to change: give --role, --disable, --enable or --platform-admin.")
    row = session.client.patch(_user(name), body).object()
    door = " and cannot sign in" if row["disabled"] else ""
    session.answer(row, f"{name} is {row['role']}{door}.")


@command(users, "delete", serves=("user.delete",))
def delete(session: ApiSession, name: Name) -> None:
    """Take somebody out of the organisation; their sessions and the tokens they made end at once, everywhere.

    The tokens that came with workspaces they created stay: they are the agents'.
    """
    session.client.delete(_user(name))
    stay = "The tokens they made have ended; those that came with workspaces they created stay."
    session.answer({"deleted": name}, f"{name} no longer belongs to the organisation. {stay}")


@command(orgs, "list", serves=("org.list",))
def list_orgs(session: ApiSession) -> None:
    """List the organisations; who is not the administrator sees their own."""
    rows = session.client.every_row("/orgs")
    lines = [(row["slug"], row["name"], output.moment(row["created_at"]), row["id"]) for row in rows]
    session.answer(rows, output.table(("slug", "name", "created", "id"), lines))


@command(orgs, "create", serves=("org.create",))
def create(
    session: ApiSession,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is called.")],
    slug: Annotated[
        str | None, typer.Option(help="Its short name in commands.", show_default="made from the name")
    ] = None,
) -> None:
    """Make an organisation."""
    body = {"name": name} if slug is None else {"name": name, "slug": slug}
    org = session.client.post("/orgs", body).object()
    invite = session.hint(f"user invite NAME --role owner --org {org['slug']}")
    session.answer(org, f"{org['slug']} is there. Let its owner in: {invite}")


@command(orgs, "show", serves=("org.show",))
def show(session: ApiSession, named: NamedOrg) -> None:
    """Show one organisation."""
    org = session.client.get(_org(named)).object()
    lines = [("slug", org["slug"]), ("name", org["name"]), ("id", org["id"])]
    session.answer(org, output.facts([*lines, ("created", output.moment(org["created_at"]))]))


@command(orgs, "rename", serves=("org.change",))
def rename(
    session: ApiSession,
    named: NamedOrg,
    name: Annotated[str | None, typer.Option(help="What it is called from now on.")] = None,
    slug: Annotated[str | None, typer.Option(help="Its short name from now on.")] = None,
) -> None:
    """Give an organisation another name or slug; its id stays."""
    body = {key: value for key, value in (("name", name), ("slug", slug)) if value is not None}
    if not body:
        raise problems.usage("Nothing to change: give --name or --slug.")
    org = session.client.patch(_org(named), body).object()
    session.answer(org, f"{org['slug']} is now called {org['name']}.")


def _user(name: str) -> str:
    return f"/users/{client.segment(name)}"


def _org(named: str) -> str:
    return f"/orgs/{client.segment(named)}"
