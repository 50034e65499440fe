"""What a Python environment has of hermes, as JSON on stdout.

The interpreter that runs hermes runs this file: it has nothing of ours, so only the standard library is used.
"""

import hashlib
import importlib.metadata
import importlib.util
import json
import sys
from typing import Any

ENTRY_POINT_GROUP = "hermes_agent.plugins"
ENTRY_POINT_NAMES = ("molecule-a2a", "molecule_a2a")


def report() -> dict[str, Any]:
    """The prefix of the environment, the version of hermes, and what its gateway and our plugin need."""
    try:
        version = importlib.metadata.version("hermes-agent")
    except importlib.metadata.PackageNotFoundError:
        version = ""
    return {
        "prefix": sys.prefix,
        "version": version,
        "has_aiohttp": importlib.util.find_spec("aiohttp") is not None,
        "distribution": _plugin_distribution(),
    }


def _plugin_distribution() -> dict[str, str] | None:
    """The distribution that offers hermes a plugin of our name; None when there is none."""
    for entry in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP):
        if entry.name in ENTRY_POINT_NAMES and entry.dist is not None:
            return {
                "name": entry.dist.name,
                "version": entry.dist.version,
                "entry_point": entry.name,
                "digest": _digest(entry.dist),
            }
    return None


def _digest(distribution: importlib.metadata.Distribution) -> str:
    """The SHA-256 of the distribution's files; compiled ones differ from run to run."""
    digest = hashlib.sha256()
    for path in sorted(distribution.files or []):
        if path.suffix != ".pyc" and (place := path.locate()).is_file():  # type: ignore[attr-defined]
            digest.update(f"{path}\0".encode() + place.read_bytes() + b"\0")  # type: ignore[attr-defined]
    return digest.hexdigest()


if __name__ == "__main__":
    sys.stdout.write(json.dumps(report()))
