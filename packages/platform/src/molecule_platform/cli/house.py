"""`molecule status`, `login-url` and `version`: the house as a whole."""

from collections import Counter
from typing import Any

import typer

from molecule_platform import __version__
from molecule_platform.cli import client, screen
from molecule_platform.cli.session import JsonFlag, Session, command

house = typer.Typer()


@house.command("version")
def version(as_json: JsonFlag = False) -> None:
    """Print the version of this program."""
    if as_json:
        screen.show_json({"version": __version__})
    else:
        screen.show(f"molecule {__version__}")


@command(house, "login-url")
def login_url(session: Session) -> None:
    """Make a one-time link to the canvas."""
    made = session.client.post("/auth/login-codes", {"user": "admin", "role": "owner"}).object()
    session.answer(made, made["url"], f"\nIt works once, until {screen.moment(made['expires_at'])}.")


@command(house, "status")
def status(session: Session) -> None:
    """Tell how the platform and its agents are.

    The exit code is 1 if it does not serve.
    """
    version = running_version(session.client.get("/health"))
    ready = readiness(session.client)
    rows = session.client.every_row("/workspaces")
    counts = Counter(str(row["status"]) for row in rows)
    waiting = sum(row["pending"] for row in rows)
    value = {
        "url": session.target.url,
        "version": version,
        "ready": ready["status"] == "ready",
        "checks": ready["checks"],
        "workspaces": dict(sorted(counts.items())),
        "waiting_messages": waiting,
    }
    session.answer(value, screen.facts(_lines(value, len(rows))))
    if not value["ready"]:
        raise typer.Exit(1)


def running_version(health: client.Answer) -> str:
    """The version that /health tells; whoever tells none is no platform."""
    version = health.object().get("version")
    if not isinstance(version, str):
        raise client.not_a_platform(health.url)
    return version


def readiness(platform: client.Client) -> dict[str, Any]:
    """What /ready says, also when it says no."""
    answer = platform.exchange(client.Request("GET", "/ready"))
    ready = answer.object()
    if not isinstance(ready.get("checks"), dict):
        raise client.not_a_platform(answer.url)
    return ready


def _lines(value: dict[str, Any], members: int) -> list[tuple[str, Any]]:
    failed = ", ".join(name for name, outcome in value["checks"].items() if outcome != "ok")
    trouble = f"not ready: {failed or 'it is stopping'}"
    counts = ", ".join(f"{number} {status}" for status, number in value["workspaces"].items())
    return [
        ("platform", f"Molecule {value['version']} at {value['url']}"),
        ("serves", screen.status("ok") if value["ready"] else trouble),
        ("workspaces", counts if members else "none yet; `molecule workspace create NAME` makes the first"),
        ("waiting", screen.counted(value["waiting_messages"], "message")),
    ]
