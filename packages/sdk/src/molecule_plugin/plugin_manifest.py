"""`plugin.yaml` as the installers read it: strict where integrity hangs on it, lenient elsewhere."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from molecule_plugin.errors import PluginManifestError
from molecule_plugin.names import NAME_PATTERN
from molecule_plugin.values import is_number, mapping, named, text, texts
from molecule_plugin.yaml_reading import Document, read_manifest_yaml
from molecule_wire import registry

MANIFEST = "plugin.yaml"
DEFAULT_VERSION = "0.0.0"
LIST_KEYS = ("tags", "skills", "rules", "prompt_fragments", "runtimes")
_TEXT_KEYS = ("description", "author", "license", "homepage")
_SHA256 = re.compile(r"[0-9a-f]{64}")

_TEXTS: dict[str, Any] = {"type": "array", "items": {"type": "string"}}
PLUGIN_YAML_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "pattern": NAME_PATTERN},
        "version": {"type": "string", "default": DEFAULT_VERSION},
        **{key: {"type": "string", "default": ""} for key in _TEXT_KEYS},
        **{key: _TEXTS for key in (*LIST_KEYS, "hooks", "requires")},
        "adapters": {"type": "object", "additionalProperties": {"type": "string"}},
        "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
        "permissions": {
            "type": "object",
            "properties": {
                "network": {"anyOf": [{"type": "boolean"}, _TEXTS]},
                "env": _TEXTS,
                "hooks": {"type": "boolean"},
                "setup": {"type": "boolean"},
                "mcp_servers": _TEXTS,
            },
        },
    },
    "additionalProperties": True,
}
"""The manifest in the words of JSON Schema; editors can check with it while you write."""


@dataclass(frozen=True)
class Permissions:
    """What a plugin says it needs. It is shown before installing; `env` is also enforced."""

    network: bool | tuple[str, ...] = False
    env: tuple[str, ...] = ()
    hooks: bool = False
    setup: bool = False
    mcp_servers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Manifest:
    """A manifest that can be relied on. Keys it does not know are kept in `extra`."""

    name: str
    version: str = DEFAULT_VERSION
    description: str = ""
    author: str = ""
    license: str = ""
    homepage: str = ""
    tags: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    prompt_fragments: tuple[str, ...] = ()
    runtimes: tuple[str, ...] | None = None
    """The runtimes it is made for, with underscores; `None` is any."""
    adapters: Mapping[str, str] = field(default_factory=dict[str, str])
    hooks: tuple[str, ...] = ()
    sha256: str | None = None
    permissions: Permissions = Permissions()
    requires: tuple[str, ...] = ()
    extra: Mapping[str, object] = field(default_factory=dict[str, object])
    warnings: tuple[str, ...] = ()

    def supports(self, runtime: str) -> bool:
        """Whether it is made for a runtime, however that is spelled."""
        return self.runtimes is None or registry.underscored(runtime) in self.runtimes


def read_manifest(plugin_dir: Path) -> Manifest | None:
    """Read `plugin.yaml` of a directory; `None` when there is none.

    What cannot be read, has no name or a `sha256` that is no digest raises `PluginManifestError`: such a
    plugin must not be installed. Other faults are for `lint_plugin`; here they leave the default in place.
    """
    path = plugin_dir / MANIFEST
    if not os.path.lexists(path):
        return None
    document = read_manifest_yaml(path)
    if document.problem:
        raise PluginManifestError(f"plugin.yaml cannot be read: {document.problem}")
    return manifest_of(document)


def manifest_of(document: Document) -> Manifest:
    """The manifest that a document says; `PluginManifestError` when it says none."""
    if mapping(document.value) is None:
        raise PluginManifestError("plugin.yaml: manifest root must be a mapping")
    said = named(document.value)
    name, digest = said.get("name"), said.get("sha256")
    if not isinstance(name, str) or not name.strip():
        raise PluginManifestError("plugin.yaml: `name` is required and must be a non-empty string")
    if "sha256" in said and not (isinstance(digest, str) and _SHA256.fullmatch(digest)):
        raise PluginManifestError("plugin.yaml: `sha256` must be 64 lowercase hex characters, in quotes")
    version, warnings = version_of(document)
    return Manifest(
        name=name,
        version=version,
        description=text(said.get("description")),
        author=text(said.get("author")),
        license=text(said.get("license")),
        homepage=text(said.get("homepage")),
        tags=texts(said.get("tags")),
        skills=texts(said.get("skills")),
        rules=texts(said.get("rules")),
        prompt_fragments=texts(said.get("prompt_fragments")),
        runtimes=runtimes_of(said),
        adapters=MappingProxyType(adapters_of(said)),
        hooks=texts(said.get("hooks")),
        sha256=text(digest) or None,
        permissions=_permissions(named(said.get("permissions"))),
        requires=texts(said.get("requires")),
        extra=MappingProxyType({k: v for k, v in said.items() if k not in PLUGIN_YAML_SCHEMA["properties"]}),
        warnings=tuple(warnings),
    )


def version_of(document: Document) -> tuple[str, list[str]]:
    """The version as text, with a warning when YAML read it as something else."""
    said = named(document.value).get("version")
    if said is None:
        return DEFAULT_VERSION, []
    if isinstance(said, str):
        return said.strip() or DEFAULT_VERSION, []
    written = document.text("version")
    if not written or not (is_number(said) or written[0].isdigit()):
        return DEFAULT_VERSION, ["`version` is no text and was ignored"]
    return written, [f"`version` is not in quotes and was read as the text {written!r}"]


def runtimes_of(said: Mapping[str, object]) -> tuple[str, ...] | None:
    """The declared runtimes with underscores; `None` when any will do."""
    if not isinstance(said.get("runtimes"), list):
        return None
    return tuple(dict.fromkeys(registry.underscored(name) for name in texts(said["runtimes"])))


def adapters_of(said: Mapping[str, object]) -> dict[str, str]:
    """Runtime, with underscores, → path of its adaptor."""
    given = named(said.get("adapters")).items()
    return {registry.underscored(runtime): path for runtime, path in given if isinstance(path, str)}


def _permissions(said: Mapping[str, object]) -> Permissions:
    network = said.get("network")
    return Permissions(
        network=network if isinstance(network, bool) else texts(network) or False,
        env=texts(said.get("env")),
        hooks=said.get("hooks") is True,
        setup=said.get("setup") is True,
        mcp_servers=texts(said.get("mcp_servers")),
    )
