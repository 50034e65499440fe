"""The adapter API. This path is the module `molecule_runtime.kit.setup.adapter` itself."""

import sys

from molecule_runtime.kit.setup import adapter
from molecule_runtime.kit.setup.adapter import AdapterConfig, BaseAdapter, RuntimeCapabilities, SetupResult

__all__ = ["AdapterConfig", "BaseAdapter", "RuntimeCapabilities", "SetupResult"]

sys.modules[__name__] = adapter
