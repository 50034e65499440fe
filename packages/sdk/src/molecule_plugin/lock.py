"""`plugins.lock`: which plugins were installed, exactly, so that the next install gets the same ones."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from molecule_plugin.digest import compute_plugin_sha256, manifest_sha256
from molecule_plugin.errors import LockMismatchError
from molecule_plugin.names import is_name
from molecule_plugin.safe_paths import write_atomically
from molecule_wire import JSON, JSONObject, jsontext

LOCK_FILE = "plugins.lock"
LOCK_VERSION = 1
LOCK_BYTES = 16 * 1024 * 1024
# The archive's digest is only a record: the same files packed at another time, in another order or with
# another compression are the same plugin.
_COMPARED = ("version", "resolved", "content_sha256", "manifest_sha256")


@dataclass(frozen=True)
class LockEntry:
    """What is pinned of one plugin; `signed_by` are the trusted keys that signed it."""

    version: str
    source: str
    resolved: str
    content_sha256: str
    manifest_sha256: str
    archive_sha256: str = ""
    signed_by: tuple[str, ...] = ()
    installed_at: str = ""

    def to_json(self) -> JSONObject:
        """The entry as it stands in the file."""
        return {**vars(self), "signed_by": list(self.signed_by)}


_TEXTS = tuple(member for member in LockEntry.__dataclass_fields__ if member != "signed_by")


def describe(
    plugin_dir: Path | str,
    *,
    version: str,
    source: str,
    resolved: str,
    archive_sha256: str = "",
    signed_by: tuple[str, ...] = (),
    installed_at: str = "",
) -> LockEntry:
    """The entry of a plugin as it is on disk."""
    return LockEntry(
        version,
        source,
        resolved,
        compute_plugin_sha256(plugin_dir),
        manifest_sha256(plugin_dir),
        archive_sha256,
        signed_by,
        installed_at,
    )


def check(
    name: str, entry: LockEntry | None, found: LockEntry, *, upgrade: bool = False, frozen: bool = False
) -> bool:
    """Whether the lock must be written for what was found; `LockMismatchError` when it pins something else.

    An entry of another source does not bind, unless `frozen`: then only what is locked may be installed, and
    nothing is written, not even for an upgrade. Signers, times and the bytes of the archive are not compared:
    who may sign an update is decided by `molecule_plugin.trust`.
    """
    if frozen:
        _hold_frozen(name, entry, found)
        return False
    if entry is not None and entry.source == found.source and not upgrade:
        _hold(name, entry, found)
    return True


def read_lock(path: Path | str) -> dict[str, LockEntry]:
    """The entries by plugin name, none without a file; `LockMismatchError` when it is damaged."""
    try:
        with Path(path).open("rb") as file:
            return parse_lock(file.read(LOCK_BYTES), str(path))
    except FileNotFoundError:
        return {}


def parse_lock(content: bytes, where: str = LOCK_FILE) -> dict[str, LockEntry]:
    """The entries in the bytes of a lock; `where` names it in the error."""
    try:
        shape = jsontext.decode(content)
    except jsontext.NotJSON as problem:
        raise LockMismatchError(f"{where} is not JSON ({problem}); restore it, or lock anew") from None
    plugins = shape.get("plugins") if isinstance(shape, dict) else None
    if (
        not isinstance(shape, dict)
        or shape.get("lock_version") != LOCK_VERSION
        or not isinstance(plugins, dict)
    ):
        raise LockMismatchError(f"{where} is not a lock of version {LOCK_VERSION}; restore it, or lock anew")
    return {name: _entry(where, name, value) for name, value in plugins.items()}


def write_lock(path: Path | str, entries: Mapping[str, LockEntry]) -> None:
    """Replace the lock in one step. A file that is there keeps its mode; a new one gets 0600."""
    place = Path(path)
    write_atomically(place, lock_content(entries), place.stat().st_mode & 0o777 if place.exists() else 0o600)


def lock_content(entries: Mapping[str, LockEntry]) -> bytes:
    """The bytes of a lock."""
    shape: JSONObject = {
        "lock_version": LOCK_VERSION,
        "plugins": {name: entry.to_json() for name, entry in entries.items()},
    }
    return json.dumps(shape, indent=2, sort_keys=True).encode() + b"\n"


def _hold_frozen(name: str, entry: LockEntry | None, found: LockEntry) -> None:
    if entry is None:
        raise LockMismatchError(
            f"plugin {name} is not in {LOCK_FILE}, and frozen installs only what is locked"
        )
    if entry.source != found.source:
        raise _mismatch(name, "source", entry.source, found.source)
    _hold(name, entry, found)


def _hold(name: str, entry: LockEntry, found: LockEntry) -> None:
    for member in _COMPARED:
        pinned, seen = str(getattr(entry, member)), str(getattr(found, member))
        if pinned != seen:
            raise _mismatch(name, member, pinned, seen)


def _mismatch(name: str, member: str, pinned: str, seen: str) -> LockMismatchError:
    return LockMismatchError(
        f"plugin {name}: {LOCK_FILE} pins {member} {pinned!r}, found {seen!r}; upgrade to take the new one",
        pinned,
        seen,
    )


def _entry(where: str, name: str, value: JSON) -> LockEntry:
    if isinstance(value, dict) and is_name(name):
        signers = value.get("signed_by", [])
        texts = {member: text for member in _TEXTS if isinstance(text := value.get(member, ""), str)}
        if len(texts) == len(_TEXTS) and isinstance(signers, list):
            signed_by = tuple(key for key in signers if isinstance(key, str))
            if len(signed_by) == len(signers):
                return LockEntry(**texts, signed_by=signed_by)
    raise LockMismatchError(f"{where} has a damaged entry {name[:128]!r}; restore it, or lock anew")
