"""What a program gets from `import molecule_plugin`, and what it does not have to pay for."""

import importlib
import subprocess
import sys
from importlib import metadata

import pytest

import molecule_plugin

PROMISED = {
    "AgentskillsAdaptor", "MCPServerAdaptor", "RawDropAdaptor", "InstallContext", "InstallResult",
    "InstallLedger", "PluginAdaptor", "AdaptorSource", "resolve", "install_plugin_dir", "uninstall_plugin",
    "upgrade_plugin", "verify_installed", "DEFAULT_MEMORY_FILENAME", "SKILLS_SUBDIR", "SKIP_ROOT_MD",
    "PLUGIN_YAML_SCHEMA", "SKILL_NAME_RE", "SKILL_NAME_MAX", "SKILL_DESC_MAX", "SKILL_COMPAT_MAX",
    "SUPPORTED_RUNTIMES", "SUPPORTED_CHANNEL_TYPES", "ValidationError", "Finding", "parse_skill_md",
    "validate_manifest", "validate_skill", "validate_plugin", "validate_workspace_template",
    "validate_org_template", "validate_channel_config", "validate_channel_file", "lint_plugin",
    "compute_plugin_sha256", "verify_plugin_sha256", "sign_plugin", "verify_signature", "read_lock",
    "write_lock", "pack_plugin", "__version__", "LIMITS",
}  # fmt: skip


def loaded_by(statement: str) -> set[str]:
    program = f"import sys; before = set(sys.modules); {statement}; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_package_exports_what_is_promised_and_nothing_else() -> None:
    assert set(molecule_plugin.__all__) == PROMISED
    assert all(hasattr(molecule_plugin, name) for name in PROMISED)
    assert set(dir(molecule_plugin)) >= PROMISED
    assert not hasattr(molecule_plugin, "install_everything")


@pytest.mark.parametrize("name", ["channel", "org", "workspace", "manifest", "builtins", "protocol"])
def test_the_modules_of_the_first_generation_stay_importable(name: str) -> None:
    importlib.import_module(f"molecule_plugin.{name}")


def test_importing_the_package_loads_no_part_of_it() -> None:
    loaded = loaded_by("import molecule_plugin")
    assert {name for name in loaded if name.startswith("molecule")} == {"molecule_plugin"}


def test_the_shared_parts_need_neither_yaml_nor_cryptography() -> None:
    parts = "compute_plugin_sha256, pack_plugin, read_lock, sign_plugin, verify_signature, LIMITS"
    loaded = loaded_by(f"from molecule_plugin import {parts}")
    assert not loaded & {"yaml", "cryptography", "asyncio"}


def test_the_version_is_that_of_the_distribution() -> None:
    assert molecule_plugin.__version__ == metadata.version("molecule-ai-sdk")
