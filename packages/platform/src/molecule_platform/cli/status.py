"""`molecule status`, `whoami`, `login-url`, `metrics`, `openapi`, `version`: the house as a whole."""

from collections import Counter
from typing import Any

import typer

from molecule_platform import __version__
from molecule_platform.cli import client, output, problems
from molecule_platform.cli.session import ApiSession, JsonFlag, command

platform = typer.Typer()


@platform.command("version")
def version(as_json: JsonFlag = False) -> None:
    """Print the version of this program."""
    if as_json:
        output.show_json({"version": __version__})
    else:
        output.show(f"molecule {__version__}")


@command(platform, "login-url", serves=("login.code",))
def login_url(session: ApiSession) -> None:
    """Make a one-time link to the canvas."""
    made = session.client.post("/auth/login-codes", {"user": "admin", "role": "owner"}).object()
    session.answer(made, made["url"], f"\nIt works once, until {output.moment(made['expires_at'])}.")


@command(platform, "whoami", serves=("login.session",))
def whoami(session: ApiSession) -> None:
    """Tell whom the platform takes you for."""
    who = session.client.get("/auth/session").object()
    lines = [
        ("principal", who["principal"]),
        ("role", who["role"] or ""),
        ("organisation", f"{who['org_name']} ({who['org_id']})"),
        ("may do", ", ".join(who["scopes"])),
        ("until", output.moment(who["expires_at"]) if who["expires_at"] else ""),
        ("token from", session.target.token_from),
    ]
    session.answer(who, output.facts(lines))


@command(platform, "status", serves=("health", "ready", "version", "liveness"))
def status(session: ApiSession) -> None:
    """Tell how the platform and its agents are.

    The exit code is 1 if it does not serve.
    """
    running = running_version(session.client.get("/health"))
    ready = readiness(session.client)
    rows = session.client.every_row("/workspaces")
    counts = Counter(str(row["status"]) for row in rows)
    value = {
        "url": session.target.url,
        "version": running,
        "features": session.client.get("/version").object()["features"],
        "ready": ready["status"] == "ready",
        "checks": ready["checks"],
        "loops": loops(session.client),
        "workspaces": dict(sorted(counts.items())),
        "waiting_messages": sum(row["pending"] for row in rows),
    }
    session.answer(value, output.facts(_lines(session, value)))
    if not value["ready"]:
        raise typer.Exit(1)


@command(platform, "metrics", serves=("metrics",))
def metrics(session: ApiSession) -> None:
    """Print the figures for Prometheus."""
    text = session.client.get("/metrics").text()
    session.answer({"text": text}, text.rstrip("\n"))


@command(platform, "openapi", serves=("openapi",))
def openapi(session: ApiSession) -> None:
    """Print the API as an OpenAPI document, for generators of clients."""
    output.show_json(session.client.get("/openapi.json").object())


def running_version(health: client.ApiResponse) -> str:
    """The version that /health tells; whoever tells none is no platform."""
    version = health.object().get("version")
    if not isinstance(version, str):
        raise client.not_a_platform(health.url)
    return version


def readiness(platform: client.Client) -> dict[str, Any]:
    """What /ready says, also when it says no."""
    answer = platform.exchange(client.ApiRequest("GET", "/ready"))
    ready = answer.object()
    if not isinstance(ready.get("checks"), dict):
        raise client.not_a_platform(answer.url)
    return ready


def loops(platform: client.Client) -> dict[str, Any] | None:
    """How the loops of the platform do; None if only another credential may know."""
    try:
        return platform.get("/admin/liveness").object()["subsystems"]
    except problems.Refused as refused:
        if refused.status != 403:
            raise
        return None


def unwell(loops: dict[str, Any]) -> list[str]:
    """The names of the loops that do not do their work."""
    return [name for name, loop in loops.items() if not loop["ok"]]


def _lines(session: ApiSession, value: dict[str, Any]) -> list[tuple[str, Any]]:
    failed = ", ".join(name for name, outcome in value["checks"].items() if outcome != "ok")
    trouble = f"not ready: {failed or 'it is stopping'}"
    stuck = ", ".join(unwell(value["loops"] or {}))
    counts = ", ".join(f"{number} {status}" for status, number in value["workspaces"].items())
    first = f"none yet; `{session.hint('workspace create NAME')}` makes the first"
    return [
        ("platform", f"Molecule {value['version']} at {value['url']}"),
        ("serves", output.status("ok") if value["ready"] else trouble),
        ("stuck", stuck),
        ("workspaces", counts or first),
        ("waiting", output.counted(value["waiting_messages"], "message")),
    ]
