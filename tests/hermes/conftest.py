"""One real gateway for the tests of a worker, with a scripted model behind it."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from molecule_runtime.kit.setup.adapter import AdapterConfig
from molecule_runtime.runtimes.hermes.errors import HermesError
from molecule_runtime.runtimes.hermes.executor import HermesAgentProxyExecutor
from molecule_runtime.runtimes.hermes.installation import find_hermes
from molecule_runtime.testing.scripted_model import ScriptedModel, recall
from molecule_wire.engines import DIRECTORY_VARIABLE
from scripts import repository
from tests.hermes.bridges import Bridge
from tests.hermes.callers import Caller
from tests.hermes.gateway_process import CANARIES, GatewayProcess

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


@pytest.fixture(autouse=True)
def _plain_model(model: ScriptedModel) -> Iterator[None]:
    """No test finds the script of another one, whichever comes first in its worker."""
    yield
    model.script = recall


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


@pytest.fixture
async def bridges(
    caller: Caller, gateway: GatewayProcess, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[list[Bridge]]:
    """A bridge for each transport, to the gateway that all tests share. `caller` has warmed it."""
    monkeypatch.setenv("HERMES_API_BASE", f"http://127.0.0.1:{gateway.api_port}/v1")
    monkeypatch.setenv("API_SERVER_KEY", CANARIES["API_SERVER_KEY"])
    monkeypatch.setenv("MOLECULE_A2A_PLATFORM_PORT", str(gateway.plugin_port))
    monkeypatch.setenv("MOLECULE_A2A_PLATFORM_SHARED_SECRET", gateway.secret)
    monkeypatch.setenv("MOLECULE_A2A_CALLBACK_PORT", "0")
    made = list[Bridge]()
    for transport in ("chat", "plugin"):
        monkeypatch.setenv("MOLECULE_A2A_PLATFORM_ENABLED", str(transport == "plugin"))
        executor = HermesAgentProxyExecutor(AdapterConfig(model="scripted", workspace_id="bridge"))
        await executor.start()
        made.append(Bridge(transport, executor))
    yield made
    for bridge in made:
        await bridge.executor.stop()
