"""One real gateway for the tests of a worker, with a scripted model behind it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from molecule_runtime.runtimes.hermes.errors import HermesError
from molecule_runtime.runtimes.hermes.installation import find_hermes
from molecule_runtime.testing.scripted_model import ScriptedModel
from molecule_wire.engines import DIRECTORY_VARIABLE
from scripts import repository
from tests.hermes.callers import Caller
from tests.hermes.gateway_process import GatewayProcess

USER_CONFIG = """
agent: {max_turns: 7}
model: {default: mine, context_length: 70000}
streaming: {enabled: true}
"""


@pytest.fixture(scope="session")
def hermes_executable() -> Path:
    """The real hermes, where the runtime itself would find it."""
    try:
        return find_hermes({DIRECTORY_VARIABLE: str(repository.ROOT / ".engines"), **os.environ})
    except HermesError as problem:
        pytest.skip(f"no real hermes to test with: {problem}")


@pytest.fixture(scope="session")
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def gateway(
    hermes_executable: Path, model: ScriptedModel, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayProcess]:
    """A gateway in a fresh home, which has settings of a user in it."""
    process = GatewayProcess(tmp_path_factory.mktemp("gateway"), hermes_executable, model.base_url)
    process.home.mkdir()
    (process.home / "config.yaml").write_text(USER_CONFIG)
    process.start()
    yield process
    process.stop()


@pytest.fixture(scope="session")
def caller(gateway: GatewayProcess) -> Iterator[Caller]:
    """The runtime's side. The first turn of a process takes seconds; it is over when a test begins."""
    with Caller(gateway.plugin_url, gateway.secret) as side:
        assert "hello-warm-up" in side.ask("warm-up", "hello-warm-up", 90)
        yield side
