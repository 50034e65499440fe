"""The adapter of hermes: it waits for a gateway, or starts one, and bridges turns to it."""

import asyncio
import logging
import os
import time
from dataclasses import replace
from typing import Any

from molecule_runtime.kit.setup.adapter import AdapterConfig, BaseAdapter, RuntimeCapabilities
from molecule_runtime.kit.setup.common_setup import built_in_tools
from molecule_runtime.kit.tools.tool_set import ToolSet
from molecule_runtime.runtimes.hermes import health_checks, selftest_file
from molecule_runtime.runtimes.hermes.errors import HermesError
from molecule_runtime.runtimes.hermes.executor import HermesAgentProxyExecutor
from molecule_runtime.runtimes.hermes.gateway import Gateway
from molecule_runtime.runtimes.hermes.gateway_settings import GatewaySettings
from molecule_runtime.runtimes.hermes.installation import find_hermes
from molecule_runtime.runtimes.hermes.model_choice import PROVIDER_KEYS
from molecule_runtime.runtimes.hermes.settings import bool_env
from molecule_runtime.runtimes.hermes.tools_endpoint import ToolsAddress, ToolsEndpoint, new_token
from molecule_runtime.runtimes.hermes.tools_server import TOKEN_VARIABLE, URL_VARIABLE

IDLE_SECONDS = 900
DEFAULT_BUDGET_SECONDS, MIN_BUDGET_SECONDS = 120, 5
PROBE_INTERVAL_SECONDS = 2.0

_NO_GATEWAY = (
    "Is the gateway running? `molecule runtime install hermes` installs one that the workspace starts itself."
)
_NO_PLUGIN = (
    "The gateway is up, but plugin molecule-a2a not loaded. Check, for the user that runs hermes: the folder "
    "plugins/molecule-a2a in its HERMES_HOME; molecule-a2a in plugins.enabled of its config.yaml; the stanza "
    "platforms.molecule-a2a there."
)

log = logging.getLogger(__name__)


