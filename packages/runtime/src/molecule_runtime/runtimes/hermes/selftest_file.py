"""The install proof as a file: which plugin was proven, on which hermes, in which environment.

It lies in the environment that runs hermes, `<prefix>/share/molecule/hermes-proof.json`: an engine that is
installed anew, with whatever other packages, has a new environment and so no proof. A Molecule with another
plugin finds that version and digest do not match.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from molecule_runtime.kit.files.atomic_files import read_limited, write_private
from molecule_runtime.runtimes.hermes.errors import HermesError
from molecule_runtime.runtimes.hermes.home_directory import PLUGIN_SOURCE, plugin_files
from molecule_runtime.runtimes.hermes.installation import HermesEnvironment, describe, find_hermes
from molecule_runtime.runtimes.hermes.yaml_config import read_config

RECORD_PATH = Path("share/molecule/hermes-proof.json")
MAX_BYTES = 64 * 1024
COMMAND = "molecule-runtime hermes-proof"


@dataclass(frozen=True)
class SelftestRecord:
    """What the file says. `digest` is the SHA-256 of the plugin's files."""

    plugin_version: str
    hermes_version: str
    at: str
    digest: str


def plugin_version(folder: Path = PLUGIN_SOURCE) -> str:
    """The version of a plugin folder; empty when it says none. Raises `HermesError` for a broken manifest."""
    version = read_config(folder / "plugin.yaml").get("version")
    return str(version) if version else ""


def plugin_digest(folder: Path = PLUGIN_SOURCE) -> str:
    """The SHA-256 of a plugin folder's files."""
    digest = hashlib.sha256()
    for name, data in sorted(plugin_files(folder).items()):
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()


def read_proof(prefix: Path) -> SelftestRecord | None:
    """The proof of an environment; None when there is none that can be read."""
    try:
        content: Any = json.loads(read_limited(prefix / RECORD_PATH, MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    members = cast("dict[str, Any]", content) if isinstance(content, dict) else {}
    values = [members.get(name) for name in SelftestRecord.__dataclass_fields__]
    texts = [value for value in values if isinstance(value, str)]
    return SelftestRecord(*texts) if len(texts) == len(values) else None


def write_proof(prefix: Path, proof: SelftestRecord) -> Path:
    """Write the file, readable for all; its place. Raises `HermesError` when it cannot be written."""
    path = prefix / RECORD_PATH
    try:
        # Other users run workspaces with this engine, too.
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        write_private(path, json.dumps(asdict(proof), indent=2).encode() + b"\n", mode=0o644)
    except OSError as problem:
        raise HermesError(
            f"{path} cannot be written ({problem.strerror}): run `{COMMAND}` as the user who installed it."
        ) from None
    return path


def mismatch(environment: HermesEnvironment) -> str:
    """Why the plugin of this release is not proven in an environment; empty when it is."""
    proof = read_proof(environment.prefix)
    if proof is None:
        return f"there is no {environment.prefix / RECORD_PATH}"
    installed, proven = environment.version, proof.hermes_version
    if proven != installed:
        return f"it was proven on hermes {proven}, and {installed} is installed"
    if (proof.plugin_version, proof.digest) != (plugin_version(), plugin_digest()):
        return f"plugin {proof.plugin_version} was proven, and not the one of this release"
    return ""


async def unproven_reason(env: Mapping[str, str]) -> str:
    """Why the plugin path is not proven for the hermes that this environment names; empty when it is."""
    try:
        environment = await describe(find_hermes(env))
    except HermesError:
        return "hermes is not installed on this machine"
    return "the Python that runs hermes is not known" if environment is None else mismatch(environment)


async def with_proven_default(env: Mapping[str, str]) -> dict[str, str]:
    """The variables, with the plugin path switched on where they do not decide it and it is proven."""
    variables = dict(env)
    if not variables.get("MOLECULE_A2A_PLATFORM_ENABLED", "").strip() and not await unproven_reason(env):
        variables["MOLECULE_A2A_PLATFORM_ENABLED"] = "true"
    return variables
