"""A fake platform on loopback with one workspace, its token file, and a clock to move by hand."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from molecule_agent.testing import FakePlatform
from molecule_runtime.links import tokens
from molecule_runtime.links.platform_client import PlatformClient
from packages.runtime.tests.links.manual_time import ManualTime


@pytest.fixture(autouse=True)
def configs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The configuration directory; no token is known at the beginning."""
    monkeypatch.delenv("WORKSPACE_CONFIG_PATH", raising=False)
    monkeypatch.setenv("CONFIGS_DIR", str(tmp_path))
    tokens.clear_cache()
    yield tmp_path
    tokens.clear_cache()


@pytest.fixture
def platform() -> FakePlatform:
    return FakePlatform()


@pytest.fixture
def url(platform: FakePlatform) -> Iterator[str]:
    with platform.serve() as served:
        yield served


@pytest.fixture
def workspace_id(platform: FakePlatform) -> str:
    return platform.create_workspace("agent")


@pytest.fixture
def manual_time() -> ManualTime:
    return ManualTime()


@pytest.fixture
async def client(url: str, workspace_id: str, manual_time: ManualTime) -> AsyncIterator[PlatformClient]:
    """A client that knows no token yet."""
    made = PlatformClient(url, workspace_id, time_source=manual_time.source)
    yield made
    await made.close()


@pytest.fixture
async def registered(client: PlatformClient) -> PlatformClient:
    """The same, with a token of the platform."""
    answer = await client.register("", {"name": "agent"})
    tokens.save_token(answer.auth_token)
    return client
