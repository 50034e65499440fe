"""The workspace token: from its file, else from the environment, with a cache for the process.

`molecule_runtime.platform_auth` is this module. The file is `<CONFIGS_DIR>/.auth_token`.
"""

import logging
import os
import threading
from pathlib import Path

from molecule_runtime.links import private_files

DEFAULT_CONFIGS_DIR = "/configs"
TOKEN_NAME = ".auth_token"  # noqa: S105 - the name of a file
RECOVERY_NAME = ".recovery"
TOKEN_VARIABLE = "MOLECULE_WORKSPACE_TOKEN"  # noqa: S105 - the name of a variable

_DIRECTORY_VARIABLES = ("CONFIGS_DIR", "MOLECULE_CONFIGS_DIR", "WORKSPACE_CONFIG_PATH")

_lock = threading.Lock()
_cached: str | None = None

log = logging.getLogger("molecule_runtime")


def configs_dir() -> Path:
    """The directory of the token file."""
    named = (os.environ.get(name, "").strip() for name in _DIRECTORY_VARIABLES)
    return Path(next(filter(None, named), DEFAULT_CONFIGS_DIR))


def get_token() -> str | None:
    """The token in use: that of the file, else that of the environment, else `None`."""
    global _cached
    with _lock:
        if _cached is None:
            _cached = _stored()
        return _cached


def save_token(token: str) -> None:
    """Keep a token, in the file and for this process. Saving the same again writes nothing.

    ValueError when it is empty. OSError when the file cannot be written; this process uses the token anyway.
    """
    global _cached
    token = token.strip()
    if not token:
        raise ValueError("the token is empty")
    with _lock:
        _cached = token
        if _in_file() != token:
            private_files.write(configs_dir() / TOKEN_NAME, token)


def auth_headers() -> dict[str, str]:
    """The header that proves who calls; empty without a token."""
    token = get_token()
    return {"Authorization": f"Bearer {token}"} if token else {}


def self_source_headers(workspace_id: str) -> dict[str, str]:
    """The headers of a call that the workspace makes as itself."""
    return auth_headers() | {"X-Workspace-ID": workspace_id}


def clear_cache() -> None:
    """Forget the token of this process; the next question reads the file again."""
    global _cached
    with _lock:
        _cached = None


def refresh_cache() -> str | None:
    """Read file and environment again; returns the token that is in use from now on."""
    clear_cache()
    return get_token()


def replacement_for(used: str | None) -> str | None:
    """A stored token other than the one that was refused; it is in use from now on.

    `None`, and nothing changes, when there is no other.
    """
    global _cached
    with _lock:
        found = _stored()
        if not found or found == used:
            return None
        _cached = found
        return found


def load_recovery_secret() -> str | None:
    """The recovery secret that came with the token, or `None`."""
    return _read(configs_dir() / RECOVERY_NAME)


def save_recovery_secret(secret: str) -> None:
    """Keep the recovery secret; OSError when it cannot be written."""
    private_files.write(configs_dir() / RECOVERY_NAME, secret)


def _stored() -> str | None:
    return _in_file() or os.environ.get(TOKEN_VARIABLE, "").strip() or None


def _in_file() -> str | None:
    return _read(configs_dir() / TOKEN_NAME)


def _read(path: Path) -> str | None:
    try:
        return (private_files.read(path) or "").strip() or None
    except OSError as problem:
        log.warning("%s cannot be read: %s", path, problem)
        return None
