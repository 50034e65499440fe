"""`molecule runtime`: the agent engines of this machine, each in an environment of its own."""

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from molecule_platform.cli import hints, output, problems
from molecule_platform.cli.session import JsonFlag
from molecule_wire import engines
from molecule_wire.engines import Engine, InstalledEngine

runtimes = typer.Typer(no_args_is_help=True, help="Agent engines on this machine.")

STOPPED = 130  # what a shell says of a program that Ctrl-C ended


@dataclass(frozen=True)
class EngineRow:
    """An engine of the table beside what is installed of it."""

    engine: Engine
    found: InstalledEngine | None
    usable: bool
    folder: Path

    @property
    def status(self) -> str:
        """Whether the pinned version can be used, and why not."""
        if self.found is None:
            return "not installed"
        if not self.usable:
            return "damaged"
        return "installed" if self.found.version == self.engine.version else "outdated"

    @property
    def place(self) -> str:
        """The folder of the environment, or the one it would get."""
        return str(self.found.executable.parent.parent if self.found else self.folder)

    def as_json(self) -> dict[str, Any]:
        """The row for a machine."""
        found = self.found
        return {
            "engine": self.engine.name,
            "pinned": self.engine.version,
            "installed": found.version if found else None,
            "status": self.status,
            "place": self.place,
            "executable": str(found.executable) if found else None,
            "installed_at": found.installed_at if found else None,
        }

    def cells(self) -> tuple[str | Text, ...]:
        """The row for a person."""
        styles = {"installed": "green", "outdated": "yellow", "damaged": "red"}
        words = self.found.version if self.found else self.status
        words += " (damaged)" if self.status == "damaged" else ""
        shown = Text(output.one_line(words), style=styles.get(self.status, "bright_black"))
        return self.engine.name, self.engine.version, shown, _short(self.place)


@runtimes.command("list")
def list_engines(as_json: JsonFlag = False) -> None:
    """List the agent engines, and which are installed where."""
    rows = [_row(engine) for _name, engine in sorted(engines.ENGINES.items())]
    if as_json:
        output.show_json([row.as_json() for row in rows])
        return
    output.show(output.table(("engine", "pinned", "installed", "place"), [row.cells() for row in rows]))
    if all(row.found is None for row in rows):
        output.show("No engine is installed yet. This installs one:")
    does = {"not installed": "installs {}", "outdated": "brings {} to {}", "damaged": "installs {} anew"}
    steps = [
        (_install(row.engine), does[row.status].format(row.engine.name, row.engine.version))
        for row in rows
        if row.status in does
    ]
    if steps:
        output.show(output.steps(steps))


@runtimes.command("install")
def install(
    name: Annotated[str, typer.Argument(metavar="ENGINE", help="Name of the engine, such as hermes.")],
    force: Annotated[bool, typer.Option("--force", help="Install it anew, also if it is there.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Install an agent engine into an environment of its own.

    Its version is the one that this release of Molecule is made for. Another version is replaced when the new
    one runs; if anything fails before, it stays. Packages come from the index that uv or pip is set up for.
    """
    from molecule_platform.cli import engine_environments, progress  # the other commands do not pay for them

    engine = engine_environments.find(name)
    began = time.monotonic()
    try:
        with progress.shown(as_json=as_json) as shown:
            result = engine_environments.install(engine, os.environ, shown, force=force)
    except KeyboardInterrupt:
        raise problems.Problem("stopped; nothing was changed", "aborted", exit_code=STOPPED) from None
    if as_json:
        before = result.before.version if result.before and result.changed else None
        output.show_json(result.now.as_json() | {"changed": result.changed, "replaced": before})
        return
    what = f"{engine.name} {result.now.version}"
    if not result.changed:
        output.show(f"{what} is installed already:", f"  {result.now.executable}")
        output.show("To install it anew:", f"  {_install(engine)} --force")
        return
    was = result.before.version if result.before else engine.version
    instead = f" in place of {was}" if was != engine.version else ""
    took = progress.duration(time.monotonic() - began)
    output.show(f"{what} is installed{instead} ({took}):", f"  {result.now.executable}")
    output.show(f"Workspaces with the runtime {engine.name} find it there when they start.")


def _row(engine: Engine) -> EngineRow:
    from molecule_platform.cli import engine_environments

    found = engines.installed(engine.name, os.environ)
    usable = found is not None and engine_environments.is_usable(found)
    return EngineRow(engine, found, usable, engines.engine_dir(engine.name, os.environ))


def _short(place: str) -> str:
    """A path with `~` for the reader's home, so that it stays on its line."""
    home = os.path.expanduser("~")
    return f"~{place[len(home) :]}" if place.startswith(f"{home}/") else place


def _install(engine: Engine) -> str:
    return hints.command(f"runtime install {engine.name}")
