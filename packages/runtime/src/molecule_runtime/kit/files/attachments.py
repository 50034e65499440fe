"""Inbound attachments: the files of a message, as paths in the work folder that an engine may open.

A part may be a 1.0 part (`url` or `raw`), a 0.3 part (`file.uri` or `file.bytes`), or an object of the
a2a-sdk with members of these names. What leads out of the work folder is ignored, with a warning.
"""

import base64
import binascii
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, cast
from urllib.parse import unquote, urlsplit

from molecule_runtime.domain.turns import Attachment
from molecule_runtime.kit.files.atomic_files import read_limited
from molecule_runtime.kit.files.chat_uploads import (
    MAX_FILE_BYTES,
    WORKSPACE_MOUNT,
    inside,
    mime_type_of,
    save_upload,
    work_dir,
)

MAX_INLINE_ATTACHMENT_BYTES = 8 * 1024 * 1024

Download: TypeAlias = Callable[[str], bytes | None]
"""Fetches an upload of the platform with the workspace's credentials; None for a URL that is none."""

_TRUE = ("1", "true", "yes", "on")

_log = logging.getLogger(__name__)


def attachments_of(
    message: Any, *, work: Path | None = None, download: Download | None = None
) -> list[Attachment]:
    """The files of a message (or of a request context, or of a list of parts) that exist, in order."""
    folder = work or work_dir()
    found = list[Attachment]()
    for part in _parts(message):
        attachment = _attachment(part, folder, download)
        if attachment is not None:
            found.append(attachment)
    return found


def extract_attached_files(
    message: Any, *, work: Path | None = None, download: Download | None = None
) -> list[dict[str, str]]:
    """The same as dicts with `name`, `mime_type` and `path`."""
    return [
        {"name": one.name, "mime_type": one.mime_type, "path": str(one.path)}
        for one in attachments_of(message, work=work, download=download)
    ]


def resolve_attachment_uri(uri: str, *, work: Path | None = None) -> str | None:
    """The path of a `workspace:`, `file:` or plain path URI, if it is a file in the work folder.

    `/workspace` stands for the work folder, wherever that is.
    """
    folder = work or work_dir()
    named = _named_path(uri)
    if named is None:
        return None
    # A name may have a real `%20` in it; the decoded name is tried second.
    for spelling in dict.fromkeys((named, unquote(named))):
        path = inside(_placed(spelling, folder), folder)
        if path is None:
            _log.warning("Attachment ignored: %.200r leads out of the work folder", uri)
            return None
        if path.is_file():
            return str(path)
    _log.warning("Attachment ignored: there is no file %.200r", uri)
    return None


def manifest(attached: Iterable[Mapping[str, Any] | Attachment]) -> str:
    """The list of files that an engine reads as text; empty without files."""
    lines = [f"- {_get(one, 'name')} ({_get(one, 'mime_type')}) at {_get(one, 'path')}" for one in attached]
    return "\n".join(["Attached files:", *lines]) if lines else ""


def build_user_content_with_files(
    text: str,
    attached: Iterable[Mapping[str, Any] | Attachment],
    *,
    environ: Mapping[str, str] | None = None,
) -> str | list[dict[str, Any]]:
    """The text with its manifest, or a list of content blocks if there are images to inline."""
    files = list(attached)
    content = "\n\n".join(piece for piece in (text, manifest(files)) if piece)
    environ = os.environ if environ is None else environ
    if environ.get("MOLECULE_DISABLE_IMAGE_INLINING", "").strip().lower() in _TRUE:
        return content
    images = [url for url in map(image_data_url, files) if url]
    if not images:
        return content
    blocks: list[dict[str, Any]] = [{"type": "text", "text": content}]
    return blocks + [{"type": "image_url", "image_url": {"url": url}} for url in images]


def image_data_url(attached: Mapping[str, Any] | Attachment) -> str | None:
    """An image of at most 8 MiB as a data URL; None for anything else."""
    mime_type, path = str(_get(attached, "mime_type")), _get(attached, "path")
    if not mime_type.startswith("image/"):
        return None
    try:
        data = read_limited(path, MAX_INLINE_ATTACHMENT_BYTES)
    except OSError:
        return None
    return f"data:{mime_type};base64,{base64.b64encode(data).decode()}"


