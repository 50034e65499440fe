"""The fixtures: a clean environment, and gateways that the environment names."""

from collections.abc import AsyncIterator, Iterator

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from molecule_runtime.kit.state import engine_health, known_secrets
from packages.runtime.tests.runtimes.hermes.gateways import ChatGateway, PluginGateway, served

VARIABLES = (
    "MOLECULE_A2A_PLATFORM_ENABLED",
    "MOLECULE_A2A_PLATFORM_HOST",
    "MOLECULE_A2A_PLATFORM_PORT",
    "MOLECULE_A2A_PLATFORM_SHARED_SECRET",
    "MOLECULE_A2A_CALLBACK_HOST",
    "MOLECULE_A2A_CALLBACK_PORT",
    "HERMES_API_BASE",
    "HERMES_STREAM",
    "HERMES_REQUEST_TIMEOUT_SEC",
    "API_SERVER_KEY",
)


@pytest.fixture(autouse=True)
def clean_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing of the environment, or of the test before, is seen."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    engine_health.reset_for_test()
    known_secrets.reset_for_test()
    yield
    engine_health.reset_for_test()


class Current:
    """The gateways of the running test, behind the servers of its module: to start one takes a tenth."""

    chat: ChatGateway
    plugin: PluginGateway

    def __init__(self) -> None:
        self.port = 0

    async def handle(self, request: Request) -> Response:
        handlers = {
            "/v1/chat/completions": lambda: self.chat.chat(request),
            "/v1/capabilities": lambda: self.chat.capabilities(request),
            "/a2a/inbound": lambda: self.plugin.inbound(request),
            "/a2a/cancel": lambda: self.plugin.cancel(request),
            "/a2a/health": lambda: self.plugin.health(request),
        }
        return await handlers.get(request.url.path, lambda: self.chat.messages(request))()


@pytest.fixture(scope="module")
async def current() -> AsyncIterator[Current]:
    gateways = Current()
    async with served([Route("/{path:path}", gateways.handle, methods=["GET", "POST"])]) as port:
        gateways.port = port
        yield gateways


@pytest.fixture
def chat_gateway(current: Current, monkeypatch: pytest.MonkeyPatch) -> ChatGateway:
    gateway = current.chat = ChatGateway(f"http://127.0.0.1:{current.port}/v1")
    monkeypatch.setenv("HERMES_API_BASE", gateway.base)
    return gateway


@pytest.fixture
def plugin_gateway(current: Current, monkeypatch: pytest.MonkeyPatch) -> PluginGateway:
    gateway = current.plugin = PluginGateway(current.port)
    monkeypatch.setenv("MOLECULE_A2A_PLATFORM_ENABLED", "true")
    monkeypatch.setenv("MOLECULE_A2A_PLATFORM_PORT", str(gateway.port))
    monkeypatch.setenv("MOLECULE_A2A_CALLBACK_PORT", "0")
    return gateway
