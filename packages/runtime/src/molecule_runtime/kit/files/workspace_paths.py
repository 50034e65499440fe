"""Where a workspace keeps its files."""

import logging
import os
from pathlib import Path

import molecule_runtime

WORKSPACE_MOUNT = "/workspace"
CONFIG_MOUNT = "/configs"
UPLOADS = ".molecule/chat-uploads"
CHAT_UPLOADS_DIR = f"{WORKSPACE_MOUNT}/{UPLOADS}"
PRIVATE = 0o700

log = logging.getLogger(__name__)


def work_dir() -> Path:
    """The work directory: `MOLECULE_WORKSPACE_DIR`, else `/workspace` if it exists, else below the config."""
    if directory := os.environ.get("MOLECULE_WORKSPACE_DIR", "").strip():
        return Path(directory)
    mounted = Path(WORKSPACE_MOUNT)
    configs = Path(os.environ.get("WORKSPACE_CONFIG_PATH") or CONFIG_MOUNT)
    return mounted if mounted.is_dir() else configs / "workspace"


def ensure_workspace_writable(directory: str | Path | None = None) -> bool:
    """Make the work directory and its folder of uploads, for the owner alone; whether both can be written.

    A directory that is there keeps its mode. A failure is a warning.
    """
    place = Path(directory) if directory is not None else work_dir()
    uploads = place / UPLOADS
    try:
        missing = [folder for folder in (uploads, *uploads.parents) if not folder.exists()]
        for folder in reversed(missing):
            folder.mkdir(mode=PRIVATE, exist_ok=True)
    except OSError as problem:
        log.warning("%s cannot be made: %s", uploads, problem.strerror)
        return False
    if not (os.access(place, os.W_OK) and os.access(uploads, os.W_OK)):
        log.warning("%s cannot be written by this user", place)
        return False
    return True


def get_mcp_server_path() -> str:
    """The script of the MCP server that engines start: `A2A_MCP_SERVER_PATH`, else ours."""
    own = Path(molecule_runtime.__file__).with_name("a2a_mcp_server.py")
    return os.environ.get("A2A_MCP_SERVER_PATH") or str(own)
