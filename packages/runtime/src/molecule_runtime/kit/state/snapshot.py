"""The snapshot file: written when the agent stops, restored before its executor is made, consumed once.

A file stays until the agent is ready, so a crash while it starts loses nothing; after three starts that did
not get there the file is put aside, since it may be what makes them fail.
"""

import hashlib
import json
import logging
import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias, cast

from molecule_runtime.domain import snapshots
from molecule_runtime.domain.snapshot_redaction import scrub_snapshot
from molecule_runtime.domain.snapshots import MAX_TRANSCRIPT_LINES, SnapshotRejected, flattened
from molecule_runtime.kit.files.atomic_files import FileTooLarge, read_limited, write_private
from molecule_runtime.kit.state.known_secrets import known_secret_values
from molecule_wire.times import format_time

__all__ = [
    "MAX_RESTORE_ATTEMPTS",
    "MAX_TRANSCRIPT_LINES",
    "begin_restore",
    "build_snapshot",
    "delete_snapshot",
    "flattened",
    "read_snapshot",
    "snapshot_path",
    "write_snapshot",
]

MAX_RESTORE_ATTEMPTS = 3
MAX_READ_BYTES = 2 * snapshots.MAX_BYTES
"""Files of version 1 had no limit."""

FilePath: TypeAlias = str | os.PathLike[str]

_log = logging.getLogger(__name__)


def snapshot_path(path: FilePath | None = None) -> Path:
    """Where the snapshot is: `path`, else `AGENT_SNAPSHOT_PATH`, else in the configuration folder."""
    if path is not None:
        return Path(path)
    if named := os.environ.get("AGENT_SNAPSHOT_PATH", "").strip():
        return Path(named)
    return Path(os.environ.get("WORKSPACE_CONFIG_PATH") or "/configs") / ".agent_snapshot.json"


def build_snapshot(
    heartbeat: Any,
    adapter_state: Mapping[str, Any] | None,
    *,
    workspace_id: str | None = None,
    runtime: str | None = None,
    sessions: Mapping[str, Any] | None = None,
    pending_turns: Iterable[str] = (),
    now: datetime | None = None,
) -> dict[str, Any]:
    """What is known of the agent now; `heartbeat` has `current_task`, `active_tasks`, `uptime_seconds`."""
    adapter = dict(adapter_state or {})
    lines: Any = adapter.get("transcript_lines")
    if isinstance(lines, list | tuple):
        adapter["transcript_lines"] = list(cast("list[Any]", lines)[-MAX_TRANSCRIPT_LINES:])
    snapshot: dict[str, Any] = {
        "schema_version": snapshots.SCHEMA_VERSION,
        "workspace_id": _workspace_id(workspace_id),
        "runtime": runtime or "",
        "timestamp": format_time(now or datetime.now(UTC)),
        "current_task": getattr(heartbeat, "current_task", None) or "",
        "active_tasks": getattr(heartbeat, "active_tasks", None) or 0,
        "sessions": dict(sessions or {}),
        "pending_turns": list(pending_turns),
        "adapter": adapter,
    }
    uptime = getattr(heartbeat, "uptime_seconds", None)
    if isinstance(uptime, int | float):
        snapshot["uptime_seconds"] = uptime
    if adapter.get("session_id"):
        snapshot["session_id"] = adapter["session_id"]
    return snapshot


def write_snapshot(
    snapshot: Mapping[str, Any],
    path: FilePath | None = None,
    *,
    known_values: Iterable[str] | None = None,
) -> bool:
    """Write the snapshot, scrubbed, atomically and for the owner alone; whether that was possible.

    Never raises. `known_values` are the secrets of the process; without them they are looked up.
    """
    try:
        known = known_secret_values() if known_values is None else tuple(known_values)
        content, dropped = snapshots.sealed(scrub_snapshot(snapshots.plain(snapshot), known))
        if dropped:
            _log.warning("Snapshot: left out %s to stay below 5 MiB", ", ".join(dropped))
        target = snapshot_path(path)
        write_private(target, content)
        _attempts_path(target).unlink(missing_ok=True)
    except Exception as problem:  # noqa: BLE001 - the stop goes on, whatever an adapter put into its state
        # Its text may quote the state; the class says enough.
        _log.warning("Snapshot: not written (%s)", type(problem).__name__)
        return False
    return True


