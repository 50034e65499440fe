"""The names of plugins: one rule for the API, the CLI, the SDK and the lock."""

import re

from molecule_plugin.errors import PluginNameError

NAME_PATTERN = "^[a-z0-9][a-z0-9._-]{0,127}$"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,127}")


def is_name(name: str) -> bool:
    """Whether a text may name a plugin."""
    return _NAME.fullmatch(name) is not None and ".." not in name


def check_name(name: str) -> str:
    """The name itself; `PluginNameError` when it cannot name a plugin. Call it before touching anything."""
    if not is_name(name):
        raise PluginNameError(
            f"{name[:140]!r} is no plugin name: write at most 128 of a-z, 0-9, '.', '_' and '-',"
            " beginning with a letter or digit, without '..'"
        )
    return name
