"""Changes while a workspace runs: of its files, and of its place in the organisation."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from molecule_runtime.domain.config import WorkspaceConfig
from molecule_runtime.domain.config_values import ConfigError
from molecule_runtime.domain.permissions import permissions_of
from molecule_runtime.kit.setup.adapter import AdapterConfig, BaseAdapter
from molecule_runtime.kit.turns import turn_context
from molecule_runtime.settings.config import load_config
from molecule_runtime.settings.config_files import ConfigFiles
from molecule_runtime.settings.environment import Environment

POLL_SECONDS, DEBOUNCE_SECONDS = 3.0, 2.0
REFRESH_PAUSE_SECONDS, REST_SECONDS = 1.0, 4.0
AT_START = ("runtime", "runtime_config", "a2a", "tier", "sub_workspaces")
"""Keys that are read once, at the start."""

log = logging.getLogger("molecule_runtime")


def adapter_config(environment: Environment, config: WorkspaceConfig) -> AdapterConfig:
    """What an adapter is told of a configuration."""
    return AdapterConfig(
        model=config.model,
        tools=list(config.skills),
        runtime_config=config.runtime_config.to_dict(),
        config_path=str(environment.config_dir),
        workspace_id=environment.workspace_id,
        prompt_files=list(config.prompt_files),
        a2a_port=config.a2a.port,
        workspace_config=config,
        work_dir=str(environment.work_dir),
    )


class ConfigReload:
    """Reads a changed configuration into the adapter's config, which keeps its identity.

    `changed` is awaited afterwards. A configuration that cannot be read changes nothing.
    """

    def __init__(
        self,
        environment: Environment,
        adapter: BaseAdapter,
        applied: AdapterConfig,
        changed: Callable[[WorkspaceConfig], Awaitable[None]],
    ) -> None:
        self._environment = environment
        self._adapter = adapter
        self._applied = applied
        self._changed = changed
        self._first: WorkspaceConfig = applied.workspace_config
        self._lock = asyncio.Lock()
        self._pending: set[str] = set()
        self._due = asyncio.Event()
        self.restart_required = False

    def ask(self, what: str) -> None:
        """Ask for a `reload` or a `refresh`; it comes within a few seconds, several at once as one."""
        self._pending.add(what)
        self._due.set()

    async def run(self) -> None:
        """Do what is asked for, until cancelled."""
        while True:
            await self._due.wait()
            await asyncio.sleep(REFRESH_PAUSE_SECONDS)
            self._due.clear()
            pending, self._pending = self._pending, set()
            try:
                await (self.reload() if "reload" in pending else self.refresh())
            except Exception:
                log.exception("what changed could not be taken over")
            # A peer that comes and goes in a loop must not keep all others asking.
            await asyncio.sleep(REST_SECONDS)

    async def watch(self) -> None:
        """Look at the files every 3 s; a change that has stood for 2 s is read."""
        environment = self._environment
        files = ConfigFiles(environment.config_dir, (environment.work_dir, environment.transcripts_dir))
        seen = await asyncio.to_thread(files.digests)
        while True:
            await asyncio.sleep(POLL_SECONDS)
            found = await asyncio.to_thread(files.digests)
            if found == seen:
                continue
            while True:
                await asyncio.sleep(DEBOUNCE_SECONDS)
                seen, found = found, await asyncio.to_thread(files.digests)
                if found == seen:
                    break
            self.ask("reload")

    async def refresh(self) -> None:
        """The peers, the team and the platform's instructions, for adapters with the common setup."""
        async with self._lock:
            if self._adapter._setup is not None:
                await self._adapter._setup.refresh()

    async def reload(self) -> None:
        """Configuration, prompts, skills and plugins."""
        async with self._lock:
            folder = str(self._environment.config_dir)
            try:
                config = await asyncio.to_thread(load_config, folder, self._environment.variables)
            except (ConfigError, FileNotFoundError) as problem:
                return log.warning("the changed configuration is not used: %s", problem)
            self.restart_required = any(getattr(config, key) != getattr(self._first, key) for key in AT_START)
            turn_context.set_permissions(permissions_of(config))
            settings = adapter_config(self._environment, config)
            for name in ("model", "tools", "prompt_files", "workspace_config"):
                setattr(self._applied, name, getattr(settings, name))
            if self._adapter._setup is not None:
                await self._adapter._setup.run()
            await self._changed(config)
            log.info("the configuration was read again%s", ", restart required" * self.restart_required)
            return None