class HermesAgentAdapter(BaseAdapter):
    """Runs turns on hermes. A gateway that is named by `HERMES_API_BASE`, or answers already, is used as it
    is; else the installed hermes is started, and stopped with the workspace.
    """

    def __init__(self) -> None:
        self._gateway: Gateway | None = None
        self._tools: ToolsEndpoint | None = None
        self._is_on_chat_instead = False

    @staticmethod
    def name() -> str:
        """The runtime id."""
        return "hermes"

    @staticmethod
    def display_name() -> str:
        """The name for people."""
        return "Hermes Agent (Nous Research)"

    @staticmethod
    def description() -> str:
        """One line."""
        return "Bridges each turn to a hermes-agent gateway, with one lasting session per conversation."

    @staticmethod
    def get_config_schema() -> dict[str, Any]:
        """What `runtime_config` may say."""
        return {
            "type": "object",
            "properties": {
                "provider_url": {"type": "string", "description": "URL of the model's API"},
                "api_mode": {"type": "string", "description": "protocol of the model's API"},
                "hermes_api": {"enum": ["chat", "runs"], "default": "chat"},
                "hermes_profile": {"type": "string", "description": "profile of hermes to run"},
                "max_concurrent_turns": {"type": "integer", "minimum": 1, "default": 4},
                "timeout": {"type": "integer", "minimum": 0, "description": "seconds of a turn; 0 for none"},
            },
        }

    def capabilities(self) -> RuntimeCapabilities:
        """Hermes keeps its sessions itself."""
        return RuntimeCapabilities(provides_native_session=True)

    def idle_timeout_override(self) -> int | None:
        """A turn may be silent for as long as hermes works without a word."""
        return IDLE_SECONDS

    def memory_filename(self) -> str:
        """Where plugins write what the agent shall remember."""
        return "AGENTS.md"

    async def setup(self, config: AdapterConfig) -> None:
        """Wait until the gateway takes turns. Raises RuntimeError that says what is missing."""
        if config.smoke:
            return
        present = [name for name in ("API_SERVER_KEY", *PROVIDER_KEYS) if os.environ.get(name, "").strip()]
        log.info("hermes: variables with keys that are set: %s", ", ".join(present) or "none")
        if await self._needs_gateway():
            await self._start_gateway(config)
        elif (url := os.environ.get(URL_VARIABLE, "")) and (token := os.environ.get(TOKEN_VARIABLE, "")):
            await self._offer_tools(config, token, url)
        if self._uses_plugin() and (reason := await selftest_file.unproven_reason(os.environ)):
            log.warning("hermes' plugin path is not proven here: %s; run `%s`", reason, selftest_file.COMMAND)
        await self._wait(_budget())

    async def create_executor(self, config: AdapterConfig) -> HermesAgentProxyExecutor:
        """The bridge, with its reply server where the plugin is used."""
        await self._common_setup(config)
        executor = HermesAgentProxyExecutor(config, adapter=self)
        if self._is_on_chat_instead:
            executor._use_plugin = False
            if config.heartbeat is not None:
                config.heartbeat.runtime_state = "degraded"
        self._executor = executor
        await executor.start()
        if not config.smoke:
            await executor.probe()
        return executor

    async def transcript_lines(self, since: int = 0, limit: int = 100) -> dict[str, Any]:
        """The messages of the last session as hermes keeps them, where it tells them."""
        rows = await super().transcript_lines(since, limit)
        executor: HermesAgentProxyExecutor | None = self._executor
        if executor is None or not executor._session_id:
            return rows
        session = executor._session_id
        found = await health_checks.session_messages(
            executor._base, executor._build_chat_completions_headers(), session
        )
        if found is None:
            return rows
        page = found[since : since + max(0, min(limit, 1000))]
        return {
            **rows,
            "supported": True,
            "lines": page,
            "cursor": since + len(page),
            "more": since + len(page) < len(found),
            "source": f"hermes:{session}",
        }

    async def health(self) -> dict[str, Any]:
        """Whether the gateway, or its plugin, answers now."""
        problem = await health_checks.problem_at(self._health_url())
        reason = f"hermes-agent surface not reachable at {self._health_url()}: {problem}"
        return {"ok": True} if not problem else {"ok": False, "reason": reason}

    async def close(self) -> None:
        """Stop the bridge, then the gateway, if it is ours."""
        if self._executor is not None:
            await self._executor.stop()
        if self._gateway is not None:
            await self._gateway.stop()
        if self._tools is not None:
            await self._tools.stop()

    # The gateway

    @property
    def gateway(self) -> Gateway | None:
        """The gateway that this workspace started; None where it uses another one."""
        return self._gateway

    async def _needs_gateway(self) -> bool:
        """Whether a gateway has to be started: nobody named one, none answers, and hermes is installed."""
        if os.environ.get("HERMES_API_BASE", "").strip() or not await health_checks.problem_at(
            _gateway_url()
        ):
            return False
        try:
            find_hermes()
        except HermesError:
            return False
        return True

    async def _start_gateway(self, config: AdapterConfig) -> None:
        settings = GatewaySettings.read(await selftest_file.with_proven_default(os.environ), config.model)
        if settings.bridge_tools:
            token = new_token()
            settings = replace(settings, tools=ToolsAddress(await self._offer_tools(config, token), token))
        self._gateway = Gateway(settings)
        await self._gateway.start()
        # The executor, and whoever else asks the gateway in this process, reads them from there.
        os.environ.update(self._gateway.settings.for_runtime())

    async def _offer_tools(self, config: AdapterConfig, token: str, url: str = "http://127.0.0.1:0") -> str:
        """Serve the workspace's tools to hermes, which lists them while it starts; the URL."""
        self._tools = ToolsEndpoint(ToolSet(built_in_tools(config, config.platform, ())), token)
        return await self._tools.listen(url)

    async def _wait(self, budget: float) -> None:
        """Wait for the health of what turns are sent to."""
        url, until, attempts = self._health_url(), time.monotonic() + budget, 0
        while True:
            attempts += 1
            problem = await health_checks.problem_at(url, max(until - time.monotonic(), 0.1))
            if not problem:
                return
            if time.monotonic() + PROBE_INTERVAL_SECONDS > until:
                break
            await asyncio.sleep(PROBE_INTERVAL_SECONDS)
        is_plugin_missing = self._uses_plugin() and not await health_checks.problem_at(_gateway_url())
        if is_plugin_missing and bool_env("MOLECULE_A2A_PLATFORM_FALLBACK", False):
            log.warning("plugin molecule-a2a not loaded: the workspace works over the chat API instead")
            self._is_on_chat_instead = True
            return
        raise RuntimeError(
            f"hermes-agent surface not reachable at {url} after {attempts} attempt(s) over "
            f"~{budget:.0f}s: {problem}. {_NO_PLUGIN if is_plugin_missing else _NO_GATEWAY}"
        )

    def _uses_plugin(self) -> bool:
        return bool_env("MOLECULE_A2A_PLATFORM_ENABLED", False) and not self._is_on_chat_instead

    def _health_url(self) -> str:
        return health_checks.plugin_health_url() if self._uses_plugin() else _gateway_url()


def _gateway_url() -> str:
    return health_checks.gateway_health_url()


def _budget() -> float:
    budget = os.environ.get("HERMES_GATEWAY_READY_BUDGET_SEC", "").strip()
    try:
        seconds = int(budget) if budget else DEFAULT_BUDGET_SECONDS
    except ValueError:
        log.warning("HERMES_GATEWAY_READY_BUDGET_SEC must be an integer; %d is used", DEFAULT_BUDGET_SECONDS)
        seconds = DEFAULT_BUDGET_SECONDS
    return float(max(seconds, MIN_BUDGET_SECONDS))
