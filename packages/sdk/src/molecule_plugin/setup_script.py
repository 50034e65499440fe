"""Running a plugin's `setup.sh`: few environment variables, a time limit, and no process left behind."""

import contextlib
import fnmatch
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from molecule_plugin.safe_paths import is_plain_file

SETUP_FILE = "setup.sh"
SETUP_SECONDS = 120.0
OUTPUT_BYTES = 64 * 1024
SWITCH_VARIABLE = "MOLECULE_PLUGIN_SETUP"
_SHOWN_CHARACTERS = 200
_LOOK_EVERY = 0.05
_LAST_READS = 64

_ALLOWED = (
    *("PATH", "HOME", "USER", "LANG", "LC_*", "TMPDIR", "SHELL", "TERM", "VIRTUAL_ENV"),
    *("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_*", "NPM_CONFIG_*"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
)


@dataclass(frozen=True)
class Setup:
    """Which plugin is set up where.

    `declared` are the variables its manifest asks for, `approved` those of the caller: names to be taken from
    our own environment, or a mapping with values. A variable passes when it is in both.
    """

    plugin: str
    plugin_dir: Path
    configs_dir: Path
    workspace_id: str = ""
    declared: Collection[str] = ()
    approved: Collection[str] = ()


@dataclass(frozen=True)
class SetupOutcome:
    """How it went; `warning` is empty when all is well."""

    ran: bool = False
    exit_code: int | None = None
    seconds: float = 0.0
    output: str = ""
    warning: str = ""


def run_setup(setup: Setup, *, limit: float = SETUP_SECONDS) -> SetupOutcome:
    """Run `setup.sh` if the plugin has one and `MOLECULE_PLUGIN_SETUP` is not `off`. It never raises."""
    if os.environ.get(SWITCH_VARIABLE) == "off" or not is_plain_file(setup.plugin_dir / SETUP_FILE):
        return SetupOutcome()
    if sys.platform == "win32":
        return SetupOutcome(warning="setup.sh was not run: it needs bash and a POSIX system")
    began = time.monotonic()
    try:
        return _run(setup, began, limit)
    except OSError as problem:
        return SetupOutcome(seconds=time.monotonic() - began, warning=f"setup.sh cannot be run: {problem}")


def setup_environment(setup: Setup, ours: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of `setup.sh`, taken from `ours` by an allow-list."""
    passed = {
        name: value
        for name, value in ours.items()
        if any(fnmatch.fnmatchcase(name, allowed) for allowed in _ALLOWED)
    }
    approved: object = setup.approved
    values = cast("Mapping[str, str]", approved) if isinstance(approved, Mapping) else ours
    for name in setup.declared:
        if name in setup.approved and name in values:
            passed[name] = values[name]
    return passed | {
        "CONFIGS_DIR": str(setup.configs_dir),
        "MOLECULE_PLUGIN_NAME": setup.plugin,
        "MOLECULE_PLUGIN_DIR": str(setup.plugin_dir),
        "MOLECULE_WORKSPACE_ID": setup.workspace_id,
    }


def _run(setup: Setup, began: float, limit: float) -> SetupOutcome:
    process = subprocess.Popen(  # noqa: S603 - running it is the promise; it was verified before
        ["bash", SETUP_FILE],  # noqa: S607 - the caller's own PATH says which bash
        cwd=setup.plugin_dir,
        env=setup_environment(setup, os.environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    with process:
        captured = _CapturedOutput(process)
        try:
            in_time = captured.follow(began + limit)
        finally:
            _kill_group(process.pid)
        code = process.wait()
        captured.drain()
    seconds = round(time.monotonic() - began, 3)
    warning = _warning(code, captured.text("stderr")) if in_time else f"setup.sh timed out ({limit:g}s)"
    return SetupOutcome(True, code, seconds, captured.text("stdout") + captured.text("stderr"), warning)


def _warning(code: int, stderr: str) -> str:
    return f"setup.sh exited {code}: {stderr[:_SHOWN_CHARACTERS]}" if code else ""


def _kill_group(group: int) -> None:
    """End the script's children too, whether it ended by itself or not."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


class _CapturedOutput:
    """The first 64 KiB that a process says; the rest is read and forgotten, so that it never waits for us."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._kept = {"stdout": b"", "stderr": b""}
        self._selector = selectors.DefaultSelector()
        for name, stream in (("stdout", process.stdout), ("stderr", process.stderr)):
            assert stream is not None
            self._selector.register(stream.fileno(), selectors.EVENT_READ, name)

    def follow(self, deadline: float) -> bool:
        """Read until the process has ended; false when the deadline came first."""
        while self._process.poll() is None:
            if time.monotonic() >= deadline:
                return False
            if self._selector.get_map():
                self._read(_LOOK_EVERY)
            else:
                time.sleep(_LOOK_EVERY)
        return True

    def drain(self) -> None:
        """Read what is left, without waiting for a process that escaped with the pipe."""
        for _ in range(_LAST_READS):
            if not (self._selector.get_map() and self._read(0)):
                break
        self._selector.close()

    def text(self, name: str) -> str:
        """What was said on one stream."""
        return self._kept[name].decode(errors="replace")

    def _read(self, wait: float) -> bool:
        ready = self._selector.select(wait)
        for key, _ in ready:
            data = os.read(key.fd, OUTPUT_BYTES)
            if not data:
                self._selector.unregister(key.fd)
            room = OUTPUT_BYTES - sum(map(len, self._kept.values()))
            self._kept[key.data] += data[: max(0, room)]
        return bool(ready)
