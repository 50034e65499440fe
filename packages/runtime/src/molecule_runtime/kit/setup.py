"""The setup that all engines share: plugins, skills, tools, the team and the prompt.

Everything that comes over the network has three seconds; what does not come is empty, with one warning.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from molecule_plugin.values import named, texts
from molecule_runtime.domain.peers import children_of
from molecule_runtime.kit.adapter import AdapterConfig, BaseAdapter, SetupResult
from molecule_runtime.kit.coordinator import build_children_description, route_tool
from molecule_runtime.kit.platform_tools import platform_tools
from molecule_runtime.kit.plugins import PLUGINS_FOLDER, LoadedPlugins, load_plugins
from molecule_runtime.kit.prompt import build_system_prompt
from molecule_runtime.kit.skills import LoadedSkill, are_shown_in_full, load_skills, read_skill_tool
from molecule_runtime.kit.tools import ToolSpec, tool
from molecule_runtime.ports.platform import Platform
from molecule_wire import JSONObject
from molecule_wire.calls.values import CallFailed

NETWORK_TIMEOUT = 3.0
SHARED_PLUGINS = "/plugins"
INSTRUCTIONS_COPY = ".molecule/instructions.md"
CHARACTERS_PER_TOKEN = 4

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass
class Surroundings:
    """What the platform says of a workspace's place in the organisation."""

    peers: list[JSONObject] = field(default_factory=list[JSONObject])
    children: list[JSONObject] = field(default_factory=list[JSONObject])
    parent_context: list[JSONObject] = field(default_factory=list[JSONObject])
    instructions: str = ""


async def common_setup(adapter: BaseAdapter, config: AdapterConfig) -> SetupResult:
    """Prepare what the engine starts with. Without a platform there are no peers and no platform tools."""
    active = cast("Collection[str]", getattr(config.workspace_config, "plugins", None) or ())
    plugins = load_plugins(
        Path(config.config_path) / PLUGINS_FOLDER,
        os.environ.get("PLUGINS_DIR") or SHARED_PLUGINS,
        only=active,
    )
    installed = await adapter.inject_plugins(config, plugins)
    skills = _skills(adapter.name(), config, plugins)
    platform = None if config.smoke else config.platform
    tools = built_in_tools(config, platform, skills)
    tools = _without_repeats(
        [*tools, *(one for skill in skills for one in skill.tools), *_plugin_tools(adapter)]
    )
    around = Surroundings()
    if platform is not None:
        around = await read_surroundings(platform, Path(config.config_path))
        await _report_installs(platform, installed)
        if around.children:
            routing = route_tool(platform, around.children, _category_routing(config))
            tools = _without_repeats([*tools, *_allowed(config, [routing])])
    prompt = build_system_prompt(
        config.config_path,
        config.workspace_id,
        skills,
        around.peers,
        config.prompt_files,
        plugins.rules,
        [*plugins.prompt_fragments, build_children_description(around.children)],
        around.parent_context,
        around.instructions,
    )
    if config.system_prompt is None:
        config.system_prompt = prompt
    tokens = len(prompt) // CHARACTERS_PER_TOKEN
    log.info("setup: %d skills, %d tools, about %d tokens of prompt", len(skills), len(tools), tokens)
    return SetupResult(prompt, skills, list(tools), bool(around.children), around.children, list(tools))


def built_in_tools(
    config: AdapterConfig, platform: Platform | None, skills: Sequence[LoadedSkill]
) -> list[ToolSpec]:
    """The built-in tools that work here and that the configuration allows."""
    offered = platform_tools(platform, work_dir=config.work_dir) if platform is not None else []
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


async def read_surroundings(platform: Platform, config_path: Path) -> Surroundings:
    """Ask for peers, the parent's context and instructions at once; call it again when they change."""
    parent_id = os.environ.get("PARENT_ID", "").strip()
    peers, parent_context, instructions = await asyncio.gather(
        _within("peers", platform.peers, cast("list[JSONObject]", [])),
        _within(
            "the context of the parent", lambda: _shared(platform, parent_id), cast("list[JSONObject]", [])
        ),
        _within("platform instructions", platform.instructions, None),
    )
    copy = config_path / INSTRUCTIONS_COPY
    return Surroundings(
        peers,
        children_of(peers, platform.workspace_id),
        parent_context,
        _read_copy(copy) if instructions is None else _keep_copy(copy, instructions),
    )


async def _shared(platform: Platform, parent_id: str) -> list[JSONObject]:
    return await platform.shared_context(parent_id) if parent_id else []


async def _within(what: str, call: Callable[[], Awaitable[T]], otherwise: T) -> T:
    try:
        async with asyncio.timeout(NETWORK_TIMEOUT):
            return await call()
    except (CallFailed, OSError) as problem:
        log.warning("%s: the platform did not answer (%s); going on without", what, str(problem) or "timeout")
        return otherwise


def _keep_copy(path: Path, instructions: str) -> str:
    """Keep the last good instructions for a start without the platform."""
    from molecule_plugin.rooted import write_atomically

    try:
        if instructions != _read_copy(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, instructions.encode(errors="replace"), 0o600)
    except OSError as problem:
        log.warning("the platform's instructions cannot be kept in %s: %s", path, problem.strerror)
    return instructions


def _read_copy(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


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

    await _within("the report of plugins", write, None)


def _category_routing(config: AdapterConfig) -> dict[str, list[str]]:
    """Which roles take which category of tasks: `category_routing` of config.yaml."""
    said = named(getattr(config.workspace_config, "extra", None)).get("category_routing")
    return {category: list(texts(who)) for category, who in named(said).items()}
