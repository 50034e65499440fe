"""The adapter of an engine: what an author writes to run an agent framework as a workspace.

Programs import this module as `molecule_runtime.adapters.base` or `molecule_runtime.adapter_base`; both are
this very module.
"""

import inspect
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from molecule_runtime.domain.capabilities import RuntimeCapabilities
from molecule_runtime.ports.platform import Platform

if TYPE_CHECKING:
    from molecule_plugin.protocol import InstallResult
    from molecule_runtime.kit.setup.common_setup import CommonSetup

__all__ = ["AdapterConfig", "BaseAdapter", "RuntimeCapabilities", "SetupResult"]

MAX_SNAPSHOT_LINES = 200

log = logging.getLogger(__name__)


@dataclass
class SetupResult:
    """What the common setup prepared. `tools` are plain `ToolSpec`s."""

    system_prompt: str
    loaded_skills: list[Any]
    langchain_tools: list[Any]
    is_coordinator: bool
    children: list[Any]
    tools: list[Any] = field(default_factory=list[Any])


@dataclass
class AdapterConfig:
    """What an adapter is told. `tools` are names of skills (the name is historical)."""

    model: str
    system_prompt: str | None = None
    tools: list[str] = field(default_factory=list[str])
    runtime_config: dict[str, Any] = field(default_factory=dict[str, Any])
    config_path: str = "/configs"
    workspace_id: str = ""
    prompt_files: list[str] = field(default_factory=list[str])
    a2a_port: int = 8000
    heartbeat: Any = None
    platform: Platform | None = None
    workspace_config: Any = None
    work_dir: str = "/workspace"
    endpoint: Any = None
    smoke: bool = False


class BaseAdapter(ABC):
    """Base class of adapters: five members to write, defaults for the rest.

    No method relies on `__init__`, so an adapter may define its own without calling this one.
    """

    _executor: Any = None
    _setup: "CommonSetup | None" = None
    _snapshot_session_id: Any = None
    _snapshot_transcript: Any = None

    @staticmethod
    @abstractmethod
    def name() -> str:
        """The id of the runtime, as `runtime` in config.yaml."""

    @staticmethod
    @abstractmethod
    def display_name() -> str:
        """The name that people are shown."""

    @staticmethod
    @abstractmethod
    def description() -> str:
        """One line about the engine."""

    @abstractmethod
    async def setup(self, config: AdapterConfig) -> None:
        """Validate and prepare; `RuntimeError` when the engine cannot run."""

    @abstractmethod
    async def create_executor(self, config: AdapterConfig) -> Any:
        """The executor of turns: a `TurnExecutor`, or an object with the `execute` and `cancel` of A2A's."""

    @staticmethod
    def get_config_schema() -> dict[str, Any]:
        """The JSON Schema of `runtime_config`."""
        return {}

    def capabilities(self) -> RuntimeCapabilities:
        """What the engine does by itself; nothing unless overridden."""
        return RuntimeCapabilities()

    def idle_timeout_override(self) -> int | None:
        """How many seconds the engine may be silent in one turn; `None` leaves it to the platform."""
        return None

    def memory_filename(self) -> str:
        """The file in the config directory that the engine reads as its memory."""
        return "CLAUDE.md"

    @cached_property
    def plugin_tools(self) -> dict[str, Callable[..., Any]]:
        """The tools that plugins registered, by name; the executor kit offers them."""
        return {}

    def register_tool_hook(self, name: str, fn: Callable[..., Any]) -> None:
        """A plugin brings a tool. Override it where the engine takes tools while it runs."""
        self.plugin_tools[name] = fn

    def register_subagent_hook(self, name: str, spec: dict[str, Any]) -> None:
        """A plugin brings a sub-agent. Override it where the engine has them."""
        return

    def append_to_memory_hook(self, config: AdapterConfig, filename: str, content: str) -> None:
        """Append text to a memory file, unless the file holds the first line of it already."""
        target = _inside(config.config_path, filename)
        marker = content.split("\n", 1)[0].strip()
        if not content:
            return
        old = target.read_bytes() if target.exists() else b""
        if marker and marker.encode(errors="surrogateescape") in old:
            log.info("append_to_memory: %s already contains '%s' — skipping", filename, marker)
            return
        gap = "\n" if old and not old.endswith(b"\n") else ""
        end = "" if content.endswith("\n") else "\n"
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("ab") as file:
            file.write((gap + content + end).encode(errors="surrogateescape"))
        log.info("append_to_memory: appended %d chars to %s", len(content), filename)

    async def transcript_lines(self, since: int = 0, limit: int = 100) -> dict[str, Any]:
        """What the engine wrote down of its work; an engine without a transcript supports none."""
        return {
            "runtime": self.name(),
            "supported": False,
            "lines": [],
            "cursor": since,
            "more": False,
            "source": None,
        }

    def pre_stop_state(self) -> dict[str, Any]:
        """What the engine needs after a restart; it may be overridden as a coroutine. It never raises."""
        state: dict[str, Any] = {}
        try:
            if session_id := getattr(self._executor, "_session_id", None):
                state["session_id"] = session_id
            read: Callable[..., Any] = self.transcript_lines
            if not inspect.iscoroutinefunction(read):
                transcript = read(since=0, limit=MAX_SNAPSHOT_LINES)
                if transcript.get("supported"):
                    state["transcript_lines"] = list(transcript.get("lines") or [])[-MAX_SNAPSHOT_LINES:]
        except Exception:
            log.warning("the state before the stop is not complete", exc_info=True)
        return state

    def restore_state(self, snapshot: dict[str, Any]) -> None:
        """Take over the state of the process before; it is called before `setup`."""
        self._snapshot_session_id = snapshot.get("session_id")
        self._snapshot_transcript = snapshot.get("transcript_lines")

    async def install_plugins_via_registry(
        self, config: AdapterConfig, plugins: Any
    ) -> "list[InstallResult]":
        """Install each plugin by its adaptor for this runtime; one that fails is logged and left out."""
        from molecule_runtime.kit.setup.plugin_installation import install_plugins

        return await install_plugins(self, config, plugins)

    async def inject_plugins(self, config: AdapterConfig, plugins: Any) -> Any:
        """Bring the plugins into the engine; adapters of the first generation override it."""
        return await self.install_plugins_via_registry(config, plugins)

    async def _common_setup(self, config: AdapterConfig) -> SetupResult:
        """Plugins, skills, tools, team and prompt: what every engine needs before it starts."""
        from molecule_runtime.kit.setup.common_setup import CommonSetup

        self._setup = CommonSetup(self, config)
        return await self._setup.run()

    async def close(self) -> None:
        """Release what the engine holds; called when the workspace stops."""
        return

    async def health(self) -> dict[str, Any]:
        """Whether the engine works; asked every 30 s, `{"ok": False, "reason": …}` marks it as wedged."""
        return {"ok": True}


def _inside(config_path: str, filename: str) -> Path:
    """The file in the config directory; `ValueError` when the name, or a link, leads out of it."""
    root = Path(config_path).resolve()
    target = (root / filename).resolve()
    if target == root or not target.is_relative_to(root):
        raise ValueError(f"refusing a memory file outside {config_path}: {filename!r}")
    return target
