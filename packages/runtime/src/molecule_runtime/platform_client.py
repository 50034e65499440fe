"""Alias of `molecule_runtime.links.platform_client`: the same module object."""

import sys

from molecule_runtime.links import platform_client
from molecule_runtime.links.platform_client import (
    PlatformClient as PlatformClient,
)

sys.modules[__name__] = platform_client
