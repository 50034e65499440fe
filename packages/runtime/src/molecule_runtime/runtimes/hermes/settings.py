"""The environment of the hermes bridge, read once when its executor is made."""

import logging
import math
import os
from dataclasses import dataclass

log = logging.getLogger(__name__)

_TRUE = ("1", "true", "yes", "on")


@dataclass(frozen=True)
class HermesDefaults:
    """What holds where the environment says nothing."""

    base: str
    plugin_host: str
    plugin_port: int
    callback_host: str
    callback_port: int


@dataclass(frozen=True)
class HermesSettings:
    """What the environment says. `API_SERVER_KEY` is not here: it is read for every request."""

    base: str
    use_plugin: bool
    plugin_host: str
    plugin_port: int
    callback_host: str
    callback_port: int
    is_callback_port_given: bool
    """Whether the port was asked for; a port that was not may be replaced when it is taken."""
    shared_secret: str
    streams: bool
    request_timeout: float | None
    """Seconds; None leaves it to the constants of the executor."""


def read_settings(defaults: HermesDefaults) -> HermesSettings:
    """Read the environment. Raises RuntimeError when a port is no integer."""
    return HermesSettings(
        base=(_text("HERMES_API_BASE") or defaults.base).rstrip("/"),
        use_plugin=bool_env("MOLECULE_A2A_PLATFORM_ENABLED", False),
        plugin_host=_text("MOLECULE_A2A_PLATFORM_HOST") or defaults.plugin_host,
        plugin_port=int_env("MOLECULE_A2A_PLATFORM_PORT", defaults.plugin_port),
        callback_host=_text("MOLECULE_A2A_CALLBACK_HOST") or defaults.callback_host,
        callback_port=int_env("MOLECULE_A2A_CALLBACK_PORT", defaults.callback_port),
        is_callback_port_given=bool(_text("MOLECULE_A2A_CALLBACK_PORT")),
        shared_secret=_text("MOLECULE_A2A_PLATFORM_SHARED_SECRET"),
        streams=_text("HERMES_STREAM").lower() != "off",
        request_timeout=_seconds("HERMES_REQUEST_TIMEOUT_SEC"),
    )


def api_key() -> str:
    """The key of the gateway's API, as it is now; empty without one."""
    return _text("API_SERVER_KEY")


def bool_env(name: str, default: bool) -> bool:
    """A switch: `1`, `true`, `yes` and `on` in any case are on, blank is the default, the rest off."""
    value = _text(name).lower()
    return value in _TRUE if value else default


def int_env(name: str, default: int) -> int:
    """A whole number; blank is the default. Raises RuntimeError for anything else."""
    value = _text(name)
    try:
        return int(value) if value else default
    except ValueError:
        raise RuntimeError(f"{name} must be an integer, got '{value}'") from None


def _seconds(name: str) -> float | None:
    value = _text(name)
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        log.warning("%s must be a positive number of seconds; the default is used", name)
        return None
    return seconds


def _text(name: str) -> str:
    return os.environ.get(name, "").strip()
