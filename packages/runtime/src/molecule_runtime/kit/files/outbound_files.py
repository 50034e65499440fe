"""Outbound attachments: files that an engine names explicitly, copied to the uploads and told as parts.

A file is never exported because an answer mentions its path, unless `MOLECULE_AUTO_ATTACH=1` asks for that.
"""

import fnmatch
import logging
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from molecule_runtime.kit.files.atomic_files import FileTooLarge, read_limited
from molecule_runtime.kit.files.chat_uploads import (
    MAX_FILE_BYTES,
    WORKSPACE_MOUNT,
    inside,
    mime_type_of,
    safe_name,
    save_upload,
    work_dir,
)
from molecule_wire import JSONObject

MAX_OUTBOUND_FILES = 10
DENIED_NAMES = (".env*", "*.pem", "id_*", ".auth_token", ".recovery")
DENIED_FOLDERS = (".git",)

_TRUE = ("1", "true", "yes", "on")

_log = logging.getLogger(__name__)


def stage_outbound_file(path: Any, *, work: Path | None = None) -> JSONObject | None:
    """Copy a file of the work folder to the uploads; its 1.0 part with `workspace:<path>`.

    None, with a warning, for a file outside (symlinks are followed), a denied name, a folder, a file of more
    than 25 MiB.
    """
    folder = work or work_dir()
    named = folder / _path_of(path)
    source = inside(named, folder)
    if source is None:
        _log.warning("File %s not attached: it is outside of the work folder", safe_name(named.name))
        return None
    # A link with a harmless name may lead to a denied file, and the other way round.
    if is_denied(source) or is_denied(named):
        _log.warning(
            "File %s not attached: files of this kind never leave the workspace", safe_name(named.name)
        )
        return None
    try:
        data = read_limited(source, MAX_FILE_BYTES)
    except FileTooLarge:
        _log.warning("File %s not attached: more than %d bytes", safe_name(named.name), MAX_FILE_BYTES)
        return None
    except OSError as problem:
        _log.warning("File %s not attached (%s)", safe_name(named.name), problem.strerror)
        return None
    copy = save_upload(named.name, data, folder)
    if copy is None:
        return None
    mime_type = mime_type_of(named.name, getattr(path, "mime_type", None))
    return {"url": f"workspace:{copy}", "filename": safe_name(named.name), "mediaType": mime_type}


def collect_outbound_files(
    reply_text: str = "",
    attached: Iterable[Any] = (),
    *,
    work: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> list[JSONObject]:
    """The parts of the files that go with an answer: each once, at most ten."""
    environ = os.environ if environ is None else environ
    paths, folder = list(attached), work or work_dir()
    if environ.get("MOLECULE_AUTO_ATTACH", "").strip().lower() in _TRUE:
        paths += mentioned_files(reply_text, folder)
    if not paths:
        return []
    parts = dict[Path, JSONObject]()
    for one in paths:
        source = inside(folder / _path_of(one), folder)
        if source in parts:
            continue
        if len(parts) == MAX_OUTBOUND_FILES:
            _log.warning("Only %d files go with an answer; the others are left out", MAX_OUTBOUND_FILES)
            break
        part = stage_outbound_file(one, work=folder)
        if part is not None and source is not None:
            parts[source] = part
    return list(parts.values())


def mentioned_files(text: str, work: Path) -> list[Path]:
    """The files of the work folder that a text names by their whole path."""
    places = "|".join(map(re.escape, sorted({WORKSPACE_MOUNT, str(work)}, key=len, reverse=True)))
    mentions = re.finditer(rf"(?<![\w/.~-])(?:{places})/([^\s\"'`<>()\[\]{{}}|*?]+)", text)
    paths = (work / found[1].rstrip(".,;:!") for found in mentions)
    return [path for path in dict.fromkeys(paths) if path.is_file()]


def is_denied(path: Path) -> bool:
    """Whether a file of that name never leaves: keys, tokens, environments, what is below `.git`."""
    name = path.name.lower()
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in DENIED_NAMES) or any(
        part.lower() in DENIED_FOLDERS for part in path.parts
    )


def _path_of(attached: Any) -> Path:
    """Engines attach paths, `Attachment`s, or dicts with a path."""
    if isinstance(attached, Mapping):
        return Path(str(cast("Mapping[str, Any]", attached).get("path", "")))
    return Path(getattr(attached, "path", attached))
