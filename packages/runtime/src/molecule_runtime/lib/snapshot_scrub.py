"""The original import path of `molecule_runtime.domain.scrubbing`: the same module object."""

import sys

from molecule_runtime.domain import scrubbing
from molecule_runtime.domain.scrubbing import (
    is_sandbox_content,
    scrub_content,
    scrub_memory_entry,
    scrub_snapshot,
)

__all__ = ["is_sandbox_content", "scrub_content", "scrub_memory_entry", "scrub_snapshot"]

sys.modules[__name__] = scrubbing
