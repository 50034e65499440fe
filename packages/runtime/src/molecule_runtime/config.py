"""Compatibility path: this name is the module `molecule_runtime.settings.config` itself."""

import sys

from molecule_runtime.settings import config as _module
from molecule_runtime.settings.config import CONFIG_FILE as CONFIG_FILE
from molecule_runtime.settings.config import A2AConfig as A2AConfig
from molecule_runtime.settings.config import ComplianceConfig as ComplianceConfig
from molecule_runtime.settings.config import ConfigError as ConfigError
from molecule_runtime.settings.config import ConsolidationConfig as ConsolidationConfig
from molecule_runtime.settings.config import DelegationConfig as DelegationConfig
from molecule_runtime.settings.config import EnvConfig as EnvConfig
from molecule_runtime.settings.config import GovernanceConfig as GovernanceConfig
from molecule_runtime.settings.config import HITLConfig as HITLConfig
from molecule_runtime.settings.config import MemoryConfig as MemoryConfig
from molecule_runtime.settings.config import ObservabilityConfig as ObservabilityConfig
from molecule_runtime.settings.config import RBACConfig as RBACConfig
from molecule_runtime.settings.config import RuntimeConfig as RuntimeConfig
from molecule_runtime.settings.config import SandboxConfig as SandboxConfig
from molecule_runtime.settings.config import SecurityScanConfig as SecurityScanConfig
from molecule_runtime.settings.config import WorkspaceConfig as WorkspaceConfig
from molecule_runtime.settings.config import load_config as load_config

sys.modules[__name__] = _module
