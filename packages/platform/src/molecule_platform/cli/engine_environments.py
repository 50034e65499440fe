"""The environments of engines on this machine: installed whole or not at all, replaced without a gap.

Scripts of an environment hold absolute paths, so it cannot be made somewhere else and moved. Each install
therefore gets a folder of its own beside the others, and `engine.json` is the pointer that is replaced,
atomically, when the new one has proved that it runs. A folder that nothing points to is what an interrupted
install left; the next one removes it.
"""

import errno
import json
import os
import re
import secrets
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from molecule_platform.cli import package_installer, problems
from molecule_platform.cli.progress import Progress
from molecule_wire import engines, file_locks, times
from molecule_wire.engines import Engine, InstalledEngine

LOCK_NAME = "install.lock"
LOCK_LOOK_SECONDS = 0.1
VERIFY_SECONDS = 120.0
_OF_AN_INSTALL = re.compile(r".+[-.][0-9a-f]{8}")


@dataclass(frozen=True)
class Installation:
    """What an install came to: what there is now, and what there was before (None if nothing)."""

    now: InstalledEngine
    before: InstalledEngine | None
    changed: bool


def is_usable(found: InstalledEngine) -> bool:
    """Whether the executable is still there, and the Python that an environment links to."""
    python = found.executable.with_name("python")
    return os.access(found.executable, os.X_OK) and (python.exists() or not python.is_symlink())


def find(name: str) -> Engine:
    """The row of an engine. Raises a `Problem` that names those there are."""
    engine = engines.ENGINES.get(name)
    if engine is None:
        there = ", ".join(sorted(engines.ENGINES))
        raise problems.Problem(
            f"there is no engine {name!r} to install: choose one of {there}", "unknown-engine"
        )
    return engine


def install(
    engine: Engine, env: Mapping[str, str], progress: Progress, *, force: bool = False
) -> Installation:
    """Bring an engine to its pinned version. Raises a `Problem`, and then what was there before still is."""
    if not force and (found := _current(engine, env)):
        return Installation(found, found, changed=False)
    _check_python(engine)
    folder = engines.engine_dir(engine.name, env)
    with _signals_interrupt(), _exclusive(folder, engine, progress) as lock:
        if not force and (found := _current(engine, env)):  # another install has just done it
            return Installation(found, found, changed=False)
        before = engines.installed(engine.name, env)
        home = folder / f"{engine.version}-{secrets.token_hex(4)}"
        try:
            _remove_unused(folder, before)
            _fill(engine, home, env, progress, lock)
            now = _publish(engine, folder, home)
        except OSError as problem:
            _remove(home)
            raise _unusable(folder, problem) from problem
        except BaseException:
            _remove(home)
            raise
        with suppress(
            KeyboardInterrupt
        ):  # the new one is in place: whoever stops this stops only the cleaning
            _remove_unused(folder, now)
    return Installation(now, before, changed=True)


def _current(engine: Engine, env: Mapping[str, str]) -> InstalledEngine | None:
    found = engines.installed(engine.name, env)
    return found if found and found.version == engine.version and is_usable(found) else None


def _check_python(engine: Engine) -> None:
    oldest, beyond = engine.python
    if oldest <= sys.version_info[:2] < beyond:
        return
    here = ".".join(map(str, sys.version_info[:2]))
    needed = f"{oldest[0]}.{oldest[1]} to {beyond[0]}.{beyond[1] - 1}"
    raise problems.Problem(
        f"{engine.name} {engine.version} needs Python {needed} and molecule runs on {here}: "
        "install molecule with a Python that suits both",
        "python-version",
    )


def _fill(engine: Engine, home: Path, env: Mapping[str, str], progress: Progress, lock: int) -> None:
    """Make the environment, put the packages into it, and see that the engine says its version."""
    installer = package_installer.choose(env)
    clean = package_installer.environment(env)

    def on_line(line: str) -> None:
        if words := package_installer.busy_with(line):
            progress.detail(words)

    try:
        progress.step(f"Making an environment of Python {'.'.join(map(str, sys.version_info[:3]))}")
        package_installer.run(installer.create_command(home), clean, lock=lock)
        progress.step(f"Installing {engine.distribution} {engine.version} with {installer.name}")
        command = installer.install_command(home, engine.requirement)
        package_installer.run(command, clean, lock=lock, on_line=on_line)
    except package_installer.InstallerFailed as failed:
        raise package_installer.explain(failed, installer, engine.requirement, home.parent) from failed
    progress.step(f"Checking that {engine.executable} runs")
    _verify(engine, home, env, lock)


