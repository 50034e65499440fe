"""The original import path of `molecule_runtime.kit.state.transcript_auth`: the same module object."""

import sys

from molecule_runtime.kit.state import transcript_auth
from molecule_runtime.kit.state.transcript_auth import transcript_authorized

__all__ = ["transcript_authorized"]

sys.modules[__name__] = transcript_auth
