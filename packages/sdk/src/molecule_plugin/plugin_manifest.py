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
from molecule_plugin.yaml_reader import Document, read_manifest_yaml
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
    fields = named(document.value)
    name, digest = fields.get("name"), fields.get("sha256")
    if not isinstance(name, str) or not name.strip():
        raise PluginManifestError("plugin.yaml: `name` is required and must be a non-empty string")
    if "sha256" in fields and not (isinstance(digest, str) and _SHA256.fullmatch(digest)):
        raise PluginManifestError("plugin.yaml: `sha256` must be 64 lowercase hex characters, in quotes")
    version, warnings = version_of(document)
    return Manifest(
        name=name,
        version=version,
        description=text(fields.get("description")),
        author=text(fields.get("author")),
        license=text(fields.get("license")),
        homepage=text(fields.get("homepage")),
        tags=texts(fields.get("tags")),
        skills=texts(fields.get("skills")),
        rules=texts(fields.get("rules")),
        prompt_fragments=texts(fields.get("prompt_fragments")),
        runtimes=runtimes_of(fields),
        adapters=MappingProxyType(adapters_of(fields)),
        hooks=texts(fields.get("hooks")),
        sha256=text(digest) or None,
        permissions=_permissions(named(fields.get("permissions"))),
        requires=texts(fields.get("requires")),
        extra=MappingProxyType(
            {k: v for k, v in fields.items() if k not in PLUGIN_YAML_SCHEMA["properties"]}
        ),
        warnings=tuple(warnings),
    )


def version_of(document: Document) -> tuple[str, list[str]]:
    """The version as text, with a warning when YAML read it as something else."""
    version = named(document.value).get("version")
    if version is None:
        return DEFAULT_VERSION, []
    if isinstance(version, str):
        return version.strip() or DEFAULT_VERSION, []
    written = document.text("version")
    if not written or not (is_number(version) or written[0].isdigit()):
        return DEFAULT_VERSION, ["`version` is no text and was ignored"]
    return written, [f"`version` is not in quotes and was read as the text {written!r}"]


def runtimes_of(fields: Mapping[str, object]) -> tuple[str, ...] | None:
    """The declared runtimes with underscores; `None` when any will do."""
    if not isinstance(fields.get("runtimes"), list):
        return None
    return tuple(dict.fromkeys(registry.underscored(name) for name in texts(fields["runtimes"])))


def adapters_of(fields: Mapping[str, object]) -> dict[str, str]:
    """Runtime, with underscores, → path of its adaptor."""
    adapters = named(fields.get("adapters")).items()
    return {registry.underscored(runtime): path for runtime, path in adapters if isinstance(path, str)}


def _permissions(fields: Mapping[str, object]) -> Permissions:
    network = fields.get("network")
    return Permissions(
        network=network if isinstance(network, bool) else texts(network) or False,
        env=texts(fields.get("env")),
        hooks=fields.get("hooks") is True,
        setup=fields.get("setup") is True,
        mcp_servers=texts(fields.get("mcp_servers")),
    )
