"""Compatibility path: this name is the module `molecule_runtime.settings.agents_md` itself."""

import sys

from molecule_runtime.settings import agents_md as _module
from molecule_runtime.settings.agents_md import generate_agents_md as generate_agents_md

sys.modules[__name__] = _module
