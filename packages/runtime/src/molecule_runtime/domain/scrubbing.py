"""Secret scrubbing of what outlives the process: snapshots, transcripts and memories.

In the place of a secret stays its kind, `[REDACTED:<LABEL>]`. Paths, ids and digests stay, since state that
is restored needs them. Scrubbing twice changes nothing.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from molecule_runtime.domain.secrets import IDENTIFIER_RULES, MARKER, SCRUB_RULES, marker, redact

MAX_DEPTH = 64
TOO_DEEP = "[nested too deeply]"

_SANDBOX = re.compile(
    r"source[\"'\\]{0,4}\s{0,4}[:=]\s{0,4}[\"'\\]{0,4}sandbox\b"
    r"|tool[\"'\\]{0,4}\s{0,4}[:=]\s{0,4}[\"'\\]{0,4}run_code\b"
    r"|\[sandbox_output\]",
    re.IGNORECASE,
)
_IDENTIFIER = re.compile(r"(?:\A|[_-])ids?\Z|Id\Z")
_SECRET_MEMBERS = (
    (re.compile(r"api[_-]?keys?\Z", re.IGNORECASE), "API_KEY"),
    (re.compile(r"token\Z", re.IGNORECASE), "TOKEN"),
    (re.compile(r"(?:secret|(?:secret|access|private)[_-]?key)\Z", re.IGNORECASE), "SECRET"),
    (re.compile(r"(?:password|passwd|passphrase)\Z", re.IGNORECASE), "PASSWORD"),
)


def scrub_content(text: str, known_values: Iterable[str] = ()) -> str:
    """The text without secrets; `known_values` are taken out literally, before anything else."""
    return redact(text, SCRUB_RULES, marker, known_values) if text else text


def is_sandbox_content(text: str) -> bool:
    """Whether the text is the output of code that ran in a sandbox, which is never kept."""
    lower = text.lower()
    return ("sandbox" in lower or "run_code" in lower) and _SANDBOX.search(text) is not None


def scrub_memory_entry(entry: Any, known_values: Iterable[str] = ()) -> Any:
    """The entry without secrets, or None if it is the output of a sandbox."""
    if _is_sandbox_item(entry):
        return None
    return scrub_value(entry, tuple(known_values))


def scrub_snapshot(snapshot: Mapping[str, Any], known_values: Iterable[str] = ()) -> dict[str, Any]:
    """A copy of the snapshot: every string scrubbed, list items that look like sandbox output dropped."""
    return cast("dict[str, Any]", scrub_value(dict(snapshot), tuple(known_values)))


def scrub_value(value: Any, known_values: tuple[str, ...] = (), depth: int = 0) -> Any:
    """A copy of a JSON value without secrets, at any depth.

    A string under the name of a secret (`api_key`, `auth_token`) is one, whatever it looks like. Names of
    members, and what stands under `…id`, are not judged by entropy: a session is restored by its id.
    """
    if isinstance(value, str):
        return scrub_content(value, known_values)
    if not isinstance(value, Mapping | list | tuple):
        return value
    if depth == MAX_DEPTH:
        return TOO_DEEP
    if isinstance(value, Mapping):
        members = cast("Mapping[Any, Any]", value)
        return {
            _scrub_identifier(name, known_values): _member(name, held, known_values, depth + 1)
            for name, held in members.items()
        }
    items = cast("list[Any]", value)
    return [scrub_value(item, known_values, depth + 1) for item in items if not _is_sandbox_item(item)]


def _member(name: Any, held: Any, known_values: tuple[str, ...], depth: int) -> Any:
    if isinstance(name, str) and isinstance(held, str):
        for pattern, label in _SECRET_MEMBERS:
            if pattern.search(name):
                scrubbed = scrub_content(held, known_values)
                return scrubbed if not held or MARKER.fullmatch(scrubbed) else marker(label)
        if _IDENTIFIER.search(name):
            return _scrub_identifier(held, known_values)
    return scrub_value(held, known_values, depth)


def _scrub_identifier(value: Any, known_values: tuple[str, ...]) -> Any:
    return redact(value, IDENTIFIER_RULES, marker, known_values) if isinstance(value, str) else value


def _is_sandbox_item(item: Any) -> bool:
    if isinstance(item, str):
        return is_sandbox_content(item)
    if not isinstance(item, Mapping):
        return False
    members = cast("Mapping[Any, Any]", item)
    if members.get("source") == "sandbox" or members.get("tool") == "run_code":
        return True
    return any(isinstance(held, str) and is_sandbox_content(held) for held in members.values())
