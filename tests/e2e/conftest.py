"""Real processes and a real browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from molecule_platform.testing import servers
from scripts import live_platform
from scripts.live_platform import LivePlatform
from tests.e2e import browsing, workspaces
from tests.e2e.platform_process import PlatformProcess

PATIENCE_MS = 30_000
expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(params=["sqlite", "postgres"])
def process(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PlatformProcess]:
    """A platform process that is not started yet, on SQLite, and on PostgreSQL with NATS."""
    environment: dict[str, str] = {}
    if request.param == "postgres":
        environment["DATABASE_URL"] = request.getfixturevalue("postgres_database")
        environment["NATS_URL"] = request.getfixturevalue("nats_url")
    platform = PlatformProcess(servers.free_port(), tmp_path / "data", environment)
    yield platform
    if platform._process is not None:
        platform.stop()


@pytest.fixture(scope="session")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LivePlatform]:
    """A platform for the workspaces of many tests; nobody stops it."""
    data = tmp_path_factory.mktemp("live") / "data"
    with live_platform.running(data, "--no-demo", RATE_LIMIT="0", RATE_LIMIT_ANON="0") as running:
        yield running


@pytest.fixture(scope="session")
def echo(live: LivePlatform, tmp_path_factory: pytest.TempPathFactory) -> Iterator[workspaces.Member]:
    """A workspace with the engine `echo` that many tests talk to; nobody stops it."""
    with workspaces.member(live, tmp_path_factory.mktemp("shared") / "echo") as member:
        yield member


@pytest.fixture(scope="session")
def canvas_platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlatformProcess]:
    """A platform without a demo for tests of the canvas; nobody stops it."""
    process = PlatformProcess(servers.free_port(), tmp_path_factory.mktemp("canvas") / "data")
    process.start()
    yield process
    assert process.stop() == 0


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A real Chromium."""
    with browsing.chromium() as browser:
        yield browser


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page of its own, without a session."""
    context = browser.new_context(viewport={"width": 1360, "height": 820})
    context.set_default_timeout(PATIENCE_MS)
    yield context.new_page()
    context.close()
