"""Where hermes is installed: in an environment of its own, which an installer noted down."""

import asyncio
import json
import os
import shutil
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from molecule_runtime.runtimes.hermes.errors import HermesError
from molecule_wire import engines

CHECK_SECONDS = 30.0

_REPORT = Path(__file__).with_name("interpreter_report.py")


@dataclass(frozen=True)
class PluginDistribution:
    """A Python distribution in hermes' environment that offers the plugin by an entry point."""

    name: str
    version: str
    entry_point: str
    digest: str


@dataclass(frozen=True)
class HermesEnvironment:
    """The Python environment that runs hermes. `version` is empty when it has no hermes-agent."""

    interpreter: Path
    prefix: Path
    version: str
    has_aiohttp: bool
    distribution: PluginDistribution | None


def find_hermes(env: Mapping[str, str] | None = None) -> Path:
    """The executable: `HERMES_BIN`, else the installed engine, else `hermes` on the path.

    Raises `HermesError` when there is none.
    """
    env = os.environ if env is None else env
    if binary := env.get("HERMES_BIN", "").strip():
        if not os.access(binary, os.X_OK):
            raise HermesError(f"HERMES_BIN names {binary}, which cannot be executed: correct or unset it.")
        return Path(binary)
    noted = engines.installed("hermes", env)
    if noted is not None and os.access(noted.executable, os.X_OK):
        return Path(noted.executable)
    if found := shutil.which("hermes", path=env.get("PATH")):
        return Path(found)
    raise HermesError(
        "hermes is not installed: run `molecule runtime install hermes`, or set HERMES_BIN to its executable."
    )


def interpreter_of(executable: Path) -> Path | None:
    """The Python that runs hermes: of its first line, else the one of the environment that it is in.

    None for another kind of program, which says itself what it lacks.
    """
    try:
        with executable.open("rb") as file:
            first = file.readline(4096).decode(errors="replace").strip()
    except OSError:
        first = ""
    named = Path(first[2:].strip().split(" ")[0]) if first.startswith("#!") else Path()
    if named.name.startswith("python") and named.exists():
        return named
    folder = executable.absolute().parent
    return folder / "python" if (folder.parent / "pyvenv.cfg").exists() else None


async def describe(executable: Path) -> HermesEnvironment | None:
    """The environment that runs hermes, as its interpreter reports it; None when it cannot be asked."""
    interpreter = interpreter_of(executable)
    if interpreter is None:
        return None
    try:
        process = await asyncio.create_subprocess_exec(
            str(interpreter), "-I", str(_REPORT), stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL
        )
    except OSError:
        return None
    try:
        printed, _ = await asyncio.wait_for(process.communicate(), CHECK_SECONDS)
        report: dict[str, Any] = json.loads(printed)
        distribution: dict[str, str] | None = report["distribution"]
        return HermesEnvironment(
            interpreter=interpreter,
            prefix=Path(report["prefix"]),
            version=report["version"],
            has_aiohttp=report["has_aiohttp"],
            distribution=None if distribution is None else PluginDistribution(**distribution),
        )
    except (TimeoutError, ValueError, KeyError, TypeError):
        return None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def check_http_library(executable: Path) -> None:
    """Raise `HermesError` when hermes' environment has no aiohttp: its API server and our plugin need it."""
    environment = await describe(executable)
    if environment is not None and not environment.has_aiohttp:
        raise HermesError("hermes' environment has no aiohttp: install hermes-agent[messaging,mcp] there.")
