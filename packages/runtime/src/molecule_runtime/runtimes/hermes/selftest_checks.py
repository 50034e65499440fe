"""The first three checks of the install proof: what hermes itself sees, as the user that runs it.

Hermes is asked with its own commands and in the environment that its gateway gets, because what we find in a
folder says nothing about the folder that hermes reads.
"""

import asyncio
import json
import re
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from molecule_runtime.runtimes.hermes import home_directory as hermes_home
from molecule_runtime.runtimes.hermes.client import as_object
from molecule_runtime.runtimes.hermes.errors import HermesError
from molecule_runtime.runtimes.hermes.home_directory import PLUGIN_NAME
from molecule_runtime.runtimes.hermes.installation import HermesEnvironment
from molecule_runtime.runtimes.hermes.interpreter_report import ENTRY_POINT_GROUP
from molecule_runtime.runtimes.hermes.selftest_file import plugin_digest, plugin_version
from molecule_runtime.runtimes.hermes.yaml_config import read_config

COMMAND_SECONDS = 25.0

_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_CONFIG_LINE = re.compile(r"^\s*Config:\s+(\S.*?)\s*$", re.MULTILINE)
_PREPARED_BY = "start the workspace once with MOLECULE_A2A_PLATFORM_ENABLED=true, which puts it there"


@dataclass(frozen=True)
class SelftestTarget:
    """What is proven: a hermes, the home that it is started with, and the variables that it gets."""

    executable: Path
    environment: HermesEnvironment
    home: Path
    variables: Mapping[str, str]


@dataclass(frozen=True)
class VisiblePlugin:
    """The plugin that hermes sees. `name` is how `plugins.enabled` must spell it."""

    name: str
    version: str
    digest: str
    place: str
    entry_point: str = ""
    """The name of its entry point; empty for the plugin folder."""


async def find_plugin(target: SelftestTarget) -> VisiblePlugin:
    """Check 1: the plugin is visible to the interpreter and the user that run hermes."""
    folder, distribution = target.home / "plugins" / PLUGIN_NAME, target.environment.distribution
    if folder.is_dir():
        plugin = VisiblePlugin(PLUGIN_NAME, plugin_version(folder), plugin_digest(folder), f"folder {folder}")
        if plugin.digest != plugin_digest():
            raise HermesError(
                f"{folder} is not the plugin of this release ({plugin_version()}): remove that folder, "
                f"then {_PREPARED_BY}."
            )
    elif distribution is not None:
        place = f"distribution {distribution.name} {distribution.version} in {target.environment.prefix}"
        name = distribution.entry_point
        plugin = VisiblePlugin(name, distribution.version, distribution.digest, place, name)
    else:
        raise HermesError(
            f"hermes does not see the plugin {PLUGIN_NAME}: there is neither the folder {folder} nor, for "
            f"{target.environment.interpreter}, a distribution with that entry point in {ENTRY_POINT_GROUP}: "
            f"{_PREPARED_BY}, or set HERMES_HOME to the home that hermes uses."
        )
    if plugin.name not in await _listed(target):
        raise HermesError(
            f"`hermes plugins list` has no row {plugin.name}, although there is the {plugin.place}: hermes "
            "uses another HERMES_HOME, or cannot read it; let it run with this HERMES_HOME and as this user."
        )
    return plugin


async def check_enabled(target: SelftestTarget, plugin: VisiblePlugin) -> str:
    """Check 2: hermes would load the plugin, which is opt-in."""
    status, path = (await _listed(target)).get(plugin.name, ""), await _config_path(target)
    if status == "enabled":
        return f"{plugin.name} is enabled in {path}"
    if status == "disabled":
        raise HermesError(f"{plugin.name} is in plugins.disabled of {path}: remove it there.")
    enabled = as_object(read_config(path).get("plugins")).get("enabled")
    raise HermesError(
        f"{plugin.name} is missing in plugins.enabled of {path}, which has {json.dumps(enabled or [])}: add "
        "it in exactly this spelling; hermes leaves a plugin out without a line in its log."
    )


async def check_stanza(target: SelftestTarget) -> str:
    """Check 3: the platform is configured in the file that the gateway will read."""
    path = await _config_path(target)
    if path.absolute() != (target.home / "config.yaml").absolute():
        raise HermesError(
            f"hermes reads {path} and not {target.home / 'config.yaml'}: set HERMES_HOME to the home that "
            "hermes uses, or remove what sets another one for it."
        )
    if hermes_home.stanza_problem(read_config(path)):
        raise HermesError(
            f"{path} has no enabled stanza platforms.{PLUGIN_NAME}: {_PREPARED_BY}, or add "
            f"`platforms: {{{PLUGIN_NAME}: {{enabled: true}}}}`."
        )
    return f"platforms.{PLUGIN_NAME} is enabled in {path}"


async def _listed(target: SelftestTarget) -> dict[str, str]:
    """The plugins that hermes lists, by name, with their status."""
    printed = await _ask_hermes(target, "plugins", "list", "--no-bundled", "--json")
    try:
        rows: Any = json.loads(printed)
    except ValueError:
        return {}  # it prints a hint when there is none
    listed = map(as_object, cast("list[Any]", rows) if isinstance(rows, list) else [])
    return {str(row.get("name")): str(row.get("status")) for row in listed}


async def _config_path(target: SelftestTarget) -> Path:
    """Where hermes says that its settings are."""
    printed = _STYLE.sub("", await _ask_hermes(target, "config", "show"))
    match = _CONFIG_LINE.search(printed)
    if match is None:
        raise HermesError("`hermes config show` names no config file: install the hermes of this release.")
    return Path(match[1])


async def _ask_hermes(target: SelftestTarget, *arguments: str) -> str:
    """What a command of hermes prints. Its output is not shown: it may hold parts of keys."""
    command = f"`hermes {' '.join(arguments)}`"
    try:
        process = await asyncio.create_subprocess_exec(
            str(target.executable), *arguments,
            stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, env=dict(target.variables), start_new_session=True,
        )  # fmt: skip
    except OSError as problem:
        raise HermesError(
            f"{target.executable} cannot be started ({problem.strerror}): reinstall it."
        ) from None
    try:
        printed, _ = await asyncio.wait_for(process.communicate(), COMMAND_SECONDS)
    except TimeoutError:
        raise HermesError(f"{command} did not end in {COMMAND_SECONDS:.0f} s: run it as this user.") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise HermesError(f"{command} ended with code {process.returncode}: run it as this user to see why.")
    return printed.decode(errors="replace")
