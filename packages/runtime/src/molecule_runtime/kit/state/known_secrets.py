"""The secret values that this process knows, for everything that redacts them literally."""

import os
import re
import threading
from collections.abc import Mapping
from pathlib import Path

from molecule_runtime.kit.files.atomic_files import read_limited

_SECRET_NAME = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|SALT)\Z", re.IGNORECASE)
_SECRET_FILES = (".auth_token", ".recovery")
_MAX_FILE_BYTES = 64 * 1024

_lock = threading.Lock()
_added = set[str]()


def add_known_secret(value: str) -> None:
    """Remember a value that came another way than the environment: a token issued at registration."""
    with _lock:
        _added.add(value)


def known_secret_values(
    environ: Mapping[str, str] | None = None, *, config_dir: str | os.PathLike[str] | None = None
) -> tuple[str, ...]:
    """The added values, those of variables with names of secrets, and the workspace's own token."""
    environ = os.environ if environ is None else environ
    values = {value for name, value in environ.items() if is_secret_name(name)}
    folder = Path(config_dir or environ.get("WORKSPACE_CONFIG_PATH") or "/configs")
    for name in _SECRET_FILES:
        try:
            values.add(read_limited(folder / name, _MAX_FILE_BYTES).decode().strip())
        except (OSError, ValueError):
            continue
    with _lock:
        return tuple(sorted(value for value in values | _added if value and not _is_path(value)))


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name holds a secret."""
    return _SECRET_NAME.search(name) is not None


def reset_for_test() -> None:
    """Forget the added values."""
    with _lock:
        _added.clear()


def _is_path(value: str) -> bool:
    """`X_KEY=/run/keys/x` names the place of a secret, which is none itself."""
    return (
        value.startswith(("/", "~/", "./"))
        and "\n" not in value
        and len(value) < 256
        and Path(value).exists()
    )
