"""The original import path of `molecule_runtime.domain.snapshot_redaction`: the same module object."""

import sys

from molecule_runtime.domain import snapshot_redaction
from molecule_runtime.domain.snapshot_redaction import (
    is_sandbox_content,
    scrub_content,
    scrub_memory_entry,
    scrub_snapshot,
)

__all__ = ["is_sandbox_content", "scrub_content", "scrub_memory_entry", "scrub_snapshot"]

sys.modules[__name__] = snapshot_redaction
