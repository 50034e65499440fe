"""Hermes' home folder: the plugin, the variables and the settings that a gateway starts with.

Preparing it twice changes nothing the second time. What a user wrote stays, except the members that are ours.
"""

import copy
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from molecule_runtime.kit.files.atomic_files import private_folder, read_limited, write_private
from molecule_runtime.runtimes.hermes.errors import HermesError
from molecule_runtime.runtimes.hermes.gateway_settings import GatewaySettings, new_api_key, new_secret
from molecule_runtime.runtimes.hermes.tools_server import TOKEN_VARIABLE, URL_VARIABLE
from molecule_runtime.runtimes.hermes.yaml_config import read_config, write_config

PLUGIN_NAME = "molecule-a2a"
PLUGIN_SOURCE = Path(__file__).with_name("plugin")
TOOLS_SERVER = Path(__file__).with_name("tools_server.py")
MAX_ENV_BYTES = 256 * 1024

_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+=,-]*")
_ASSIGNMENT = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=(.*)")
_OURS_IN_MODEL = ("default", "provider", "base_url", "api_key", "api_mode")


def prepare_home(settings: GatewaySettings, interpreter: Path | None = None) -> GatewaySettings:
    """Write everything that the gateway needs; the settings with the key and secret that are now in force.

    Raises `HermesError` when the folder cannot be written.
    """
    home = settings.home
    try:
        private_folder(home)
        if home.stat().st_mode & 0o077:
            home.chmod(0o700)
        variables = _read_variables(home / ".env")
        config = read_config(home / "config.yaml")
        settings = _with_secrets(settings, variables, config)
        _write_variables(home / ".env", settings)
        merged = merge_config(config, settings, interpreter)
        if merged != config:
            write_config(home / "config.yaml", merged)
        (home / "config.yaml").chmod(0o600)
        if settings.plugin and not settings.plugin_entry_point:
            copy_plugin(home / "plugins" / PLUGIN_NAME)
    except OSError as problem:
        raise HermesError(
            f"HERMES_HOME {home} cannot be written ({problem.strerror or type(problem).__name__}): "
            "make it a folder of the user that runs hermes, or set HERMES_HOME to another one."
        ) from None
    return settings


def merge_config(
    config: dict[str, Any], settings: GatewaySettings, interpreter: Path | None = None
) -> dict[str, Any]:
    """The settings file with our members in it; the given one does not change.

    `interpreter` is the Python of hermes' environment.
    """
    merged = copy.deepcopy(config)
    model = merged.get("model")
    own: dict[str, Any] = {"default": model} if isinstance(model, str) else _section(merged, "model")
    # A model that the user chose stays when nobody named another one.
    if not (settings.model.is_fallback and own.get("default")):
        others = {name: value for name, value in own.items() if name not in _OURS_IN_MODEL}
        merged["model"] = {**settings.model.section(), **others}
    # Hermes would offer every sender to build a profile of the user; agents would answer that.
    _section(merged, "onboarding").setdefault("profile_build", "off")
    _merge_tools(merged, settings, interpreter)
    if settings.plugin:
        _merge_plugin(merged, settings)
    elif PLUGIN_NAME in _section(merged, "platforms"):
        _section(_section(merged, "platforms"), PLUGIN_NAME)["enabled"] = False
    return {name: value for name, value in merged.items() if value != {} or name in config}


def plugin_problem(config: dict[str, Any], name: str = PLUGIN_NAME) -> str:
    """Why hermes would not load the plugin, in one sentence; empty when it would."""
    return enabling_problem(config, name) or stanza_problem(config)


def enabling_problem(config: dict[str, Any], name: str = PLUGIN_NAME) -> str:
    """Why the plugin of this name is not enabled; empty when it is.

    A name that is missing in `plugins.enabled` is skipped without a line in the log.
    """
    plugins = _section(copy.deepcopy(config), "plugins")
    if name in _names(plugins.get("disabled")):
        return f"config.yaml of hermes has {name} in plugins.disabled: remove it there."
    if name not in _names(plugins.get("enabled")):
        return f"config.yaml of hermes lacks {name} in plugins.enabled: add it there."
    return ""


def stanza_problem(config: dict[str, Any]) -> str:
    """Why the gateway would not connect the platform of the plugin; empty when it would."""
    if not plugin_stanza(config).get("enabled"):
        return f"config.yaml of hermes lacks platforms.{PLUGIN_NAME}.enabled: set it to true."
    return ""


def plugin_stanza(config: dict[str, Any]) -> dict[str, Any]:
    """The platform stanza of the plugin; empty when there is none."""
    return _section(_section(copy.deepcopy(config), "platforms"), PLUGIN_NAME)