def _verify(engine: Engine, home: Path, env: Mapping[str, str], lock: int) -> None:
    command = [str(home / "bin" / engine.executable), *engine.version_arguments]
    shown = " ".join([engine.executable, *engine.version_arguments])
    # An engine may write into its user's home at the first start; that is not ours to begin.
    with tempfile.TemporaryDirectory(prefix="molecule-engine-", ignore_cleanup_errors=True) as scratch:
        clean = package_installer.environment(env, HOME=scratch)
        try:
            said = package_installer.run(command, clean, lock=lock, timeout=VERIFY_SECONDS)
        except package_installer.InstallerFailed as failed:
            raise _unproved(f"`{shown}` fails there", failed.output) from failed
        except TimeoutError:
            raise _unproved(f"`{shown}` says nothing for {VERIFY_SECONDS:.0f} s") from None
        except FileNotFoundError:
            raise _unproved(f"they brought no program {engine.executable!r}") from None
        except PermissionError:
            raise _unproved(f"`{shown}` may not be run there (is the disk mounted `noexec`?)") from None
    if not re.search(rf"(?<![\d.]){re.escape(engine.version)}(?![\d.]*\d)", said):
        raise _unproved(f"`{shown}` does not say {engine.version}", said)


def _unproved(reason: str, output: str = "") -> problems.Problem:
    return problems.Problem(
        f"the packages were installed, but {reason}, so they were removed again: try once more, "
        "and report it if that does not help",
        "engine-broken",
        extras={"output": output.splitlines()},
    )


def _publish(engine: Engine, folder: Path, home: Path) -> InstalledEngine:
    """Let `engine.json` point to the new environment, atomically."""
    executable = home / "bin" / engine.executable
    now = InstalledEngine(engine.name, engine.version, executable, times.format_time(datetime.now(UTC)))
    written = folder / f"{engines.FILE_NAME}.{secrets.token_hex(4)}"
    try:
        with written.open("x", encoding="utf-8") as file:
            file.write(json.dumps(now.as_json(), indent=2) + "\n")
            file.flush()
            os.fsync(file.fileno())
        written.replace(folder / engines.FILE_NAME)
    finally:
        written.unlink(missing_ok=True)
    return now


def _remove_unused(folder: Path, used: InstalledEngine | None) -> None:
    """Remove what installs left in the folder, apart from what is used; what is not ours stays."""
    for entry in folder.iterdir():
        if _OF_AN_INSTALL.fullmatch(entry.name) and not (used and used.executable.is_relative_to(entry)):
            _remove(entry)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def _exclusive(folder: Path, engine: Engine, progress: Progress) -> Generator[int]:
    """One install of an engine at a time: the handle of its lock. Folders made in vain are removed."""
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        handle = _lock(folder, engine, progress)
    except OSError as problem:
        _remove_empty(made)
        raise _unusable(folder, problem) from problem
    try:
        yield handle
    finally:
        (folder / LOCK_NAME).unlink(missing_ok=True)
        _remove_empty(made)
        os.close(handle)


def _remove_empty(folders: list[Path]) -> None:
    with suppress(OSError):  # the first that is not empty ends it
        for place in folders:
            place.rmdir()


def _lock(folder: Path, engine: Engine, progress: Progress) -> int:
    path, waiting = folder / LOCK_NAME, False
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            while not file_locks.try_lock(handle):
                if not waiting:
                    progress.step(f"Waiting for another install of {engine.name}")
                waiting = True
                time.sleep(LOCK_LOOK_SECONDS)
            with suppress(FileNotFoundError):
                # Whoever had the lock removed the file in the end, and then it keeps nobody out any more.
                if os.path.samestat(os.fstat(handle), path.stat()):
                    return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


@contextmanager
def _signals_interrupt() -> Generator[None]:
    """Let a wish to stop end the work as Ctrl-C does: with nothing left behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _unusable(folder: Path, problem: OSError) -> problems.Problem:
    if problem.errno in (errno.ENOSPC, errno.EDQUOT):
        return package_installer.disk_full(folder)
    return problems.Problem(
        f"{folder} cannot be written ({problem.strerror or problem}): name a folder of yours with "
        f"{engines.DIRECTORY_VARIABLE}",
        "not-writable",
    )
