"""This name is the module `molecule_plugin.raw_drop` itself; published adaptors import it."""

import sys

from molecule_plugin import raw_drop
from molecule_plugin.raw_drop import RawDropAdaptor

__all__ = ["RawDropAdaptor"]

sys.modules[__name__] = raw_drop
