"""The original path of `molecule_runtime.kit.wedge`: the same module."""

import sys

from molecule_runtime.kit import wedge
from molecule_runtime.kit.wedge import clear_wedge as clear_wedge
from molecule_runtime.kit.wedge import is_wedged as is_wedged
from molecule_runtime.kit.wedge import mark_wedged as mark_wedged
from molecule_runtime.kit.wedge import reset_for_test as reset_for_test
from molecule_runtime.kit.wedge import wedge_reason as wedge_reason

sys.modules[__name__] = wedge
