"""Where hermes is installed: in an environment of its own, which an installer noted down."""

import asyncio
import os
import shutil
from asyncio.subprocess import DEVNULL
from collections.abc import Mapping
from pathlib import Path

from molecule_runtime.runtimes.hermes.errors import HermesError
from molecule_wire import engines

CHECK_SECONDS = 30.0


def find_hermes(env: Mapping[str, str] | None = None) -> Path:
    """The executable: `HERMES_BIN`, else the installed engine, else `hermes` on the path.

    Raises `HermesError` when there is none.
    """
    env = os.environ if env is None else env
    if said := env.get("HERMES_BIN", "").strip():
        if not os.access(said, os.X_OK):
            raise HermesError(f"HERMES_BIN names {said}, which cannot be executed: correct or unset it.")
        return Path(said)
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


async def check_http_library(executable: Path) -> None:
    """Raise `HermesError` when hermes' environment has no aiohttp: its API server and our plugin need it."""
    interpreter = interpreter_of(executable)
    if interpreter is None:
        return
    question = "import importlib.util, sys; sys.exit(3 if importlib.util.find_spec('aiohttp') is None else 0)"
    try:
        process = await asyncio.create_subprocess_exec(
            str(interpreter), "-I", "-c", question, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL
        )
    except OSError:
        return
    try:
        code = await asyncio.wait_for(process.wait(), CHECK_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()
        return
    if code == 3:
        raise HermesError("hermes' environment has no aiohttp: install hermes-agent[messaging,mcp] there.")
