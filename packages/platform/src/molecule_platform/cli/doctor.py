"""`molecule doctor`: one line for each thing that can be wrong, with what to do about it."""

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Literal

import typer

from molecule_platform import __version__
from molecule_platform.cli import client, output, problems
from molecule_platform.cli import status as cli_status
from molecule_platform.cli.connection import Target
from molecule_platform.cli.session import ApiSession, command

doctor = typer.Typer()

SKEW_WARN_SECONDS, SKEW_FAIL_SECONDS = 5.0, 120.0
DISK_WARN_BYTES, DISK_FAIL_BYTES = 1024**3, 100 * 1024**2
SECRET_FILES = ("admin.token", "secrets.key")
TROUBLED = ("offline", "degraded", "failed")


@dataclass(frozen=True)
class Check:
    """What was looked at, how it is, and what to do."""

    name: str
    result: Literal["ok", "warn", "fail"]
    detail: str


@command(doctor, "doctor", serves=("health", "ready", "login.session", "liveness"))
def examine(session: ApiSession) -> None:
    """Look for trouble and say what to do.

    The exit code is 1 if anything fails; a warning alone does not count.
    """
    checks = [
        *_of_platform(session),
        *(_of_folder(session.target) if session.target.is_local else ()),
    ]
    failed = any(check.result == "fail" for check in checks)
    lines = [(output.status(check.result), check.name, check.detail) for check in checks]
    session.answer(
        {"ok": not failed, "checks": [asdict(check) for check in checks]}, output.table(("", "", ""), lines)
    )
    if failed:
        raise typer.Exit(1)


def _of_platform(session: ApiSession) -> Iterator[Check]:
    try:
        health = session.client.get("/health")
        version = cli_status.running_version(health)
    except problems.Problem as problem:
        yield Check("platform", "fail", str(problem))
        return
    yield Check("platform", "ok", f"answers at {session.target.url}")
    yield _version(version)
    yield _guarded("ready", lambda: _ready(session.client))
    yield _clock(health)
    yield _guarded("token", lambda: _token(session))
    yield _guarded("loops", lambda: _loops(session.client))
    yield _guarded("agents", lambda: _agents(session))


def _guarded(name: str, look: Callable[[], Check]) -> Check:
    try:
        return look()
    except problems.Problem as problem:
        return Check(name, "fail", str(problem))


def _version(version: str) -> Check:
    if version == __version__:
        return Check("version", "ok", version)
    return Check(
        "version", "warn", f"the platform is {version}, this program {__version__}: install the same"
    )


def _ready(platform: client.Client) -> Check:
    ready = cli_status.readiness(platform)
    failed = [name for name, outcome in ready["checks"].items() if outcome != "ok"]
    if failed:
        return Check("ready", "fail", f"{', '.join(failed)} failed: look at the platform's log")
    if ready["status"] != "ready":
        return Check("ready", "warn", "it is stopping: wait, then start it again")
    return Check("ready", "ok", "storage, keys and migrations are fine")


def _clock(health: client.ApiResponse) -> Check:
    told = health.headers.get("date")
    if not told:
        return Check("clock", "warn", "the platform told no time: compare the clocks yourself")
    skew = abs((datetime.now(UTC) - parsedate_to_datetime(told)).total_seconds())
    sentence = f"the clocks of here and there differ by {skew:.0f} s"
    if skew <= SKEW_WARN_SECONDS:
        return Check("clock", "ok", "the same here and there")
    result = "fail" if skew > SKEW_FAIL_SECONDS else "warn"
    return Check("clock", result, f"{sentence}: set them by NTP, or tokens and deadlines go wrong")


def _token(session: ApiSession) -> Check:
    who = session.client.get("/auth/session").object()
    return Check("token", "ok", f"{who['principal']}, from {session.target.token_from}")


def _loops(platform: client.Client) -> Check:
    loops = cli_status.loops(platform)
    if loops is None:
        return Check("loops", "ok", "only the administrator may look at them")
    stuck = cli_status.unwell(loops)
    if stuck:
        return Check("loops", "fail", f"{', '.join(stuck)} stand still: look at the platform's log")
    return Check("loops", "ok", f"all {len(loops)} do their work")


def _agents(session: ApiSession) -> Check:
    rows = session.client.every_row("/workspaces")
    troubled = [f"{row['name']} is {row['status']}" for row in rows if row["status"] in TROUBLED]
    if not rows:
        first = session.hint("workspace create NAME")
        return Check("agents", "ok", f"no workspaces yet; `{first}` makes the first")
    if not troubled:
        return Check("agents", "ok", f"{output.counted(len(rows), 'workspace')}, none in trouble")
    listed = ", ".join(troubled[:5]) + (", …" if len(troubled) > 5 else "")
    return Check("agents", "warn", f"{listed}: look at the log of the agent, or start it again")


def _of_folder(target: Target) -> Iterator[Check]:
    folder = target.data_dir
    if not folder.is_dir():
        remedy = f"`{target.start()}` makes it, or name another --data-dir"
        yield Check("data", "warn", f"{folder} does not exist: {remedy}")
        return
    yield _writable(folder)
    yield from _modes(folder)
    yield _disk(folder)


def _writable(folder: Path) -> Check:
    if os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return Check("data", "ok", f"{folder} can be written")
    return Check("data", "fail", f"{folder} cannot be written: run as its owner, or `chown` it")


def _modes(folder: Path) -> Iterator[Check]:
    opened = [path for path in (folder, *(folder / name for name in SECRET_FILES)) if _others_may_read(path)]
    if not opened:
        yield Check("modes", "ok", "only the owner can read the data")
    for path in opened:
        yield Check("modes", "fail", f"others can read {path}: `chmod go= {path}`")


def _others_may_read(path: Path) -> bool:
    try:
        return bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))
    except OSError:
        return False


def _disk(folder: Path) -> Check:
    free = shutil.disk_usage(folder).free
    text = f"{free / 1024**3:.1f} GiB free"
    if free >= DISK_WARN_BYTES:
        return Check("disk", "ok", text)
    return Check("disk", "fail" if free < DISK_FAIL_BYTES else "warn", f"{text}: make room beside {folder}")
