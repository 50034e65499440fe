"""Unpacking a repository's archive: the one folder it holds, or a folder of that."""

import os
import stat
import tarfile
from pathlib import Path

from molecule_platform.domain.errors import ApiError
from molecule_plugin import archive
from molecule_plugin.limits import Limits


def unpack(packed: Path, dest: Path, sub: str, limits: Limits) -> None:
    """Put what the archive holds at `/<its one folder><sub>` into the place of `dest`, which is empty.

    Nothing is written unless the whole archive keeps the rules. A link in the plugin is refused; one
    elsewhere in the repository is not our business and is left out.
    """
    whole = dest.with_name(f"{dest.name}.whole")
    whole.mkdir(mode=0o700)
    archive.safe_extract(packed, whole, limits)
    root = _only_folder(whole)
    _refuse_links(packed, f"{root}{sub}/")
    found = _inside(whole, f"{root}{sub}")
    dest.rmdir()
    found.rename(dest)


def _only_folder(whole: Path) -> str:
    names = os.listdir(whole)
    if len(names) != 1 or not stat.S_ISDIR((whole / names[0]).lstat().st_mode):
        raise ApiError(
            "unsafe-archive", "the archive of a repository holds one folder, and this one does not"
        )
    return names[0]


def _inside(whole: Path, path: str) -> Path:
    """The folder at a path of an unpacked tree, in which no link is left to follow."""
    place = whole / path
    if not place.is_dir():
        raise ApiError("not-found", f"the repository has no folder {path.partition('/')[2]} at this commit")
    return place


def _refuse_links(packed: Path, below: str) -> None:
    with tarfile.open(packed, "r:gz") as archived:
        for member in archived:
            path = os.path.normpath(member.name)
            if (member.issym() or member.islnk()) and path.startswith(below):
                inside = path.removeprefix(below)
                raise ApiError(
                    "unsafe-archive", f"{inside!r} is a link: a plugin holds only files and folders"
                )
