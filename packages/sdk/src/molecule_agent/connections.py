"""Connections: what `molecule workspace create` gives to the author of an agent."""

import json
import logging
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias, cast

from molecule_agent import errors
from molecule_wire import JSON
from molecule_wire.calls import values

Source: TypeAlias = str | Path | Mapping[str, object]

VARIABLE = "MOLECULE_CONNECTION"

log = logging.getLogger(__name__)


class Connection(NamedTuple):
    """Where a workspace is, and the token that opens it."""

    workspace_id: str
    platform_url: str
    auth_token: str
    name: str
    org_id: str


def read(source: Source | None) -> Connection:
    """Read a file, JSON text or a mapping; without one, what the environment names.

    Raises ConfigurationError when it cannot be read or lacks something.
    """
    value = source if source is not None else os.environ.get(VARIABLE, "")
    if not value:
        raise errors.ConfigurationError(
            f"there is no connection: name the file that `molecule workspace create NAME --json` wrote,"
            f" or set {VARIABLE}"
        )
    found = value if isinstance(value, Mapping) else _decoded(value)
    inner = found.get("connection", found)
    members = cast("dict[str, JSON]", inner) if isinstance(inner, Mapping) else {}
    missing = [name for name in ("workspace_id", "platform_url") if not values.text_of(members.get(name))]
    if missing:
        raise errors.ConfigurationError(f"the connection {_named(value)} lacks {' and '.join(missing)}")
    return Connection(*(values.text_of(members.get(name)) for name in Connection._fields))


def _decoded(source: str | Path) -> Mapping[str, object]:
    text = source if isinstance(source, str) and source.lstrip().startswith("{") else _text_of(Path(source))
    try:
        found: object = json.loads(text)
    except ValueError as problem:
        raise errors.ConfigurationError(f"the connection {_named(source)} is no JSON: {problem}") from problem
    if not isinstance(found, dict):
        raise errors.ConfigurationError(f"the connection {_named(source)} is no JSON object")
    return cast("dict[str, object]", found)


def _text_of(path: Path) -> str:
    path = path.expanduser()
    try:
        text, mode = path.read_text(encoding="utf-8"), path.stat().st_mode
    except (OSError, UnicodeDecodeError) as problem:
        raise errors.ConfigurationError(f"the connection {path} cannot be read: {problem}") from problem
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        log.warning("%s holds a token and is open to other users; it should have mode 0600", path)
    return text


def _named(value: object) -> str:
    """The name of a file; never the text of a connection, which holds a token."""
    is_file = isinstance(value, Path) or (isinstance(value, str) and not value.lstrip().startswith("{"))
    return str(value) if is_file else "given"
