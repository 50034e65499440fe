"""Agent engines with an environment of their own: which there are, and where an installed one is found.

`molecule runtime install` puts an engine there, and the adapter of a workspace starts it. They do not import
each other, so what they share is here: the table with the version that this release is made for, and the
file `engine.json` that names version and executable.

    <engines directory>/<engine>/engine.json
    <engines directory>/<engine>/<version>-<8 hex digits>/     the environment that engine.json points to
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import cast

DIRECTORY_VARIABLE = "MOLECULE_ENGINES_DIR"
DEFAULT_DIRECTORY = "~/.molecule/engines"
FILE_NAME = "engine.json"


@dataclass(frozen=True)
class Engine:
    """One engine: the Python distribution that it is, pinned to the version that its adapter is made for.

    `executable` is the name of its program, which says its version when called with `version_arguments`.
    `python` is the oldest Python that it runs on and the first one that it does not.
    """

    name: str
    distribution: str
    extras: tuple[str, ...]
    version: str
    executable: str
    python: tuple[tuple[int, int], tuple[int, int]]
    version_arguments: tuple[str, ...] = ("--version",)

    @property
    def requirement(self) -> str:
        """The pinned distribution with its extras, as package installers read it."""
        extras = f"[{','.join(self.extras)}]" if self.extras else ""
        return f"{self.distribution}{extras}=={self.version}"


@dataclass(frozen=True)
class InstalledEngine:
    """What `engine.json` says: which version is installed, when, and the absolute path of its executable."""

    engine: str
    version: str
    executable: Path
    installed_at: str

    def as_json(self) -> dict[str, str]:
        """The content of the file."""
        return {
            "engine": self.engine,
            "version": self.version,
            "executable": str(self.executable),
            "installed_at": self.installed_at,
        }


ENGINES: Mapping[str, Engine] = MappingProxyType(
    {
        # `messaging` brings the HTTP server of its gateway, `mcp` its client for MCP servers.
        "hermes": Engine(
            "hermes", "hermes-agent", ("mcp", "messaging"), "0.19.0", "hermes", ((3, 11), (3, 14))
        ),
    }
)


def engines_dir(env: Mapping[str, str]) -> Path:
    """The absolute folder of all engines: `MOLECULE_ENGINES_DIR`, else `~/.molecule/engines`."""
    given = env.get(DIRECTORY_VARIABLE, "").strip() or DEFAULT_DIRECTORY
    if given == "~" or given.startswith("~/"):
        # The environment that was given decides, not the one of this process.
        given = (env.get("HOME") or os.path.expanduser("~")) + given[1:]
    return Path(os.path.abspath(given))


def engine_dir(name: str, env: Mapping[str, str]) -> Path:
    """The folder of one engine."""
    return engines_dir(env) / name


def installed(name: str, env: Mapping[str, str]) -> InstalledEngine | None:
    """The engine that is installed under this name, or None.

    A file that cannot be read, or is not what `molecule runtime install` writes, counts as not installed:
    installing again mends it. Whether the executable is still there is left to whoever starts it.
    """
    try:
        read: object = json.loads((engine_dir(name, env) / FILE_NAME).read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(read, dict):
        return None
    said = cast(dict[str, object], read)
    values = [said.get(key) for key in ("engine", "version", "executable", "installed_at")]
    texts = [value for value in values if isinstance(value, str)]
    if len(texts) < len(values) or texts[0] != name or not os.path.isabs(texts[2]):
        return None
    return InstalledEngine(texts[0], texts[1], Path(texts[2]), texts[3])
