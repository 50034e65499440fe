"""`local://name`: the plugins that the operator put into the platform's own folder."""

import asyncio
import hashlib
import os
import stat
from pathlib import Path

from molecule_platform.domain import plugins
from molecule_platform.domain.errors import ApiError
from molecule_platform.ports.plugin_sources import Resolved, SourceSpec
from molecule_plugin import file_tree, file_writer, names
from molecule_plugin.limits import Limits

PREFIX = "local://"


class LocalSource:
    """See `ports.plugin_sources.PluginSource`."""

    scheme = "local"

    def __init__(self, folder: Path, limits: Limits) -> None:
        self._folder = folder
        self._limits = limits

    def parse(self, text: str) -> SourceSpec:
        """A name, with or without the scheme."""
        name = plugins.named(text.removeprefix(PREFIX))
        return SourceSpec(self.scheme, f"{PREFIX}{name}", name)

    async def resolve(self, spec: SourceSpec) -> Resolved:
        """The folder as it is now."""
        mark = await asyncio.to_thread(self._mark, spec.name_hint)
        return Resolved(spec, spec.text, spec.name_hint, "folder", mark)

    async def fetch(self, resolved: Resolved, dest: Path, limits: Limits, deadline: float) -> None:
        """Copy the folder, so that nothing changes between looking at it and packing it."""
        name = resolved.name_hint
        await asyncio.to_thread(file_writer.copy_tree, self._place(name), dest)
        if await asyncio.to_thread(self._mark, name) != resolved.mark:
            raise ApiError("conflict", f"the plugin {name} changed while it was read: try again")

    def names(self) -> list[str]:
        """The plugins in the folder, sorted; hidden entries and what is no plugin's name do not count."""
        try:
            with os.scandir(self._folder) as found:
                return sorted(one.name for one in found if one.is_dir(follow_symlinks=False) and _is_one(one))
        except FileNotFoundError:
            return []

    def _place(self, name: str) -> Path:
        place = self._folder / plugins.named(name)
        try:
            found = place.lstat()
        except OSError:
            found = None
        if found is None or not stat.S_ISDIR(found.st_mode):
            raise ApiError(
                "not-found", f"the platform has no plugin {name}: `GET /plugins` lists those it has"
            )
        return place

    def _mark(self, name: str) -> str:
        """Different whenever anything in the folder may be."""
        place, digest = self._place(name), hashlib.sha256(name.encode())
        for file in file_tree.check_tree(place, self._limits):
            found = os.lstat(place / file.path)
            facts = (found.st_size, found.st_mode, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
            digest.update(f"\0{file.path}\0{facts}".encode())
        return digest.hexdigest()


def _is_one(entry: "os.DirEntry[str]") -> bool:
    return names.is_name(entry.name)
