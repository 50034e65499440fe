"""Loading config.yaml. The compatibility path `molecule_runtime.config` is this module."""

import logging
import os
from collections.abc import Mapping
from pathlib import Path

from molecule_runtime.domain.config import (
    A2AConfig,
    ComplianceConfig,
    ConsolidationConfig,
    DelegationConfig,
    EnvConfig,
    GovernanceConfig,
    HITLConfig,
    MemoryConfig,
    ObservabilityConfig,
    RBACConfig,
    RuntimeConfig,
    SandboxConfig,
    SecurityScanConfig,
    WorkspaceConfig,
)
from molecule_runtime.domain.config_keys import read_block
from molecule_runtime.domain.config_values import ConfigError, ConfigReading, ConfigValue
from molecule_runtime.settings.environment import config_dir
from molecule_runtime.settings.yaml_files import read_yaml

__all__ = [
    "CONFIG_FILE",
    "A2AConfig",
    "ComplianceConfig",
    "ConfigError",
    "ConsolidationConfig",
    "DelegationConfig",
    "EnvConfig",
    "GovernanceConfig",
    "HITLConfig",
    "MemoryConfig",
    "ObservabilityConfig",
    "RBACConfig",
    "RuntimeConfig",
    "SandboxConfig",
    "SecurityScanConfig",
    "WorkspaceConfig",
    "load_config",
]

CONFIG_FILE = "config.yaml"
_MAX_PROMPT_BYTES = 1024 * 1024

log = logging.getLogger("molecule_runtime.config")


def load_config(path: str | Path | None = None, env: Mapping[str, str] | None = None) -> WorkspaceConfig:
    """Load config.yaml from a folder, the config directory unless another is named.

    The environment wins over the file. Warnings are logged, and kept in `warnings`. Raises FileNotFoundError,
    or `ConfigError` with every problem of the file.
    """
    env = os.environ if env is None else env
    file = config_file(config_dir(env) if path is None else Path(path))
    if not file.is_file():
        raise FileNotFoundError(f"Config file not found: {file}")
    reading = ConfigReading(str(file), env)
    root = read_yaml(file, reading)
    if root.content is None:
        root = ConfigValue({})
    config = read_block(WorkspaceConfig, root, reading)
    reading.check()
    _choose_model(config, env)
    config.initial_prompt = _prompt(config.initial_prompt, config.initial_prompt_file, file.parent, reading)
    config.idle_prompt = _prompt(config.idle_prompt, config.idle_prompt_file, file.parent, reading)
    config.warnings = reading.warnings
    for warning in reading.warnings:
        log.warning("%s", warning)
    return config


def config_file(path: Path) -> Path:
    """The config.yaml of a folder; a path that is a file already is taken as it is."""
    return path if path.is_file() else path / CONFIG_FILE


def _choose_model(config: WorkspaceConfig, env: Mapping[str, str]) -> None:
    """MODEL_PROVIDER > `runtime_config.model` > `model`; afterwards both keys say the same."""
    if config.runtime_config.model:
        if not env.get("MODEL_PROVIDER", "").strip():
            config.model = config.runtime_config.model
        config.runtime_config.model = config.model


def _prompt(inline: str, name: str, folder: Path, reading: ConfigReading) -> str:
    """The inline prompt, else the text of the file, which must lie in the config directory."""
    if inline or not name:
        return inline
    try:
        file = (folder / name).resolve()
        if not file.is_relative_to(folder.resolve()):
            reading.warnings.append(f"Prompt file outside the config directory is not read: {name}")
            return ""
        with file.open("rb") as opened:
            return opened.read(_MAX_PROMPT_BYTES).decode("utf-8", "replace").strip()
    except (OSError, ValueError) as problem:
        reading.warnings.append(f"Prompt file cannot be read: {name} ({type(problem).__name__})")
        return ""
