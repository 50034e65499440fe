"""The plugin author SDK: write a plugin once, check it, sign it, and install it under any runtime."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from molecule_plugin.archive_writer import pack_plugin
    from molecule_plugin.builtins import AgentskillsAdaptor, MCPServerAdaptor
    from molecule_plugin.channel import validate_channel_config, validate_channel_file
    from molecule_plugin.digest import compute_plugin_sha256, verify_plugin_sha256
    from molecule_plugin.findings import Finding, ValidationError
    from molecule_plugin.install import install_plugin_dir, upgrade_plugin
    from molecule_plugin.ledger import InstallLedger
    from molecule_plugin.limits import LIMITS
    from molecule_plugin.lint import lint_plugin
    from molecule_plugin.lock import read_lock, write_lock
    from molecule_plugin.manifest_rules import validate_manifest
    from molecule_plugin.org import validate_org_template
    from molecule_plugin.plugin_layout import SKILLS_SUBDIR, SKIP_ROOT_MD
    from molecule_plugin.plugin_manifest import PLUGIN_YAML_SCHEMA
    from molecule_plugin.plugin_tree import validate_plugin
    from molecule_plugin.protocol import (
        DEFAULT_MEMORY_FILENAME,
        AdaptorSource,
        InstallContext,
        InstallResult,
        PluginAdaptor,
    )
    from molecule_plugin.raw_drop import RawDropAdaptor
    from molecule_plugin.resolution import resolve
    from molecule_plugin.signatures import sign_plugin, verify_signature
    from molecule_plugin.skills import (
        SKILL_COMPAT_MAX,
        SKILL_DESC_MAX,
        SKILL_NAME_MAX,
        SKILL_NAME_RE,
        parse_skill_md,
        validate_skill,
    )
    from molecule_plugin.uninstall import uninstall_plugin, verify_installed
    from molecule_plugin.workspace import validate_workspace_template
    from molecule_wire.registry import SUPPORTED_CHANNEL_TYPES, SUPPORTED_RUNTIMES

__version__ = "0.1.0"

_HOMES = {
    "molecule_plugin.builtins": ("AgentskillsAdaptor", "MCPServerAdaptor"),
    "molecule_plugin.channel": ("validate_channel_config", "validate_channel_file"),
    "molecule_plugin.digest": ("compute_plugin_sha256", "verify_plugin_sha256"),
    "molecule_plugin.findings": ("Finding", "ValidationError"),
    "molecule_plugin.install": ("install_plugin_dir", "upgrade_plugin"),
    "molecule_plugin.plugin_layout": ("SKILLS_SUBDIR", "SKIP_ROOT_MD"),
    "molecule_plugin.ledger": ("InstallLedger",),
    "molecule_plugin.limits": ("LIMITS",),
    "molecule_plugin.lint": ("lint_plugin",),
    "molecule_plugin.lock": ("read_lock", "write_lock"),
    "molecule_plugin.manifest_rules": ("validate_manifest",),
    "molecule_plugin.org": ("validate_org_template",),
    "molecule_plugin.archive_writer": ("pack_plugin",),
    "molecule_plugin.plugin_manifest": ("PLUGIN_YAML_SCHEMA",),
    "molecule_plugin.plugin_tree": ("validate_plugin",),
    "molecule_plugin.protocol": (
        "AdaptorSource",
        "DEFAULT_MEMORY_FILENAME",
        "InstallContext",
        "InstallResult",
        "PluginAdaptor",
    ),
    "molecule_plugin.raw_drop": ("RawDropAdaptor",),
    "molecule_plugin.resolution": ("resolve",),
    "molecule_plugin.signatures": ("sign_plugin", "verify_signature"),
    "molecule_plugin.skills": (
        "SKILL_COMPAT_MAX",
        "SKILL_DESC_MAX",
        "SKILL_NAME_MAX",
        "SKILL_NAME_RE",
        "parse_skill_md",
        "validate_skill",
    ),
    "molecule_plugin.uninstall": ("uninstall_plugin", "verify_installed"),
    "molecule_plugin.workspace": ("validate_workspace_template",),
    "molecule_wire.registry": ("SUPPORTED_CHANNEL_TYPES", "SUPPORTED_RUNTIMES"),
}
"""Module → the names it brings. None is loaded before it is used, so that a part needs only what it needs."""

_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "AdaptorSource",
    "AgentskillsAdaptor",
    "DEFAULT_MEMORY_FILENAME",
    "Finding",
    "InstallContext",
    "InstallLedger",
    "InstallResult",
    "LIMITS",
    "MCPServerAdaptor",
    "PLUGIN_YAML_SCHEMA",
    "PluginAdaptor",
    "RawDropAdaptor",
    "SKILLS_SUBDIR",
    "SKILL_COMPAT_MAX",
    "SKILL_DESC_MAX",
    "SKILL_NAME_MAX",
    "SKILL_NAME_RE",
    "SKIP_ROOT_MD",
    "SUPPORTED_CHANNEL_TYPES",
    "SUPPORTED_RUNTIMES",
    "ValidationError",
    "__version__",
    "compute_plugin_sha256",
    "install_plugin_dir",
    "lint_plugin",
    "pack_plugin",
    "parse_skill_md",
    "read_lock",
    "resolve",
    "sign_plugin",
    "uninstall_plugin",
    "upgrade_plugin",
    "validate_channel_config",
    "validate_channel_file",
    "validate_manifest",
    "validate_org_template",
    "validate_plugin",
    "validate_skill",
    "validate_workspace_template",
    "verify_installed",
    "verify_plugin_sha256",
    "verify_signature",
    "write_lock",
]


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
