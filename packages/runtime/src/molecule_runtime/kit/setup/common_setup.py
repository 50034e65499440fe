"""The setup that all engines share: plugins, skills, tools, the team and the prompt."""

import logging
import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, cast

from molecule_plugin.values import named, texts
from molecule_runtime.domain.config import DelegationConfig
from molecule_runtime.kit.setup.adapter import AdapterConfig, BaseAdapter, SetupResult
from molecule_runtime.kit.setup.coordinator import build_children_description, route_tool
from molecule_runtime.kit.setup.platform_context import PlatformContext, read_platform_context, within
from molecule_runtime.kit.setup.plugins import PLUGINS_FOLDER, LoadedPlugins, load_plugins
from molecule_runtime.kit.setup.prompt import build_system_prompt
from molecule_runtime.kit.setup.skills import LoadedSkill, are_shown_in_full, load_skills, read_skill_tool
from molecule_runtime.kit.tools.platform_tools import platform_tools
from molecule_runtime.kit.tools.tool_set import ToolSpec, tool
from molecule_runtime.ports.platform import Platform

SHARED_PLUGINS = "/plugins"

log = logging.getLogger(__name__)


class CommonSetup:
    """The setup of one adapter. Its result is one object, kept up to date in place.

    `run` reads everything; `refresh` asks the platform again and leaves plugins and skills as they are.
    Without a platform there are no peers and no platform tools.
    """

    def __init__(self, adapter: BaseAdapter, config: AdapterConfig) -> None:
        self._adapter = adapter
        self._config = config
        self._fills_prompt = config.system_prompt is None
        self._plugins = LoadedPlugins()
        self._own_tools: list[ToolSpec] = []
        self._around = PlatformContext()
        self.result = SetupResult("", [], [], False, [])

    @property
    def _platform(self) -> Platform | None:
        return None if self._config.smoke else self._config.platform

    async def run(self) -> SetupResult:
        """Plugins, skills and tools, then what `refresh` does."""
        adapter, config = self._adapter, self._config
        active = cast("Collection[str]", getattr(config.workspace_config, "plugins", None) or ())
        self._plugins = load_plugins(
            Path(config.config_path) / PLUGINS_FOLDER,
            os.environ.get("PLUGINS_DIR") or SHARED_PLUGINS,
            only=active,
        )
        installed = await adapter.inject_plugins(config, self._plugins)
        skills = _skills(adapter.name(), config, self._plugins)
        built_in = built_in_tools(config, self._platform, skills)
        of_skills = [one for skill in skills for one in skill.tools]
        self._own_tools = [*built_in, *of_skills, *_plugin_tools(adapter)]
        self.result.loaded_skills[:] = skills
        if self._platform is not None:
            await _report_installs(self._platform, installed)
        return await self.refresh()

    async def refresh(self) -> SetupResult:
        """The place of the workspace in the organisation, and the prompt that speaks of it."""
        config, result, platform = self._config, self.result, self._platform
        around, tools = self._around, list(self._own_tools)
        if platform is not None:
            around = await read_platform_context(platform, Path(config.config_path), around)
            self._around = around
            if around.children:
                routing = route_tool(platform, around.children, _category_routing(config))
                tools += _allowed(config, [routing])
        result.system_prompt = build_system_prompt(
            config.config_path,
            config.workspace_id,
            result.loaded_skills,
            around.peers,
            config.prompt_files,
            self._plugins.rules,
            [*self._plugins.prompt_fragments, build_children_description(around.children)],
            around.parent_context,
            around.instructions,
        )
        result.is_coordinator = bool(around.children)
        result.children[:] = around.children
        result.tools[:] = result.langchain_tools[:] = _without_repeats(tools)
        if self._fills_prompt:
            config.system_prompt = result.system_prompt
        counts = len(result.loaded_skills), len(result.tools), len(result.system_prompt)
        log.info("setup: %d skills, %d tools, %d characters of prompt", *counts)
        return result


def built_in_tools(
    config: AdapterConfig, platform: Platform | None, skills: Sequence[LoadedSkill]
) -> list[ToolSpec]:
    """The built-in tools that work here and that the configuration allows."""
    offered: list[ToolSpec] = []
    if platform is not None:
        retries = getattr(config.workspace_config, "delegation", None) or DelegationConfig()
        offered = platform_tools(platform, work_dir=config.work_dir, retries=retries)
    if skills and not are_shown_in_full(skills):
        offered.append(read_skill_tool(skills))
    return _allowed(config, offered)


def _allowed(config: AdapterConfig, offered: Iterable[ToolSpec]) -> list[ToolSpec]:
    """Of built-in tools those that `tools` of config.yaml lists, or all; `!name` leaves one out."""
    named = cast("Iterable[str]", getattr(config.workspace_config, "tools", None) or ())
    listed = [str(name) for name in named]
    excluded = {name[1:] for name in listed if name.startswith("!")}
    allowed = {name for name in listed if not name.startswith("!")}
    return [one for one in offered if one.name not in excluded and (not allowed or one.name in allowed)]


def _skills(runtime: str, config: AdapterConfig, plugins: LoadedPlugins) -> list[LoadedSkill]:
    """The skills of the workspace, then those of the plugins; the first of an id wins."""
    found = load_skills(config.config_path, config.tools, runtime) if config.tools else []
    trusted = {str(plugin.skills_dir) for plugin in plugins.plugins if plugin.trusted}
    for folder in plugins.skill_dirs:
        found += load_skills(folder, ["*"], runtime, trusted=folder in trusted)
    by_id: dict[str, LoadedSkill] = {}
    for skill in found:
        by_id.setdefault(skill.metadata.id, skill)
    return list(by_id.values())


def _plugin_tools(adapter: BaseAdapter) -> list[ToolSpec]:
    tools: list[ToolSpec] = []
    for name, function in adapter.plugin_tools.items():
        try:
            tools.append(function if isinstance(function, ToolSpec) else tool(name=name)(function))
        except (TypeError, ValueError) as problem:
            log.warning("tool '%s' of a plugin is left out: %s", name, problem)
    return tools


def _without_repeats(tools: Iterable[ToolSpec]) -> list[ToolSpec]:
    by_name: dict[str, ToolSpec] = {}
    for one in tools:
        if one.name in by_name and by_name[one.name] is not one:
            log.warning("a second tool named '%s' is left out", one.name)
        by_name.setdefault(one.name, one)
    return list(by_name.values())


async def _report_installs(platform: Platform, installed: object) -> None:
    """Write how each plugin was installed to the activity log; an adapter of its own may not tell."""
    results = cast("list[Any]", installed) if isinstance(installed, list) else []
    summaries = [
        f"Plugin {one.plugin_name} installed via {one.source} adaptor (warnings: {len(one.warnings)})"
        for one in results
        if hasattr(one, "plugin_name")
    ]

    async def write() -> None:
        for summary in summaries:
            await platform.log_activity("agent_log", summary)

    await within("the report of plugins", write, None)


def _category_routing(config: AdapterConfig) -> dict[str, list[str]]:
    """Which roles take which category of tasks: `category_routing` of config.yaml."""
    routing = named(getattr(config.workspace_config, "extra", None)).get("category_routing")
    return {category: list(texts(who)) for category, who in named(routing).items()}
