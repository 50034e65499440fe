"""More of `molecule plugin`: what an organisation allows and trusts, and what was revoked."""

from typing import Annotated, Any

import typer

from molecule_platform.cli import client, output, problems
from molecule_platform.cli.session import ApiSession, command

rules = typer.Typer()

Key = Annotated[str, typer.Argument(metavar="KEY", help="The publisher's key, as in ed25519:…")]


@command(rules, "allowlist", serves=("plugin.allowlist", "login.session"))
def allowlist(session: ApiSession) -> None:
    """Show what the organisation allows."""
    session.answer(*_shown(session, session.client.get(_of_org(session, "allowlist")).object()))


@command(rules, "allow", serves=("plugin.allow", "login.session"))
def allow(
    session: ApiSession,
    entries: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ENTRY…", help="Names, globs such as team-*, or sources such as github://acme/*"
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Allow every plugin.")] = False,
) -> None:
    """Write anew what the organisation allows."""
    if bool(entries) is everything:
        raise problems.usage("name what is allowed, or give --all.")
    asked = client.ApiRequest("PUT", _of_org(session, "allowlist"), {"plugins": entries or []})
    session.answer(*_shown(session, session.client.send(asked).object()))


@command(rules, "keys", serves=("plugin.keys", "login.session"))
def keys(session: ApiSession) -> None:
    """List the publishers' keys that the organisation trusts."""
    found = session.client.get(_of_org(session, "keys")).object()
    lines = [(key["name"], ", ".join(key["allow"]) or "any plugin", key["key"]) for key in found["keys"]]
    adds = session.hint("plugin trust KEY --name …")
    empty = f"The organisation trusts no publisher's key. `{adds}` adds one."
    session.answer(found, output.table(("name", "may sign", "key"), lines) if lines else empty)


@command(rules, "trust", serves=("plugin.keys", "plugin.trust", "login.session"))
def trust(
    session: ApiSession,
    key: Key,
    name: Annotated[str, typer.Option(help="Whose it is.")] = "",
    allowed: Annotated[
        list[str] | None, typer.Option("--for", metavar="GLOB", help="Plugins it may sign; else all.")
    ] = None,
) -> None:
    """Trust a publisher's key, or change what it may sign."""
    others = [one for one in _keys(session) if one["key"] != key]
    done = _put_keys(session, [*others, {"key": key, "name": name, "allow": allowed or []}])
    session.answer(done, f"Plugins signed with {key} are trusted now.")


@command(rules, "distrust", serves=("plugin.keys", "plugin.trust", "login.session"))
def distrust(session: ApiSession, key: Key) -> None:
    """Trust a publisher's key no longer; what is installed stays."""
    before = _keys(session)
    others = [one for one in before if one["key"] != key]
    if len(others) == len(before):
        known = session.hint("plugin keys")
        raise problems.Problem(f"the organisation does not trust this key: `{known}` lists them", "not-found")
    session.answer(_put_keys(session, others), f"{key} is not trusted any more.")


@command(rules, "revocations", serves=("plugin.revocations",))
def revocations(session: ApiSession) -> None:
    """Show what nobody may install any more."""
    listed = session.client.get("/plugins/revocations").object()
    lines = [("key", key["key_id"], key["reason"]) for key in listed["keys"]]
    lines += [("digest", one["content_sha256"], one["reason"]) for one in listed["digests"]]
    for one in listed["plugins"]:
        lines.append(("plugin", f"{one['name']} {', '.join(one['versions'])}", one["reason"]))
    table = output.table(("kind", "what", "reason"), lines) if lines else "Nothing was revoked."
    session.answer(listed, table)


@command(rules, "revoke", serves=("plugin.revocations", "plugin.revoke"))
def revoke(
    session: ApiSession,
    reason: Annotated[str, typer.Option(help="Why; whoever is refused will read it.")],
    plugin: Annotated[
        str | None, typer.Option(metavar="NAME", help="A plugin, or with @VERSION one version of it.")
    ] = None,
    digest: Annotated[
        str | None, typer.Option(metavar="SHA256", help="A content, whatever its name.")
    ] = None,
    key_id: Annotated[str | None, typer.Option("--key", metavar="KEY_ID", help="A publisher's key.")] = None,
) -> None:
    """Forbid a plugin, a content or a key for everybody on this platform."""
    if (plugin, digest, key_id).count(None) != 2:
        raise problems.usage("name one of --plugin, --digest and --key.")
    listed = session.client.get("/plugins/revocations").object()
    if plugin is not None:
        name, _, version = plugin.partition("@")
        listed["plugins"].append({"name": name, "versions": [version or "*"], "reason": reason})
    elif digest is not None:
        listed["digests"].append({"content_sha256": digest, "reason": reason})
    else:
        listed["keys"].append({"key_id": key_id, "reason": reason})
    # As the version after the one that was read: whoever was quicker is not overwritten.
    body = {**listed, "version": listed["version"] + 1}
    done = session.client.send(client.ApiRequest("PUT", "/plugins/revocations", body)).object()
    session.answer(
        done, f"{plugin or digest or key_id} is revoked, with version {done['version']} of the list."
    )


def _of_org(session: ApiSession, what: str) -> str:
    org_id = session.client.get("/auth/session").object()["org_id"]
    return f"/orgs/{client.segment(org_id)}/plugins/{what}"


def _keys(session: ApiSession) -> list[dict[str, Any]]:
    return session.client.get(_of_org(session, "keys")).object()["keys"]


def _put_keys(session: ApiSession, found: list[dict[str, Any]]) -> dict[str, Any]:
    return session.client.send(client.ApiRequest("PUT", _of_org(session, "keys"), {"keys": found})).object()


def _shown(session: ApiSession, allowed: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    if allowed["allow_all"]:
        narrows = session.hint("plugin allow NAME…")
        return allowed, f"Every plugin is allowed. `{narrows}` allows only some."
    return allowed, output.table(("allowed",), [(entry,) for entry in allowed["plugins"]])
