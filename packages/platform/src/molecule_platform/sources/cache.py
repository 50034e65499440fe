"""The stock: every scheme under one roof, and each tree fetched, read and packed once."""

import asyncio
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from weakref import WeakValueDictionary

from molecule_platform.domain import plugins
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.workspaces import check_text, invalid
from molecule_platform.ports.plugin_sources import PluginSource, Resolved, SourceSpec, StagedPlugin
from molecule_platform.sources import tree_reader
from molecule_platform.sources.local import LocalSource
from molecule_plugin import digest, safe_paths
from molecule_plugin.digest import Form
from molecule_plugin.errors import PluginError
from molecule_plugin.limits import Limits

MAX_KEPT = 500
MAX_KEPT_BYTES = 4 * 1024**3
MAX_CONCURRENT = 4
# Longer than any fetch may take: whoever staged this was killed.
LEFT_SECONDS = 2 * 3600.0
MAX_CATALOGUE = 1000
_STAGING = "staging-"


class PluginTreeCache:
    """See `ports.plugin_sources.PluginStock`. What it keeps is private to the platform and may be lost."""

    def __init__(
        self, folder: Path, local: LocalSource, others: Sequence[PluginSource], limits: Limits, seconds: float
    ) -> None:
        self._folder = folder
        self._local = local
        self._sources: dict[str, PluginSource] = {one.scheme: one for one in (*others, local)}
        self._limits = limits
        self._seconds = seconds
        self._busy: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._turns = asyncio.Semaphore(MAX_CONCURRENT)

    @property
    def schemes(self) -> list[str]:
        """The schemes that are served."""
        return sorted(self._sources)

    def parse(self, text: str) -> SourceSpec:
        """Read a source of any scheme."""
        check_text("source", text, plugins.MAX_SOURCE_LENGTH)
        scheme, separator, _ = text.partition("://")
        source = self._sources.get(scheme if separator else self._local.scheme)
        if source is None:
            known = ", ".join(self.schemes)
            refusal = invalid("source", f"plugins come from {known}, not from {scheme[:40]!r}")
            refusal.extras["available_schemes"] = [*self.schemes]
            raise refusal
        return source.parse(text)

    async def resolve(self, spec: SourceSpec) -> Resolved:
        """Find the tree that a source stands for now."""
        try:
            async with asyncio.timeout(self._seconds):
                return await self._sources[spec.scheme].resolve(spec)
        except (OSError, PluginError) as problem:
            raise self._refusal(spec, problem) from problem

    async def staged(self, resolved: Resolved) -> StagedPlugin:
        """What is kept of the tree, or what is fetched of it now."""
        key = hashlib.sha256(f"{resolved.spec.scheme}\0{resolved.mark}".encode()).hexdigest()
        busy = self._busy.get(key)
        if busy is None:
            busy = self._busy[key] = asyncio.Lock()
        async with busy:
            home = self._folder / key
            found = await asyncio.to_thread(_used, home)
            if found is None:
                async with self._turns:
                    found = await self._fetched(home, resolved)
        return replace(found, source=resolved.spec.text, resolved=resolved.pinned)

    async def _fetched(self, home: Path, resolved: Resolved) -> StagedPlugin:
        staging = await asyncio.to_thread(_new_staging, self._folder)
        try:
            await self._fill(staging, resolved)
            return await asyncio.to_thread(_keep, staging, home)
        finally:
            await asyncio.to_thread(shutil.rmtree, staging, ignore_errors=True)

    async def _fill(self, staging: Path, resolved: Resolved) -> None:
        deadline = asyncio.get_running_loop().time() + self._seconds
        source, tree = self._sources[resolved.spec.scheme], staging / tree_reader.TREE
        try:
            async with asyncio.timeout_at(deadline):
                await source.fetch(resolved, tree, self._limits, deadline)
                await asyncio.to_thread(tree_reader.read, staging, resolved.name_hint, self._limits)
        except (OSError, PluginError) as problem:
            raise self._refusal(resolved.spec, problem) from problem

    async def matched(self, staged: StagedPlugin, expected: str) -> Form | None:
        """Which digest of a plugin `expected` is."""
        try:
            return await asyncio.to_thread(digest.matched_form, staged.tree, staged.archive_sha256, expected)
        except ValueError as problem:
            raise invalid("sha256", str(problem)) from problem

    async def catalogue(self) -> list[StagedPlugin]:
        """The platform's own plugins."""
        found: list[StagedPlugin] = []
        for name in (await asyncio.to_thread(self._local.names))[:MAX_CATALOGUE]:
            with suppress(ApiError):
                found.append(await self.staged(await self.resolve(self._local.parse(name))))
        return [one for one in found if one.source == f"local://{one.name}"]

    def _refusal(self, spec: SourceSpec, problem: OSError | PluginError) -> ApiError:
        if isinstance(problem, PluginError):
            return plugins.refusal_of(problem)
        if isinstance(problem, TimeoutError):
            sentence = f"{spec.text} did not arrive within {self._seconds:g} seconds: try again later"
            return ApiError("deadline-exceeded", sentence)
        return ApiError(
            "fetch-failed", f"{spec.text} could not be read: {problem.strerror or 'a fault of I/O'}"
        )


def _used(home: Path) -> StagedPlugin | None:
    found = tree_reader.kept(home)
    if found is not None:
        with suppress(OSError):
            os.utime(home)
    return found


def _new_staging(folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=_STAGING, dir=folder))
    (staging / tree_reader.TREE).mkdir(mode=0o700)
    return staging


def _keep(staging: Path, home: Path) -> StagedPlugin:
    """Put what was read in its place for good, where another process may have been quicker."""
    for left in staging.iterdir():
        if left.name not in tree_reader.KEPT:
            safe_paths.remove(left)
    if tree_reader.kept(home) is None:
        shutil.rmtree(home, ignore_errors=True)
        staging.rename(home)
    _forget_the_oldest(home.parent)
    found = tree_reader.kept(home)
    assert found is not None
    return found


def _used_at(home: Path) -> float:
    """When a tree was last used; never, if somebody else has moved or removed it meanwhile."""
    try:
        return home.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _forget_the_oldest(folder: Path) -> None:
    """Keep so many trees and so many bytes, of what was used last; sweep what a killed process left."""
    homes = sorted(((_used_at(home), home) for home in folder.iterdir()), reverse=True)
    now, size = time.time(), 0
    for place, (used, home) in enumerate(homes):
        if home.name.startswith(_STAGING):
            is_old = now - used > LEFT_SECONDS
        else:
            size += tree_reader.room_of(home)
            is_old = place > 0 and (place >= MAX_KEPT or size > MAX_KEPT_BYTES)
        if is_old:
            shutil.rmtree(home, ignore_errors=True)
