"""This name is the module `molecule_plugin.protocol` itself; published adaptors import it."""

import sys

from molecule_plugin import protocol
from molecule_plugin.protocol import (
    DEFAULT_MEMORY_FILENAME,
    SKILLS_SUBDIR,
    InstallContext,
    InstallResult,
    PluginAdaptor,
)

__all__ = ["DEFAULT_MEMORY_FILENAME", "SKILLS_SUBDIR", "InstallContext", "InstallResult", "PluginAdaptor"]

sys.modules[__name__] = protocol
