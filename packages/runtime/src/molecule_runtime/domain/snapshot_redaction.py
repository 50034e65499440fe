"""Snapshot scrubbing under the names of the original: redaction, and no output of sandboxes."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from molecule_wire import redaction

_SANDBOX = re.compile(
    r"source[\"'\\]{0,4}\s{0,4}[:=]\s{0,4}[\"'\\]{0,4}sandbox\b"
    r"|tool[\"'\\]{0,4}\s{0,4}[:=]\s{0,4}[\"'\\]{0,4}run_code\b"
    r"|\[sandbox_output\]",
    re.IGNORECASE,
)


def scrub_content(text: str, known_values: Iterable[str] = ()) -> str:
    """Return the text without secrets."""
    return redaction.redact(text, redaction.SNAPSHOT, known_values)


def is_sandbox_content(text: str) -> bool:
    """Return True for the output of code that ran in a sandbox, which is never kept."""
    lower = text.lower()
    return ("sandbox" in lower or "run_code" in lower) and _SANDBOX.search(text) is not None


def scrub_memory_entry(entry: Any, known_values: Iterable[str] = ()) -> Any:
    """Return the entry without secrets, or None if it is the output of a sandbox."""
    return None if _is_sandbox_item(entry) else scrub_value(entry, known_values)


def scrub_snapshot(snapshot: Mapping[str, Any], known_values: Iterable[str] = ()) -> dict[str, Any]:
    """Return a copy of the snapshot: every string scrubbed, list items of sandboxes dropped."""
    return cast("dict[str, Any]", scrub_value(dict(snapshot), known_values))


def scrub_value(value: Any, known_values: Iterable[str] = ()) -> Any:
    """Return a copy of a JSON value without secrets and output of sandboxes, at any depth."""
    return redaction.redact_json(value, redaction.SNAPSHOT, known_values, _is_sandbox_item)


def _is_sandbox_item(item: Any) -> bool:
    if isinstance(item, str):
        return is_sandbox_content(item)
    if not isinstance(item, Mapping):
        return False
    members = cast("Mapping[Any, Any]", item)
    if members.get("source") == "sandbox" or members.get("tool") == "run_code":
        return True
    return any(isinstance(held, str) and is_sandbox_content(held) for held in members.values())
