"""Which model endpoint a workspace uses. The compatibility path `molecule_runtime.models` is this module."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast, get_args
from urllib.parse import urlsplit

from molecule_runtime.domain.config import RuntimeConfig

ModelProtocol: TypeAlias = Literal["openai-chat", "openai-responses", "anthropic", "gemini"]
PROTOCOLS: tuple[str, ...] = get_args(ModelProtocol)

DEFAULT_PROVIDER = "anthropic"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_BEARER_VARIABLE = "ANTHROPIC_AUTH_TOKEN"


class EndpointError(ValueError):
    """No endpoint can be found for a model; the text says what to set."""


@dataclass(frozen=True)
class ModelProvider:
    """A provider of models: where it is, what it speaks, and the variables that hold its key."""

    base_url: str
    protocol: ModelProtocol
    key_names: tuple[str, ...]
    needs_key: bool = True


PROVIDERS: dict[str, ModelProvider] = {
    "anthropic": ModelProvider(
        "https://api.anthropic.com", "anthropic", ("ANTHROPIC_API_KEY", _BEARER_VARIABLE)
    ),
    "openai": ModelProvider("https://api.openai.com/v1", "openai-chat", ("OPENAI_API_KEY",)),
    "openrouter": ModelProvider("https://openrouter.ai/api/v1", "openai-chat", ("OPENROUTER_API_KEY",)),
    "groq": ModelProvider("https://api.groq.com/openai/v1", "openai-chat", ("GROQ_API_KEY",)),
    "cerebras": ModelProvider("https://api.cerebras.ai/v1", "openai-chat", ("CEREBRAS_API_KEY",)),
    "qianfan": ModelProvider(
        "https://qianfan.baidubce.com/v2", "openai-chat", ("QIANFAN_API_KEY", "AISTUDIO_API_KEY")
    ),
    "google_genai": ModelProvider(
        "https://generativelanguage.googleapis.com", "gemini", ("GOOGLE_API_KEY", "GEMINI_API_KEY")
    ),
    "ollama": ModelProvider("http://localhost:11434/v1", "openai-chat", (), needs_key=False),
    "custom": ModelProvider("", "openai-chat", ("CUSTOM_API_KEY",), needs_key=False),
}


@dataclass(frozen=True)
class ModelEndpoint:
    """Where a model is called, and how. Key and headers do not show in the text form."""

    provider: str
    model: str
    protocol: ModelProtocol
    base_url: str
    api_key: str = field(default="", repr=False)
    headers: dict[str, str] = field(default_factory=dict[str, str], repr=False)

    @property
    def key_names(self) -> tuple[str, ...]:
        """The environment variables that can hold the provider's key."""
        row = PROVIDERS.get(self.provider)
        return (f"{_prefix(self.provider)}_API_KEY",) if row is None else row.key_names

    @property
    def lacks_key(self) -> bool:
        """Whether the provider will refuse calls because no key is set."""
        return self.provider in PROVIDERS and PROVIDERS[self.provider].needs_key and not self.api_key


def resolve_endpoint(
    model: str,
    runtime_config: "Mapping[str, Any] | RuntimeConfig | None",
    env: Mapping[str, str],
    default_provider: str = DEFAULT_PROVIDER,
) -> ModelEndpoint:
    """Find the endpoint of `provider:model`, or of `provider/model` when the provider is known.

    A name without a provider belongs to `default_provider`, the one of the runtime's default model. A
    provider that is not in the table needs a base URL. Raises `EndpointError`, but not for a missing key:
    see `lacks_key`.
    """
    config = runtime_config.to_dict() if isinstance(runtime_config, RuntimeConfig) else runtime_config or {}
    provider, name = split_model(model, default_provider)
    if not name:
        raise EndpointError(f"The model {model!r} has no name: write provider:model.")
    prefix = _prefix(provider)
    row = PROVIDERS.get(provider, ModelProvider("", "openai-chat", (f"{prefix}_API_KEY",)))
    base_url = (
        _set(env, "MOLECULE_MODEL_BASE_URL")
        or _text(config.get("provider_url"))
        or _set(env, f"{prefix}_BASE_URL")
        or row.base_url
    ).rstrip("/")
    _check_url(base_url, provider, prefix)
    protocol = _set(env, "MOLECULE_MODEL_PROTOCOL") or _text(config.get("api_mode")) or row.protocol
    if protocol not in PROTOCOLS:
        allowed = ", ".join(PROTOCOLS)
        raise EndpointError(f"The model protocol {protocol!r} is not known: use one of {allowed}.")
    key_name = next((each for each in ("MOLECULE_MODEL_API_KEY", *row.key_names) if _set(env, each)), "")
    api_key = _set(env, key_name)
    headers = {"Authorization": f"Bearer {api_key}"} if key_name == _BEARER_VARIABLE else {}
    return ModelEndpoint(provider, name, cast("ModelProtocol", protocol), base_url, api_key, headers)


def split_model(model: str, default_provider: str = DEFAULT_PROVIDER) -> tuple[str, str]:
    """The provider and the name of a model. The name may hold colons and slashes itself."""
    model = model.strip()
    provider, colon, name = model.partition(":")
    if colon and _NAME.fullmatch(provider):
        return provider.lower(), name.strip()
    provider, slash, name = model.partition("/")
    if slash and provider.lower() in PROVIDERS:
        return provider.lower(), name.strip()
    return default_provider, model


def _check_url(base_url: str, provider: str, prefix: str) -> None:
    if not base_url:
        known = ", ".join(PROVIDERS)
        raise EndpointError(
            f"The model provider {provider!r} has no base URL: set runtime_config.provider_url or "
            f"{prefix}_BASE_URL, or use one of {known}."
        )
    try:
        parts = urlsplit(base_url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_usable = False
    if not is_usable:
        raise EndpointError(f"The base URL of the model provider {provider!r} is no http or https URL.")


def _prefix(provider: str) -> str:
    return provider.upper().replace("-", "_")


def _set(env: Mapping[str, str], name: str) -> str:
    return env.get(name, "").strip()


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""
