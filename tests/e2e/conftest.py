"""Real processes and a real browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from molecule_platform.testing import servers
from tests.e2e.platform_process import PlatformProcess


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
