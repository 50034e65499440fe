"""A folder of plugins, a GitHub on this machine, and the stock over both."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from molecule_platform.egress import guard
from molecule_platform.egress.connector import Outbound
from molecule_platform.sources.cache import PluginTreeCache
from molecule_platform.sources.github import GitHubSource
from molecule_platform.sources.local import LocalSource
from molecule_platform.testing.github import GitHub, github
from molecule_plugin.limits import LIMITS

SMALL = replace(LIMITS, archive_bytes=200_000, tree_bytes=200_000, file_bytes=100_000, entries=50)
TOKEN = "ghp-a-token-of-ours"


@dataclass
class Shelf:
    """The stock, and what lies behind it."""

    stock: PluginTreeCache
    local: LocalSource
    hub: GitHubSource
    folder: Path
    kept: Path

    def put(self, name: str, files: Mapping[str, bytes]) -> Path:
        """A plugin in the platform's own folder."""
        for path, content in files.items():
            place = self.folder / name / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        return self.folder / name

    def leftovers(self) -> list[str]:
        """What is in the stock besides whole plugins."""
        found = [] if not self.kept.exists() else [home.name for home in self.kept.iterdir()]
        return [name for name in found if len(name) != 64]


@pytest.fixture(scope="session")
def hub_server() -> Iterator[GitHub]:
    """One server for all tests."""
    with github() as server:
        yield server


@pytest.fixture
def hub(hub_server: GitHub) -> GitHub:
    """A GitHub of one's own: it knows nothing yet."""
    for name, value in vars(GitHub(hub_server.url)).items():
        setattr(hub_server, name, value)
    return hub_server


@pytest.fixture
async def shelf(tmp_path: Path, hub: GitHub) -> AsyncIterator[Shelf]:
    """A stock with both sources and small limits."""
    outbound = Outbound(guard.agent_policy(("loopback",)))
    local, source = LocalSource(tmp_path / "plugins", SMALL), GitHubSource(outbound, hub.url, TOKEN)
    stock = PluginTreeCache(tmp_path / "stock", local, (source,), SMALL, 20.0)
    yield Shelf(stock, local, source, tmp_path / "plugins", tmp_path / "stock")
    await outbound.close()


@pytest.fixture(scope="session")
def demo() -> Callable[..., dict[str, bytes]]:
    """The files of a small plugin."""

    def make(name: str = "demo", version: str = "1.0.0", **files: bytes) -> dict[str, bytes]:
        manifest = f"name: {name}\nversion: {version}\n".encode()
        return {"plugin.yaml": manifest, "a.txt": b"hello\n", **files}

    return make
