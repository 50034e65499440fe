"""The list of what must no longer be installed: keys, digests and versions of plugins."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from molecule_plugin.errors import PluginIntegrityError, PluginRevokedError
from molecule_plugin.safe_paths import write_atomically
from molecule_plugin.trust import Policy
from molecule_wire import JSON, JSONObject, jsontext

FRESH_SECONDS = 24 * 3600
LIST_BYTES = 16 * 1024 * 1024


class RevokedKey(NamedTuple):
    """A key whose signatures count no more."""

    key_id: str
    reason: str
    revoked_at: str


class RevokedDigest(NamedTuple):
    """A content that must not be installed, whatever its name."""

    content_sha256: str
    reason: str


class RevokedPlugin(NamedTuple):
    """Versions of a plugin that must not be installed; `*` means all of them."""

    name: str
    versions: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Revocations:
    """One state of the list. Its version only grows."""

    version: int = 0
    updated_at: str = ""
    keys: tuple[RevokedKey, ...] = ()
    digests: tuple[RevokedDigest, ...] = ()
    plugins: tuple[RevokedPlugin, ...] = ()

    def find(self, name: str, version: str, content_sha256: str, key_ids: Iterable[str] = ()) -> str | None:
        """Why a plugin is revoked: the reason given with what revoked it; `None` when it is not."""
        signers = set(key_ids)
        for key in self.keys:
            if key.key_id in signers:
                return key.reason or f"its key {key.key_id} was revoked"
        for digest in self.digests:
            if digest.content_sha256 == content_sha256:
                return digest.reason or "its content was revoked"
        for plugin in self.plugins:
            if plugin.name == name and not {"*", version}.isdisjoint(plugin.versions):
                return plugin.reason or f"version {version} was revoked"
        return None

    def check(self, name: str, version: str, content_sha256: str, key_ids: Iterable[str] = ()) -> None:
        """`PluginRevokedError` when the plugin, its content or one of its signers is on the list."""
        reason = self.find(name, version, content_sha256, key_ids)
        if reason is not None:
            raise PluginRevokedError(f"plugin {name} {version} is revoked: {reason}", reason)

    def to_json(self) -> JSONObject:
        """The list as it travels."""
        return {
            "version": self.version,
            "updated_at": self.updated_at,
            "keys": [dict(key._asdict()) for key in self.keys],
            "digests": [dict(digest._asdict()) for digest in self.digests],
            "plugins": [
                {"name": plugin.name, "versions": list(plugin.versions), "reason": plugin.reason}
                for plugin in self.plugins
            ],
        }


class CachedRevocations(NamedTuple):
    """A list that was fetched at some time, in seconds since 1970."""

    revocations: Revocations
    fetched_at: float


def parse_revocations(value: JSON) -> Revocations:
    """Read a list; `PluginIntegrityError` when it is none, so that no revocation is overlooked."""
    shape = _member_object(value, "the revocation list")
    version = shape.get("version")
    if isinstance(version, bool) or not isinstance(version, int) or version < 0:
        raise PluginIntegrityError("the revocation list has no version")
    return Revocations(
        version,
        _text(shape, "updated_at"),
        tuple(
            RevokedKey(_needed(key, "key_id"), _text(key, "reason"), _text(key, "revoked_at"))
            for key in _rows(shape, "keys")
        ),
        tuple(
            RevokedDigest(_needed(row, "content_sha256").lower(), _text(row, "reason"))
            for row in _rows(shape, "digests")
        ),
        tuple(
            RevokedPlugin(_needed(row, "name"), _versions(row), _text(row, "reason"))
            for row in _rows(shape, "plugins")
        ),
    )


def choose(
    cached: CachedRevocations | None, fetched: Revocations | None, now: float, policy: Policy
) -> tuple[Revocations, tuple[str, ...]]:
    """The list to go by, and warnings: the fetched one, else the cached one for 24 hours.

    `PluginIntegrityError` when the fetched list is older than the cached one, and, under `require`, when
    there is no list that is fresh enough.
    """
    if fetched is not None:
        if cached is not None and fetched.version < cached.revocations.version:
            raise PluginIntegrityError(
                f"the revocation list went back from version {cached.revocations.version} to"
                f" {fetched.version}: ask the platform's operator; nothing is installed meanwhile"
            )
        return fetched, ()
    if cached is not None and 0 <= now - cached.fetched_at <= FRESH_SECONDS:
        return cached.revocations, ()
    problem = "the revocation list could not be fetched and no copy of the last 24 hours is here"
    if policy == "require":
        raise PluginIntegrityError(f"{problem}; try again when the platform can be reached")
    return (Revocations() if cached is None else cached.revocations), (problem,)


def read_cache(path: Path) -> CachedRevocations | None:
    """The copy on disk, or `None` when there is none that can be read."""
    try:
        with Path(path).open("rb") as file:
            shape = jsontext.decode(file.read(LIST_BYTES))
        fetched_at = shape.get("fetched_at") if isinstance(shape, dict) else None
        if (
            not isinstance(shape, dict)
            or isinstance(fetched_at, bool)
            or not isinstance(fetched_at, int | float)
        ):
            return None
        return CachedRevocations(parse_revocations(shape.get("revocations")), float(fetched_at))
    except (OSError, jsontext.NotJSON, PluginIntegrityError):
        return None


def write_cache(path: Path, cached: CachedRevocations) -> None:
    """Keep a copy on disk."""
    shape = {"fetched_at": cached.fetched_at, "revocations": cached.revocations.to_json()}
    write_atomically(Path(path), json.dumps(shape).encode(), 0o600)


def _rows(shape: JSONObject, member: str) -> list[JSONObject]:
    rows = shape.get(member, [])
    if not isinstance(rows, list):
        raise PluginIntegrityError(f"{member} of the revocation list is not a list")
    return [_member_object(row, f"an item of {member} of the revocation list") for row in rows]


def _member_object(value: JSON, what: str) -> JSONObject:
    if not isinstance(value, dict):
        raise PluginIntegrityError(f"{what} is not an object")
    return value


def _text(shape: JSONObject, member: str) -> str:
    value = shape.get(member, "")
    if not isinstance(value, str):
        raise PluginIntegrityError(f"{member} of the revocation list is not a text")
    return value


def _needed(shape: JSONObject, member: str) -> str:
    value = _text(shape, member)
    if not value:
        raise PluginIntegrityError(f"an item of the revocation list has no {member}")
    return value


def _versions(row: JSONObject) -> tuple[str, ...]:
    versions = row.get("versions")
    texts = tuple(item for item in versions if isinstance(item, str)) if isinstance(versions, list) else ()
    if not isinstance(versions, list) or len(texts) != len(versions) or not texts:
        raise PluginIntegrityError(
            "versions of the revocation list is not a list of texts: write ['*'] for all"
        )
    return texts
