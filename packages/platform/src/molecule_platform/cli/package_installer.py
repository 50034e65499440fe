"""The package installer of an engine's environment: uv if it is there, else venv and pip; and why it failed.

Both take packages from the index that the user has set up for them.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from molecule_platform.cli import problems
from molecule_platform.settings import SETTINGS

# Where uv and pip look for packages, as the environment names it.
_UV_INDEX = ("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_FIND_LINKS", "UV_NO_INDEX", "UV_CONFIG_FILE")
_PIP_INDEX = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX", "PIP_CONFIG_FILE")
# What would put packages, or Python itself, somewhere else than into the environment.
_ASTRAY = frozenset(
    {
        "PYTHONPATH",
        "PYTHONHOME",
        "VIRTUAL_ENV",
        "CONDA_PREFIX",
        "PIP_USER",
        "PIP_TARGET",
        "PIP_PREFIX",
        "PIP_ROOT",
    }
)
_OURS = frozenset(setting.name for setting in SETTINGS)
_LAST_LINES = 40


@dataclass(frozen=True)
class PackageInstaller:
    """The program that makes an environment and fills it."""

    name: str
    program: str

    @property
    def index_variable(self) -> str:
        """The variable that names another package index."""
        return "UV_DEFAULT_INDEX" if self.name == "uv" else "PIP_INDEX_URL"

    def create_command(self, home: Path) -> list[str]:
        """Make an empty environment of the Python that runs here."""
        if self.name == "uv":
            return [self.program, "venv", "--no-project", "--python", sys.executable, str(home)]
        return [self.program, "-m", "venv", str(home)]

    def install_command(self, home: Path, requirement: str) -> list[str]:
        """Install the requirement into the environment."""
        python = str(home / "bin" / "python")
        if self.name == "uv":
            # Without bytecode the first start of the engine would compile everything, while a turn waits.
            return [self.program, "pip", "install", "--compile-bytecode", "--python", python, requirement]
        quiet = ["--progress-bar", "off", "--no-input", "--disable-pip-version-check"]
        return [python, "-m", "pip", "install", *quiet, requirement]


class InstallerFailed(Exception):
    """A program ended with an exit code other than 0; `output` is what it said."""

    def __init__(self, output: str) -> None:
        super().__init__(output)
        self.output = output


def choose(env: Mapping[str, str]) -> PackageInstaller:
    """uv if it is on PATH, unless the environment names a package index for pip and none for uv."""
    uv = shutil.which("uv", path=env.get("PATH"))
    only_pip = any(map(env.get, _PIP_INDEX)) and not any(map(env.get, _UV_INDEX))
    return PackageInstaller("uv", uv) if uv and not only_pip else PackageInstaller("pip", sys.executable)


def environment(env: Mapping[str, str], **more: str) -> dict[str, str]:
    """The environment for the installer and for the engine: without secrets of the platform, in English."""
    kept = {
        name: value
        for name, value in env.items()
        if name not in _ASTRAY and name not in _OURS and not name.startswith("MOLECULE_")
    }
    return kept | {"LC_ALL": "C.UTF-8", "PYTHONUNBUFFERED": "1"} | more


def run(
    command: Sequence[str],
    env: Mapping[str, str],
    *,
    lock: int,
    on_line: Callable[[str], None] = lambda line: None,
    timeout: float | None = None,
) -> str:
    """Run a program to its end; returns what it said. Raises `InstallerFailed`, if late `TimeoutError`.

    It inherits the lock: if this process is killed, the lock is free only when the program has ended too, so
    that nobody cleans up a folder that it still writes into.
    """
    process = subprocess.Popen(  # noqa: S603 - uv, Python or the engine, by their paths
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=dict(env),
        encoding="utf-8",
        errors="replace",
        start_new_session=True,  # so that all it started can be ended with it
        pass_fds=(lock,),
    )
    try:
        lines = _lines(process, on_line, timeout)
    except BaseException:
        _kill(process)
        process.wait()
        raise
    if process.returncode:
        raise InstallerFailed("\n".join(lines[-_LAST_LINES:]))
    return "\n".join(lines)


def _lines(
    process: subprocess.Popen[str], on_line: Callable[[str], None], timeout: float | None
) -> list[str]:
    """What the process says until it ends."""
    assert process.stdout is not None
    late = threading.Event()
    timer = threading.Timer(timeout or 0, lambda: (late.set(), _kill(process)))
    if timeout is not None:
        timer.start()
    lines: list[str] = []
    try:
        with process.stdout as said:
            for line in said:
                lines.append(line.rstrip())
                on_line(line.strip())
        process.wait()
    finally:
        timer.cancel()
    if late.is_set():
        raise TimeoutError
    return lines


def _kill(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def busy_with(line: str) -> str:
    """What a line of the installer says of its progress, in a few words; empty if nothing."""
    if "Retrying" in line and "connection broken" in line:
        return "the package index does not answer; trying again"
    if found := re.match(
        r"(Collecting|Downloading|Downloaded|Building|Preparing|Using cached) (\S+)( \(\d[^)]*\))?", line
    ):
        return f"{found[1].lower()} {found[2].rpartition('/')[2]}{found[3] or ''}"
    if found := re.match(r"(Resolved|Prepared) (\d+ packages)", line):
        return f"{found[1].lower()} {found[2]}"
    if found := re.match(r"Installed (\d+ packages)", line):
        return f"compiling {found[1]}"
    return "installing what was downloaded" if line.startswith("Installing collected") else ""


_DISK_FULL = (
    "the disk is full: make room for {folder} and try again, "
    "or name a folder on another disk with MOLECULE_ENGINES_DIR"
)
_CAUSES: tuple[tuple[str, str, str], ...] = (
    (r"No space left on device|Disk quota exceeded", "disk-full", _DISK_FULL),
    (
        r"Permission denied|Read-only file system",
        "not-writable",
        "{tool} may not write: {line}; give it the right, or name another folder with MOLECULE_ENGINES_DIR",
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED|invalid peer certificate|certificate verify failed",
        "index-certificate",
        "the certificate of the package index is not trusted: name its authority with SSL_CERT_FILE",
    ),
    (
        r"\b(401 Unauthorized|403 Forbidden|40[13] Client Error)",
        "index-refused",
        "the package index refuses the credentials: give valid ones in {variable} or the settings of {tool}",
    ),
    (
        r"Failed to fetch|Request failed after|connection broken by|ConnectTimeoutError|ReadTimeoutError"
        r"|Failed to establish a new connection|error sending request|Name or service not known",
        "index-unreachable",
        "no package index answers: check the network, or name another index with {variable}, then try again",
    ),
    (
        r"No matching distribution found for|no versions? of|was not found in the|No solution found",
        "version-missing",
        "your package index does not have all of {requirement}: name one that has with {variable}",
    ),
    (
        r"ensurepip is not available|No module named (venv|ensurepip|'ensurepip')",
        "no-venv",
        "this Python cannot make environments: install python3-venv, or uv, and try again",
    ),
)


def explain(
    failed: InstallerFailed, installer: PackageInstaller, requirement: str, folder: Path
) -> problems.Problem:
    """The failure of an installer as one sentence that says what to do."""
    said = failed.output.splitlines()
    errors = [line for line in said if re.match(r"(ERROR|error|Error)\b", line)] or [
        said[-1] if said else "no reason"
    ]
    code = "install-failed"
    sentence = "{tool} could not install {requirement}: {line}; `--json` shows all that it said"
    for pattern, known, told in _CAUSES:
        if found := re.search(f".*({pattern}).*", failed.output):
            code, sentence, errors = known, told, [found[0]]
            break
    line = re.sub(r"^(ERROR|error|Error|cause): *", "", errors[0].strip()).rstrip(".")
    words = {"tool": installer.name, "variable": installer.index_variable, "line": line[:200]}
    told = sentence.format(**words, requirement=requirement, folder=folder)
    return problems.Problem(told, code, extras={"output": said})


def disk_full(folder: Path) -> problems.Problem:
    """There is no room for the folder."""
    return problems.Problem(_DISK_FULL.format(folder=folder), "disk-full")
