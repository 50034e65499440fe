"""The original import path of `molecule_runtime.domain.memory_redaction`: the same module object."""

import sys

from molecule_runtime.domain import memory_redaction
from molecule_runtime.domain.memory_redaction import _redact_secrets

__all__ = ["_redact_secrets"]

sys.modules[__name__] = memory_redaction
