"""Plugins: what may be installed where. The formats themselves are those of the plugin SDK."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.workspaces import check_text, invalid
from molecule_plugin import errors
from molecule_plugin.names import check_name
from molecule_wire import JSON

STATES = ("recorded", "installed", "failed", "quarantined", "blocked")
PIN_POLICIES = ("lock", "deny", "float")
# Somebody else's machine: what runs there is not ours to know, so any plugin may suit it.
ANY_RUNTIME = "external"

MAX_ENTRIES = 1000
MAX_ENTRY_LENGTH = 512
MAX_KEYS = 200
MAX_GLOBS = 100
MAX_REVOKED = 10_000
MAX_SOURCE_LENGTH = 512


def named(name: str) -> str:
    """A plugin's name, or the refusal of what cannot be one."""
    try:
        return check_name(name)
    except errors.PluginNameError as problem:
        raise refusal_of(problem) from problem


# What the plugin SDK raises, and the code of it; a class comes after those below it.
_CODES: tuple[tuple[type[errors.PluginError], str], ...] = (
    (errors.PluginTooLargeError, "payload-too-large"),
    (errors.UnsafeArchiveError, "unsafe-archive"),
    (errors.PluginManifestError, "plugin-manifest-invalid"),
    (errors.PluginSignatureRequiredError, "plugin-signature-required"),
    (errors.PluginSignatureError, "plugin-signature-invalid"),
    (errors.PluginRevokedError, "plugin-revoked"),
    (errors.LockMismatchError, "plugin-lock-mismatch"),
    (errors.PluginIntegrityError, "plugin-integrity"),
    (errors.PluginError, "conflict"),
)


def refusal_of(problem: errors.PluginError) -> ApiError:
    """The refusal that says what the plugin SDK found wrong."""
    if isinstance(problem, errors.PluginNameError):
        return invalid("name", str(problem))
    code = next(code for kind, code in _CODES if isinstance(problem, kind))
    return ApiError(code, str(problem), **_extras(problem))


def _extras(problem: errors.PluginError) -> dict[str, JSON]:
    if isinstance(problem, errors.PluginTooLargeError):
        return {"limit_bytes": problem.limit_bytes}
    if isinstance(problem, errors.PluginRevokedError):
        return {"reason": problem.reason}
    if isinstance(problem, errors.PluginIntegrityError) and problem.actual:
        return {"expected": problem.expected, "actual": problem.actual}
    return {}


def supports(runtimes: Sequence[str] | None, runtime: str) -> bool:
    """Whether a plugin that names these runtimes suits one; hyphens and underscores are the same."""
    if runtimes is None or runtime == ANY_RUNTIME:
        return True
    return _plain(runtime) in {_plain(one) for one in runtimes}


def _plain(runtime: str) -> str:
    return runtime.strip().lower().replace("-", "_")


# The allowlist


def is_allowed(entries: Sequence[str], name: str, source: str) -> bool:
    """Whether an organisation lets a plugin in, by its name or by its source; an empty list lets all in."""
    if not entries:
        return True
    return any(_covers(entry, name, source) for entry in entries)


def may_be_allowed(entries: Sequence[str], source: str) -> bool:
    """Whether a source could be let in, before it is known what plugin it holds."""
    by_name = any("://" not in entry for entry in entries)
    return by_name or is_allowed(entries, "", source)


def _covers(entry: str, name: str, source: str) -> bool:
    if "://" not in entry:
        return fnmatchcase(name, entry)
    return fnmatchcase(source, entry) or source.startswith((f"{entry}/", f"{entry}#"))


def check_entries(entries: Sequence[str]) -> list[str]:
    """The entries of an allowlist, each once and in their order."""
    found = list(dict.fromkeys(entry.strip() for entry in entries))
    if len(found) > MAX_ENTRIES:
        raise invalid("plugins", f"an allowlist has at most {MAX_ENTRIES} entries")
    for entry in found:
        if not entry:
            raise invalid("plugins", "an entry is a name, a glob or a source, and none of them is empty")
        check_text("plugins", entry, MAX_ENTRY_LENGTH)
    return found


class NotAllowed(ApiError):
    """The organisation's allowlist does not cover a plugin, which is called `name` as far as is known."""

    def __init__(self, name: str, source: str) -> None:
        super().__init__(
            "plugin-not-allowed",
            f"the organisation's allowlist covers neither the plugin {name} nor the source {source}: "
            "ask an administrator to add one of them",
        )
        self.name = name


# Pins


def check_pin(policy: str, source: str, kind: str | None) -> None:
    """Refuse a source that follows a branch where the operator wants none; a tag may be resolved.

    `kind` is what the source was resolved to, None while it names nothing at all.
    """
    if policy == "deny" and kind in (None, "branch"):
        raise ApiError(
            "plugin-source-unpinned",
            f"{source} follows a branch: name a tag or a commit of 40 hexadecimal digits after #",
        )


def pin_mismatch(source: str, problem: errors.LockMismatchError) -> ApiError:
    """The source does not hold any more what it held when the organisation first used it."""
    return ApiError(
        "plugin-lock-mismatch",
        f"{source} is not what it was when the organisation first used it: if that is right, install it "
        "with upgrade",
        expected=problem.expected,
        actual=problem.actual,
    )


# Rows


def catalogue_row(name: str, version: str, sha256: str, about: Mapping[str, Any]) -> dict[str, Any]:
    """A plugin as lists show it."""
    signed_by = list(about.get("signed_by", ()))
    return {
        "name": name,
        "version": version,
        "description": about.get("description", ""),
        "author": about.get("author", ""),
        "tags": about.get("tags", []),
        "skills": about.get("skills", []),
        "runtimes": about.get("runtimes"),
        "sha256": sha256,
        "signed": bool(signed_by),
        "signed_by": signed_by,
    }
