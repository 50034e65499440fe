"""Alias of `molecule_runtime.links.tokens`: the same module object."""

import sys

from molecule_runtime.links import tokens
from molecule_runtime.links.tokens import (
    auth_headers as auth_headers,
)
from molecule_runtime.links.tokens import (
    clear_cache as clear_cache,
)
from molecule_runtime.links.tokens import (
    get_token as get_token,
)
from molecule_runtime.links.tokens import (
    refresh_cache as refresh_cache,
)
from molecule_runtime.links.tokens import (
    save_token as save_token,
)
from molecule_runtime.links.tokens import (
    self_source_headers as self_source_headers,
)

sys.modules[__name__] = tokens
