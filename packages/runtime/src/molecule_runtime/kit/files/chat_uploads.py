"""The files of a conversation: the work folder they must lie in, and the folder of uploads below it."""

import logging
import mimetypes
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from molecule_runtime.kit.files.atomic_files import open_private, private_folder

WORKSPACE_MOUNT = "/workspace"
UPLOADS = ".molecule/chat-uploads"
MAX_FILE_BYTES = 25 * 1024 * 1024
MAX_NAME_LENGTH = 100

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+", re.ASCII)

_log = logging.getLogger(__name__)


def work_dir(environ: Mapping[str, str] | None = None) -> Path:
    """`MOLECULE_WORKSPACE_DIR`, else `/workspace` if there is one, else below the configuration folder."""
    environ = os.environ if environ is None else environ
    if named := environ.get("MOLECULE_WORKSPACE_DIR", "").strip():
        return Path(named)
    if os.path.isdir(WORKSPACE_MOUNT):
        return Path(WORKSPACE_MOUNT)
    return Path(environ.get("WORKSPACE_CONFIG_PATH") or "/configs") / "workspace"


def inside(path: Path, work: Path) -> Path | None:
    """Where the path leads when symlinks are followed, if that is below the work folder."""
    try:
        resolved = path.resolve()
        return resolved if resolved.is_relative_to(work.resolve()) else None
    except (OSError, RuntimeError, ValueError):  # a loop of links, a name with a NUL
        return None


def safe_name(name: str) -> str:
    """A file name of at most 100 safe characters; never empty, never hidden, without a folder."""
    base = name.replace("\\", "/").rstrip("/").rpartition("/")[2]
    cleaned = _UNSAFE.sub("_", base).lstrip(".")
    if len(cleaned) > MAX_NAME_LENGTH:
        stem, dot, suffix = cleaned.rpartition(".")
        ending = dot + suffix if stem and len(suffix) <= 16 else ""
        cleaned = cleaned[: MAX_NAME_LENGTH - len(ending)] + ending
    return cleaned.strip("_") or "file"


def mime_type_of(name: str, declared: object = None) -> str:
    """The type that was given, if it looks like one, else a guess from the name."""
    if isinstance(declared, str) and re.fullmatch(r"[\w.+-]{1,100}/[\w.+-]{1,100}", declared, re.ASCII):
        return declared
    return mimetypes.guess_type(name)[0] or "application/octet-stream"


def save_upload(name: str, data: bytes, work: Path) -> Path | None:
    """Write a new file `<16 hex>-<name>` to the uploads; None, with a warning, if that is not possible."""
    if len(data) > MAX_FILE_BYTES:
        _log.warning("Attachment %s ignored: it has more than %d bytes", safe_name(name), MAX_FILE_BYTES)
        return None
    try:
        # The agent owns its work folder: a link there must not lead the file out of it.
        folder = inside(work / UPLOADS, work)
        if folder is None:
            _log.warning("Attachment %s ignored: %s leads out of the work folder", safe_name(name), UPLOADS)
            return None
        path = private_folder(folder) / f"{secrets.token_hex(8)}-{safe_name(name)}"
        with open_private(path) as file:
            file.write(data)
    except OSError as problem:
        _log.warning("Attachment %s not written (%s)", safe_name(name), problem.strerror)
        return None
    return path
