"""The whole platform in one process, on both engines, driven through HTTP and the SDK.

Tests share a platform and have an organisation each. A test that needs a platform of its own takes the
fixture that says why: `restarting`, `first_org`, `replicated`, `configured` or `patched`.
"""

import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from molecule_platform.app import platform as app_platform
from molecule_platform.app import services as app_services
from molecule_platform.domain import messages, push
from molecule_platform.ports.provisioner import Provisioner
from molecule_platform.services.workspaces.provisioning import StartRules
from molecule_platform.testing import servers
from molecule_platform.web.pipeline.rate_limits import RateLimiter
from tests.spec import platforms
from tests.spec.platforms import UNHELD_SECONDS, Engine, Platform, Share, Start
from tests.spec.scripted_agent import ScriptedAgent


@pytest.fixture(params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest) -> Engine:
    """SQLite with the in-process bus, or PostgreSQL with NATS."""
    return request.param


# The platforms that are shared


@pytest.fixture(scope="session")
def share_for_all(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Share:
    """Gives the one platform of an engine with these settings, which stays open until the end."""
    return _sharing(request, tmp_path_factory)


@pytest.fixture(scope="module")
def share(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Share:
    """The same for the settings of one module: one that nobody asks costs a few hundredths of a core."""
    return _sharing(request, tmp_path_factory)


def _sharing(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Share:
    opened: dict[tuple[object, ...], Platform] = {}

    def get(engine: Engine, **flags: Any) -> Platform:
        key = (engine, *sorted(flags.items()))
        if key not in opened:
            exits, home, below = ExitStack(), tmp_path_factory.mktemp("shared"), dict[str, Any]()
            if engine == "postgres":
                server = request.getfixturevalue("postgres_url")
                pattern = request.getfixturevalue("postgres_pattern")
                below["DATABASE_URL"] = exits.enter_context(servers.fresh_database(server, pattern))
                below["NATS_URL"] = request.getfixturevalue("nats_url")
            else:
                _lay_database(home, request.getfixturevalue("empty_database"))
            # Said to the session or module now, after the servers were started: so it closes before they do.
            request.node.addfinalizer(exits.close)
            opened[key] = platforms.opened(home, {**below, **flags})
            exits.callback(opened[key].stop)
        return opened[key]

    return get


def _lay_database(home: Path, empty_database: Path) -> None:
    (home / "data").mkdir(mode=0o700)
    shutil.copy(empty_database, home / "data" / "molecule.db")


@pytest.fixture
def platform(
    share_for_all: Share, engine: Engine, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Platform]:
    """A new organisation on a platform with default settings, but a short hold.

    A test marked `unheld` lets the hold run out on purpose, and so gets a shorter one.
    """
    hold = UNHELD_SECONDS if request.node.get_closest_marker("unheld") else 1
    with share_for_all(engine, MOLECULE_A2A_HOLD_SECONDS=hold).new_org(tmp_path) as platform:
        yield platform


@pytest.fixture
def patient(share: Share, engine: Engine, tmp_path: Path) -> Iterator[Platform]:
    """The same, where a call is held until it is answered, however slow the machine is."""
    with share(engine, MOLECULE_A2A_HOLD_SECONDS=30).new_org(tmp_path) as platform:
        yield platform


@pytest.fixture
def pushing(share: Share, engine: Engine, tmp_path: Path) -> Iterator[Platform]:
    """A new organisation on a platform that calls webhooks on this machine."""
    with share(engine, MOLECULE_PUSH_ALLOW_PRIVATE=True).new_org(tmp_path) as platform:
        yield platform


# A platform of one's own


@pytest.fixture
def start(
    engine: Engine, tmp_path: Path, empty_database: Path, request: pytest.FixtureRequest
) -> Iterator[Start]:
    """Opens a platform; each call is another replica, or another life of the one that was stopped."""
    started: list[Platform] = []
    shared: dict[str, Any] = {}
    if engine == "postgres":
        shared["DATABASE_URL"] = request.getfixturevalue("postgres_database")
        shared["NATS_URL"] = request.getfixturevalue("nats_url")
    else:
        _lay_database(tmp_path, empty_database)

    def begin(provisioner: Provisioner | None = None, **flags: Any) -> Platform:
        started.append(platforms.opened(tmp_path, {**shared, **flags}, provisioner))
        return started[-1]

    yield begin
    for platform in started:
        platform.stop()


@pytest.fixture
def restarting(start: Start) -> Start:
    """Because the test stops its platform, and may start it again."""
    return start


@pytest.fixture
def first_org(start: Start) -> Platform:
    """Because the test is about the first organisation, to which the administrator belongs."""
    return start(MOLECULE_A2A_HOLD_SECONDS=1)


@pytest.fixture
def replicated(start: Start) -> Start:
    """Because the test has several replicas."""
    return start


@pytest.fixture
def configured(start: Start) -> Start:
    """Because the test sets limits or other settings that no other test wants."""
    return start


@pytest.fixture
def patched(start: Start) -> Start:
    """Because the test changes a constant or an adapter before the platform is built."""
    return start


@pytest.fixture
def agent() -> Iterator[ScriptedAgent]:
    """An agent with a URL."""
    scripted = ScriptedAgent()
    yield scripted
    scripted.close()


@pytest.fixture
def prompt_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed is tried again in a moment; how long it really takes is for the domain's own tests."""
    monkeypatch.setattr(messages, "MIN_RETRY_SECONDS", 0.05)
    monkeypatch.setattr(push, "FIRST_DELAYS", (0.05,) * 5)


@pytest.fixture
def prompt_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reasons to restart an agent are gathered for a moment only."""
    monkeypatch.setattr(app_services, "StartRules", partial(StartRules, coalesce_seconds=0.2))


@pytest.fixture
def still_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """No time passes for the limits: nothing may be asked again because the machine is slow."""
    now = time.time()
    monkeypatch.setattr(app_platform, "RateLimiter", partial(RateLimiter, now=lambda: now))