def plugin_files(folder: Path) -> dict[str, bytes]:
    """The content of a plugin folder by name; empty when there is no such folder."""
    if not folder.is_dir():
        return {}
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def copy_plugin(target: Path) -> None:
    """Put the plugin's files into hermes' folder, unless the same ones are there."""
    sources = plugin_files(PLUGIN_SOURCE)
    if plugin_files(target) == sources:
        return
    private_folder(target.parent)
    fresh, old = (target.with_name(f".{target.name}.{kind}") for kind in ("new", "old"))
    for leftover in (fresh, old):
        shutil.rmtree(leftover, ignore_errors=True)
    for name, data in sources.items():
        write_private(fresh / name, data)
    if target.exists():
        target.rename(old)
    fresh.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def stanza_secret(config: dict[str, Any]) -> str:
    """The shared secret in the platform stanza; empty when there is none."""
    known = _section(plugin_stanza(config), "extra").get("shared_secret")
    return known if isinstance(known, str) else ""


def _with_secrets(
    settings: GatewaySettings, variables: dict[str, str], config: dict[str, Any]
) -> GatewaySettings:
    """The key and the secret: as said, else as they were before, else new ones."""
    api_key = settings.api_key or variables.get("API_SERVER_KEY", "") or new_api_key()
    secret = settings.secret
    if settings.plugin and not secret and not settings.allow_no_secret:
        secret = stanza_secret(config) or new_secret()
    return replace(settings, api_key=api_key, secret=secret)


def _merge_plugin(config: dict[str, Any], settings: GatewaySettings) -> None:
    plugins = _section(config, "plugins")
    enabled, name = _names(plugins.get("enabled")), settings.plugin_entry_point or PLUGIN_NAME
    plugins["enabled"] = enabled if name in enabled else [*enabled, name]
    stanza = _section(_section(config, "platforms"), PLUGIN_NAME)
    stanza["enabled"] = True
    extra = _section(stanza, "extra")
    extra.update(host=settings.plugin_host, port=settings.plugin_port, shared_secret=settings.secret)
    display = _section(config, "display")
    display.setdefault("busy_input_mode", "queue")
    display.setdefault("busy_ack_enabled", False)


def _merge_tools(config: dict[str, Any], settings: GatewaySettings, interpreter: Path | None) -> None:
    """Offer the tools of the workspace by our MCP server, which hermes' own Python runs."""
    servers = _section(config, "mcp_servers")
    if not settings.bridge_tools:
        servers.pop("molecule", None)
    elif settings.tools is not None and interpreter is not None:
        variables = {URL_VARIABLE: settings.tools.url, TOKEN_VARIABLE: settings.tools.token}
        servers["molecule"] = {"command": str(interpreter), "args": [str(TOOLS_SERVER)], "env": variables}


def _section(config: dict[str, Any], name: str) -> dict[str, Any]:
    """A mapping inside a mapping, made when it is missing or something else."""
    if not isinstance(config.get(name), dict):
        config[name] = {}
    return cast("dict[str, Any]", config[name])


def _names(value: object) -> list[str]:
    return [str(name) for name in cast("list[object]", value)] if isinstance(value, list) else []


def _read_variables(path: Path) -> dict[str, str]:
    """The assignments of a file of variables, without quotes."""
    found = dict[str, str]()
    for line in _lines(path):
        if match := _ASSIGNMENT.fullmatch(line):
            found[match[1]] = match[2].strip().strip("'\"")
    return found


def _write_variables(path: Path, settings: GatewaySettings) -> None:
    """Set our variables in the file; lines of the user stay as and where they are."""
    ours = {
        "API_SERVER_ENABLED": "true",
        "API_SERVER_HOST": settings.api_host,
        "API_SERVER_PORT": str(settings.api_port),
        "API_SERVER_KEY": settings.api_key,
        **settings.provider_keys,
    }
    lines = list[str]()
    for line in _lines(path):
        match = _ASSIGNMENT.fullmatch(line)
        if match is None or match[1] not in ours:
            lines.append(line)
        elif match[1] in ours:
            lines.append(_assignment(match[1], ours.pop(match[1])))
    lines += [_assignment(name, value) for name, value in ours.items()]
    data = ("\n".join(lines) + "\n").encode()
    if not path.exists() or path.read_bytes() != data:
        write_private(path, data)
    if path.stat().st_mode & 0o077:
        path.chmod(0o600)


def _assignment(name: str, value: str) -> str:
    if any(ord(character) < 32 for character in value):
        raise HermesError(f"{name} holds a control character: set it again, in one line.")
    if _PLAIN.fullmatch(value):
        return f"{name}={value}"
    quoted = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"{name}='{quoted}'"


def _lines(path: Path) -> list[str]:
    if not os.path.lexists(path):
        return []
    return read_limited(path, MAX_ENV_BYTES).decode("utf-8", "surrogateescape").splitlines()
