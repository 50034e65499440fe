"""The original import path of `molecule_runtime.kit.state.snapshot`: the same module object."""

import sys

from molecule_runtime.kit.state import snapshot
from molecule_runtime.kit.state.snapshot import (
    MAX_TRANSCRIPT_LINES,
    build_snapshot,
    delete_snapshot,
    read_snapshot,
    write_snapshot,
)

__all__ = ["MAX_TRANSCRIPT_LINES", "build_snapshot", "delete_snapshot", "read_snapshot", "write_snapshot"]

sys.modules[__name__] = snapshot