def _attachment(part: Any, work: Path, download: Download | None) -> Attachment | None:
    root = _get(part, "root") or part
    file = _get(root, "file") or root
    uri, raw = _get(file, "url", "uri"), _get(file, "raw", "bytes")
    name = _get(file, "filename", "name")
    mime_type = _get(file, "mediaType", "media_type", "mimeType", "mime_type")
    if isinstance(uri, str) and uri:
        return _from_uri(uri, name, mime_type, work, download)
    if isinstance(raw, str | bytes) and raw:
        return _from_bytes(raw, name, mime_type, work)
    return None


def _from_uri(
    uri: str, name: Any, mime_type: Any, work: Path, download: Download | None
) -> Attachment | None:
    scheme = urlsplit(uri).scheme.lower() if "://" in uri[:12] else ""
    if scheme not in ("http", "https"):
        path = resolve_attachment_uri(uri, work=work)
        return _described(Path(path), name, mime_type) if path else None
    data = download(uri) if download else None
    if data is None:
        _log.warning("Attachment ignored: no upload of the platform: %.200r", uri.partition("?")[0])
        return None
    name = name or unquote(urlsplit(uri).path.rstrip("/").rpartition("/")[2])
    path = save_upload(str(name or "file"), data, work)
    return _described(path, name, mime_type) if path else None


def _from_bytes(raw: str | bytes, name: Any, mime_type: Any, work: Path) -> Attachment | None:
    if isinstance(raw, str):
        if len(raw) > MAX_FILE_BYTES * 4 // 3 + 4:
            _log.warning("Attachment ignored: it has more than %d bytes", MAX_FILE_BYTES)
            return None
        try:
            # Senders use either alphabet, with and without padding.
            plain = raw.translate(str.maketrans("-_", "+/")).rstrip("=")
            raw = base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
        except (ValueError, binascii.Error):
            _log.warning("Attachment ignored: its bytes are no base64")
            return None
    path = save_upload(str(name or "file"), raw, work)
    return _described(path, name, mime_type) if path else None


def _described(path: Path, name: Any, mime_type: Any) -> Attachment:
    """The name is shown to a model line by line: it has no line breaks, and no folder."""
    raw_name = name if isinstance(name, str) else ""
    display_name = (
        "".join(filter(str.isprintable, raw_name.replace("\\", "/").rpartition("/")[2]))[:200] or path.name
    )
    return Attachment(display_name, mime_type_of(display_name, mime_type), path, path.stat().st_size)


def _named_path(uri: str) -> str | None:
    if uri.startswith("workspace:"):
        return uri.removeprefix("workspace:")
    if uri.startswith("file:"):
        parts = urlsplit(uri)
        if parts.netloc not in ("", "localhost"):
            _log.warning("Attachment ignored: %.200r is on another host", uri)
            return None
        return unquote(parts.path)
    if uri.startswith("/"):
        return uri
    _log.warning("Attachment ignored: unknown kind of URI %.200r", uri)
    return None


def _placed(named: str, work: Path) -> Path:
    """The path that is meant; a relative one lies in the work folder."""
    path = Path(named)
    mount = Path(WORKSPACE_MOUNT)
    if path.is_relative_to(mount) and not work.is_relative_to(mount):
        return work / path.relative_to(mount)
    return work / path


def _parts(message: Any) -> list[Any]:
    if isinstance(message, list | tuple):
        return list(cast("list[Any]", message))
    inner = _get(message, "message") or message
    parts = _get(inner, "parts")
    return list(parts) if parts is not None else []


def _get(holder: Any, *names: str) -> Any:
    """The first member with a value, of a dict or of an object."""
    for name in names:
        if isinstance(holder, Mapping):
            held = cast("Mapping[str, Any]", holder).get(name)
        else:
            held = getattr(holder, name, None)
        if held:
            return held
    return None
