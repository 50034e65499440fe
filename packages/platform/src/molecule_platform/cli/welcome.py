"""The one screen of `molecule up`: where it is, how to get in, what runs, how to stop."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from molecule_platform import __version__
from molecule_platform.cli import hints, output
from molecule_platform.settings import SETTINGS, Settings

EXAMPLE = 'send lead "Tell me about tea"'
_DEFAULT_PORT = next(setting.default for setting in SETTINGS if setting.name == "PORT")


def as_json(settings: Settings, url: str, login_url: str) -> dict[str, Any]:
    """The same for a machine."""
    return {"url": url, "login_url": login_url, "data_dir": str(settings.data_dir), "pid": os.getpid()}


def show(settings: Settings, url: str, login_url: str, members: Sequence[str]) -> None:
    """Print the screen."""
    output.show("", Text(f"  Molecule {__version__} is up.", style="bold"), "")
    for name, value in _lines(settings, url, login_url, members):
        output.show(Text.assemble("  ", (f"{name:<9}", "bold"), value))
    output.show("", "  Ctrl-C stops everything; starting again continues where it was.", "")


def _lines(
    settings: Settings, url: str, login_url: str, members: Sequence[str]
) -> list[tuple[str, str | tuple[str, str]]]:
    lines: list[tuple[str, str | tuple[str, str]]] = [
        ("Open", (login_url, "green")),
        ("", f"this link lets you in once, within 15 minutes; another: {command(settings, 'login-url')}"),
        ("URL", url),
        ("Data", str(settings.data_dir)),
        ("Storage", _storage(settings)),
    ]
    if members:
        lines += [("Demo", ", ".join(members)), ("", f"try: {command(settings, EXAMPLE)}")]
    return lines


def _storage(settings: Settings) -> str:
    on_postgres = (settings.database_url or "").startswith("postgresql")
    database = "PostgreSQL" if on_postgres else "SQLite"
    return f"{database}, wake-ups {'by NATS' if settings.nats_url else 'in this process'}"


def command(settings: Settings, words: str) -> str:
    """A command as another terminal in this folder has to type it."""
    return hints.command(words, _flags(settings))


def _flags(settings: Settings) -> list[str]:
    flags: list[str] = []
    if str(settings.port) != _DEFAULT_PORT:
        flags.append(hints.flag("--url", f"http://127.0.0.1:{settings.port}"))
    if settings.data_dir != Path("~/.molecule/platform").expanduser():
        flags.append(hints.flag("--data-dir", hints.short(settings.data_dir)))
    return flags
