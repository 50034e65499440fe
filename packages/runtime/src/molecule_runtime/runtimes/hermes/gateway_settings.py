"""What a hermes gateway is started with, read from the environment once."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from molecule_runtime.runtimes.hermes.model_choice import (
    PROVIDER_KEYS,
    Endpoint,
    HermesModel,
    choose_model,
)
from molecule_runtime.runtimes.hermes.tools_endpoint import ToolsAddress
from molecule_runtime.runtimes.hermes.tools_server import TOKEN_VARIABLE, URL_VARIABLE

DEFAULT_API_PORT, DEFAULT_PLUGIN_PORT = 8642, 8645
API_KEY_LENGTH = 40
SECRET_BYTES = 32

_TRUE = frozenset({"1", "true", "yes", "on"})


@dataclass(frozen=True)
class GatewaySettings:
    """Where a gateway listens and what it is given. Keys do not show in the text form.

    An empty `api_key` or `secret` is made when the home is prepared, unless `allow_no_secret`.
    """

    home: Path
    model: HermesModel
    api_host: str = "127.0.0.1"
    api_port: int = DEFAULT_API_PORT
    api_key: str = field(default="", repr=False)
    plugin: bool = False
    plugin_host: str = "127.0.0.1"
    plugin_port: int = DEFAULT_PLUGIN_PORT
    secret: str = field(default="", repr=False)
    allow_no_secret: bool = False
    provider_keys: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    bridge_tools: bool = True
    plugin_entry_point: str = ""
    """The name of a plugin that is installed in hermes' environment and takes the place of ours."""
    tools: ToolsAddress | None = None
    """Where hermes is offered the tools of the workspace; None where it is offered none."""

    @classmethod
    def read(
        cls, env: Mapping[str, str], workspace_model: str = "", endpoint: Endpoint | None = None
    ) -> "GatewaySettings":
        """The settings of an environment; raises RuntimeError for a port that is no number."""
        home = _text(env, "HERMES_HOME")
        return cls(
            home=Path(home).expanduser() if home else Path.home() / ".hermes",
            model=choose_model(env, workspace_model, endpoint),
            api_host=_text(env, "API_SERVER_HOST") or "127.0.0.1",
            api_port=_port(env, "API_SERVER_PORT", DEFAULT_API_PORT),
            api_key=_text(env, "API_SERVER_KEY"),
            plugin=_flag(env, "MOLECULE_A2A_PLATFORM_ENABLED"),
            plugin_host=_text(env, "MOLECULE_A2A_PLATFORM_HOST") or "127.0.0.1",
            plugin_port=_port(env, "MOLECULE_A2A_PLATFORM_PORT", DEFAULT_PLUGIN_PORT),
            secret=_text(env, "MOLECULE_A2A_PLATFORM_SHARED_SECRET"),
            allow_no_secret=_flag(env, "MOLECULE_A2A_ALLOW_NO_SECRET"),
            provider_keys={name: value for name in PROVIDER_KEYS if (value := _text(env, name))},
            bridge_tools=_text(env, "HERMES_BRIDGE_TOOLS").lower() not in ("off", "false", "no", "0"),
        )

    def for_runtime(self) -> dict[str, str]:
        """The variables that the runtime needs to reach this gateway."""
        variables = {
            "HERMES_API_BASE": f"http://{self.api_host}:{self.api_port}/v1",
            "API_SERVER_KEY": self.api_key,
        }
        if self.plugin:
            variables["MOLECULE_A2A_PLATFORM_ENABLED"] = "true"
            variables["MOLECULE_A2A_PLATFORM_HOST"] = self.plugin_host
            variables["MOLECULE_A2A_PLATFORM_PORT"] = str(self.plugin_port)
            variables["MOLECULE_A2A_PLATFORM_SHARED_SECRET"] = self.secret
        if self.tools is not None:
            variables[URL_VARIABLE], variables[TOKEN_VARIABLE] = self.tools.url, self.tools.token
        return variables

    def secret_values(self) -> tuple[str, ...]:
        """Every value that may be in no log."""
        tools = self.tools.token if self.tools is not None else ""
        values = (self.api_key, self.secret, tools, self.model.api_key, *self.provider_keys.values())
        return tuple(value for value in values if value)


def new_api_key() -> str:
    """A random key of the gateway's API."""
    return secrets.token_urlsafe(API_KEY_LENGTH)[:API_KEY_LENGTH]


def new_secret() -> str:
    """A random secret between the gateway's plugin and the runtime."""
    return secrets.token_urlsafe(SECRET_BYTES)


def _text(env: Mapping[str, str], name: str) -> str:
    return env.get(name, "").strip()


def _flag(env: Mapping[str, str], name: str) -> bool:
    return _text(env, name).lower() in _TRUE


def _port(env: Mapping[str, str], name: str, default: int) -> int:
    text = _text(env, name)
    try:
        return int(text) if text else default
    except ValueError:
        raise RuntimeError(f"{name} must be an integer, got '{text}'") from None
