"""The original path of `molecule_runtime.kit.state.engine_health`: the same module."""

import sys

from molecule_runtime.kit.state import engine_health
from molecule_runtime.kit.state.engine_health import clear_wedge as clear_wedge
from molecule_runtime.kit.state.engine_health import is_wedged as is_wedged
from molecule_runtime.kit.state.engine_health import mark_wedged as mark_wedged
from molecule_runtime.kit.state.engine_health import reset_for_test as reset_for_test
from molecule_runtime.kit.state.engine_health import wedge_reason as wedge_reason

sys.modules[__name__] = engine_health
