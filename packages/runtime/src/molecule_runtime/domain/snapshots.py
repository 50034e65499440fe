"""The snapshot of an agent: the state that survives a restart, its digest, its size and its checks."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

SCHEMA_VERSION = 2
MAX_TRANSCRIPT_LINES = 200
MAX_BYTES = 5 * 1024 * 1024
MAX_DEPTH = 64

_KEPT = ("session_id", "transcript_lines")


class SnapshotRejected(ValueError):
    """The snapshot is not restored; the text says why."""


def compact(value: Any) -> bytes:
    """The compact JSON of a value, its names sorted: what a digest is made of, and what a file holds."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def digest(snapshot: Mapping[str, Any]) -> str:
    """The SHA-256 of the snapshot without its member `digest`, in hex."""
    return hashlib.sha256(
        compact({name: held for name, held in snapshot.items() if name != "digest"})
    ).hexdigest()


def plain(value: Any, depth: int = 0) -> Any:
    """A copy that JSON can say: names and unknown objects become strings, bytes and what is too deep null."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth == MAX_DEPTH or isinstance(value, bytes | bytearray | memoryview):
        return None
    if isinstance(value, Mapping):
        members = cast("Mapping[Any, Any]", value)
        return {str(name): plain(held, depth + 1) for name, held in members.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item, depth + 1) for item in cast("Sequence[Any]", value)]
    return str(value)


def sealed(snapshot: Mapping[str, Any], max_bytes: int = MAX_BYTES) -> tuple[bytes, list[str]]:
    """The file of a snapshot with its digest, and what had to be left out for its size.

    The oldest transcript lines go first, then the largest sessions, then the largest members of the
    adapter's state. Raises `ValueError` if the rest is still too large.
    """
    shrunk = {name: held for name, held in snapshot.items() if name != "digest"}
    dropped = list[str]()
    # The digest and its name are added below.
    excess = len(compact(shrunk)) + 100 - max_bytes
    if excess > 0:
        excess = _drop_lines(shrunk, excess, dropped)
        for section in ("sessions", "adapter"):
            excess = _drop_members(shrunk, section, excess, dropped)
    if excess > 0:
        raise ValueError(f"the snapshot is {excess} bytes too large without its transcript")
    return compact(shrunk | {"digest": digest(shrunk)}), dropped


def _drop_lines(snapshot: dict[str, Any], excess: int, dropped: list[str]) -> int:
    """Leave out the oldest lines, here and in the adapter's section; what is still too much."""
    for holder in (snapshot, snapshot.get("adapter")):
        if not isinstance(holder, dict):
            continue
        section = cast("dict[str, Any]", holder)
        lines: Any = section.get("transcript_lines")
        if not isinstance(lines, list):
            continue
        count = 0
        for line in cast("list[Any]", lines):
            if excess <= 0:
                break
            excess -= len(compact(line)) + 1
            count += 1
        if count:
            section["transcript_lines"] = lines[count:]
            dropped.append(f"{count} transcript lines")
    return excess


def _drop_members(snapshot: dict[str, Any], name: str, excess: int, dropped: list[str]) -> int:
    section: Any = snapshot.get(name)
    if not isinstance(section, dict):
        return excess
    members = cast("dict[str, Any]", section)
    sizes = {member: len(compact({member: held})) for member, held in members.items() if member not in _KEPT}
    for member in sorted(sizes, key=sizes.__getitem__, reverse=True):
        if excess <= 0:
            break
        del members[member]
        excess -= sizes[member] - 1
        dropped.append(f"{name}.{member}")
    return excess


def check(snapshot: Any, workspace_id: str = "", runtime: str = "") -> dict[str, Any]:
    """The snapshot, if this workspace may restore it; raises `SnapshotRejected`.

    A file of version 1 has no `schema_version` and no digest. An id that is not known is not compared.
    """
    if not isinstance(snapshot, dict):
        raise SnapshotRejected("it is no JSON object")
    members = cast("dict[str, Any]", snapshot)
    version = members.get("schema_version", 1)
    if type(version) is not int or version < 1:
        raise SnapshotRejected("its schema_version is no number")
    if version > SCHEMA_VERSION:
        raise SnapshotRejected(f"its schema {version} is newer than {SCHEMA_VERSION}")
    if (version > 1 or "digest" in members) and members.get("digest") != digest(members):
        raise SnapshotRejected("its digest does not match")
    for name, expected in (("workspace_id", workspace_id), ("runtime", runtime)):
        if expected and members.get(name) and members[name] != expected:
            raise SnapshotRejected(f"it belongs to another {name.partition('_')[0]}")
    return members


def flattened(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """What `restore_state` receives: the adapter's section with `session_id`, `sessions` and its origin.

    Version 1 may have the adapter's members beside the others.
    """
    section: Any = snapshot.get("adapter")
    view: dict[str, Any] = dict(cast("dict[str, Any]", section)) if isinstance(section, dict) else {}
    for name in _KEPT:
        if not view.get(name) and snapshot.get(name):
            view[name] = snapshot[name]
    view["sessions"] = snapshot.get("sessions") or {}
    view["workspace_id"] = snapshot.get("workspace_id")
    view["timestamp"] = snapshot.get("timestamp")
    return view
