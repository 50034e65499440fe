"""The whole house in one process, on both engines, driven through HTTP and the SDK."""

import shutil
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from molecule_platform.api.limits import Limits
from molecule_platform.app import house
from molecule_platform.ports.provisioner import Provisioner
from molecule_platform.testing import servers
from tests.spec.house import Engine, Platform, Running, Start
from tests.spec.scripted_agent import ScriptedAgent

# Tests are faster than agents; those of the limits set them.
UNLIMITED = {"RATE_LIMIT": 0, "RATE_LIMIT_ANON": 0}


@pytest.fixture(params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest) -> Engine:
    """SQLite with the in-process bus, or PostgreSQL with NATS."""
    return request.param


@pytest.fixture
def start(engine: Engine, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Start]:
    """Opens a house; each call is another replica, or another life of the one that was stopped."""
    platforms: list[Platform] = []
    shared: dict[str, Any] = {"MOLECULE_DATA_DIR": tmp_path / "data", **UNLIMITED}
    if engine == "postgres":
        shared["DATABASE_URL"] = request.getfixturevalue("postgres_database")
        shared["NATS_URL"] = request.getfixturevalue("nats_url")
    else:
        (tmp_path / "data").mkdir(mode=0o700)
        shutil.copy(request.getfixturevalue("empty_database"), tmp_path / "data" / "molecule.db")

    def begin(provisioner: Provisioner | None = None, **flags: Any) -> Platform:
        port = servers.free_port()
        running = Running({**shared, "PORT": port, **flags}, provisioner)
        running.start()
        token = (tmp_path / "data" / "admin.token").read_text().strip()
        url = f"http://127.0.0.1:{port}"
        platforms.append(Platform(running, url, token, tmp_path / "data", tmp_path / "homes"))
        return platforms[-1]

    yield begin
    for platform in platforms:
        platform.stop()


@pytest.fixture
def agent() -> Iterator[ScriptedAgent]:
    """An agent with a URL."""
    scripted = ScriptedAgent()
    yield scripted
    scripted.close()


@pytest.fixture
def platform(start: Start) -> Platform:
    """A house with default settings, but a short hold."""
    return start(MOLECULE_A2A_HOLD_SECONDS=1)


@pytest.fixture
def patient(start: Start) -> Platform:
    """A house that holds a call until it is answered, however slow the machine is."""
    return start(MOLECULE_A2A_HOLD_SECONDS=30)


@pytest.fixture
def still_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """No time passes for the limits: nothing may be asked again because the machine is slow."""
    now = time.time()
    monkeypatch.setattr(house, "Limits", partial(Limits, now=lambda: now))
