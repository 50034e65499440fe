"""Everything about `plugin.yaml`, `SKILL.md` and their tree, under the name that programs import."""

from molecule_plugin.manifest_rules import validate_manifest
from molecule_plugin.plugin_manifest import (
    PLUGIN_YAML_SCHEMA,
    Manifest,
    Permissions,
    manifest_of,
    read_manifest,
)
from molecule_plugin.plugin_tree import validate_plugin
from molecule_plugin.skills import (
    SKILL_COMPAT_MAX,
    SKILL_DESC_MAX,
    SKILL_NAME_MAX,
    SKILL_NAME_RE,
    parse_skill_md,
    validate_skill,
)
from molecule_wire.registry import SUPPORTED_RUNTIMES

__all__ = [
    "PLUGIN_YAML_SCHEMA",
    "SKILL_COMPAT_MAX",
    "SKILL_DESC_MAX",
    "SKILL_NAME_MAX",
    "SKILL_NAME_RE",
    "SUPPORTED_RUNTIMES",
    "Manifest",
    "Permissions",
    "manifest_of",
    "parse_skill_md",
    "read_manifest",
    "validate_manifest",
    "validate_plugin",
    "validate_skill",
]