def read_snapshot(
    path: FilePath | None = None, *, workspace_id: str | None = None, runtime: str | None = None
) -> dict[str, Any] | None:
    """The snapshot, if there is one that this workspace may restore; another is renamed, with a warning."""
    place = snapshot_path(path)
    content = _content(place)
    return None if content is None else _checked(place, content, workspace_id, runtime)


def begin_restore(
    path: FilePath | None = None, *, workspace_id: str | None = None, runtime: str | None = None
) -> dict[str, Any] | None:
    """The flattened view for `restore_state`; counts the attempt. Call `delete_snapshot` once ready."""
    place = snapshot_path(path)
    content = _content(place)
    snapshot = None if content is None else _checked(place, content, workspace_id, runtime)
    if content is None or snapshot is None:
        return None
    # The count belongs to these bytes: a new snapshot starts at one.
    identity = hashlib.sha256(content).hexdigest()
    attempt = _attempts(place, identity) + 1
    if attempt > MAX_RESTORE_ATTEMPTS:
        reject_snapshot(place, f"{MAX_RESTORE_ATTEMPTS} starts with it did not get ready")
        return None
    try:
        write_private(_attempts_path(place), json.dumps({"snapshot": identity, "attempts": attempt}).encode())
    except OSError as problem:
        _log.warning("Snapshot: the attempt could not be counted (%s)", problem.strerror)
    return flattened(scrub_snapshot(snapshot))


def delete_snapshot(path: FilePath | None = None) -> None:
    """Remove the snapshot and its count of attempts; nothing happens if there is none."""
    place = snapshot_path(path)
    for one in (place, _attempts_path(place)):
        try:
            one.unlink(missing_ok=True)
        except OSError as problem:
            _log.warning("Snapshot: %s could not be removed (%s)", one.name, problem.strerror)


def _content(place: Path) -> bytes | None:
    try:
        return read_limited(place, MAX_READ_BYTES)
    except FileNotFoundError:
        return None
    except FileTooLarge:
        reject_snapshot(place, f"it has more than {MAX_READ_BYTES} bytes")
    except OSError as problem:
        _log.warning("Snapshot: %s could not be read (%s)", place.name, problem.strerror)
    return None


def _checked(
    place: Path, content: bytes, workspace_id: str | None, runtime: str | None
) -> dict[str, Any] | None:
    try:
        return snapshots.check(json.loads(content), _workspace_id(workspace_id), runtime or "")
    except SnapshotRejected as problem:
        reject_snapshot(place, str(problem))
    except (ValueError, RecursionError):
        reject_snapshot(place, "it is no JSON")
    return None


def reject_snapshot(place: Path, reason: str) -> None:
    """Put a snapshot aside that is not restored."""
    aside = place.with_name(f"{place.stem}.rejected{place.suffix}")
    _log.warning("Snapshot: %s is not restored, %s; kept as %s", place.name, reason, aside.name)
    try:
        os.replace(place, aside)
        _attempts_path(place).unlink(missing_ok=True)
    except OSError as problem:
        _log.warning("Snapshot: %s could not be renamed (%s)", place.name, problem.strerror)


def _attempts_path(place: Path) -> Path:
    return place.with_name(f"{place.stem}.attempts{place.suffix}")


def _attempts(place: Path, identity: str) -> int:
    try:
        counted = json.loads(read_limited(_attempts_path(place), 1024))
        return int(counted["attempts"]) if counted["snapshot"] == identity else 0
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def _workspace_id(workspace_id: str | None) -> str:
    return workspace_id or os.environ.get("WORKSPACE_ID") or os.environ.get("MOLECULE_WORKSPACE_ID") or ""
