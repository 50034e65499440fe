"""Which model hermes uses, and through which of its providers: a pure function of the environment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from molecule_runtime.runtimes.hermes.errors import HermesError

DEFAULT_MODEL = "nousresearch/hermes-4-70b"
OPENAI_BASE_URL = "https://api.openai.com/v1"

_API_MODES = {
    "openai-chat": "chat_completions",
    "openai-responses": "codex_responses",
    "anthropic": "anthropic_messages",
}

# The prefix of a model: hermes' provider, and the variables that hold its key.
_PREFIXES: dict[str, tuple[str, tuple[str, ...]]] = {
    "anthropic": ("anthropic", ("ANTHROPIC_API_KEY", "ANTHROPIC_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")),
    "deepseek": ("deepseek", ("DEEPSEEK_API_KEY",)),
    "gemini": ("gemini", ("GOOGLE_API_KEY", "GEMINI_API_KEY")),
    "google": ("gemini", ("GOOGLE_API_KEY", "GEMINI_API_KEY")),
    "google_genai": ("gemini", ("GOOGLE_API_KEY", "GEMINI_API_KEY")),
    "huggingface": ("huggingface", ("HF_TOKEN",)),
    "minimax": ("minimax", ("MINIMAX_API_KEY",)),
    "moonshotai": ("kimi-coding", ("KIMI_API_KEY", "KIMI_CODING_API_KEY")),
    "nousresearch": ("nous", ()),
    "nvidia": ("nvidia", ("NVIDIA_API_KEY",)),
    "x-ai": ("xai", ("XAI_API_KEY",)),
    "xai": ("xai", ("XAI_API_KEY",)),
    "z-ai": ("zai", ("GLM_API_KEY", "ZAI_API_KEY", "Z_AI_API_KEY")),
    "zai": ("zai", ("GLM_API_KEY", "ZAI_API_KEY", "Z_AI_API_KEY")),
}

PROVIDER_KEYS = tuple(
    sorted(
        {name for _, names in _PREFIXES.values() for name in names}
        | {"OPENROUTER_API_KEY", "OPENAI_API_KEY", "DASHSCOPE_API_KEY", "FIREWORKS_API_KEY", "OLLAMA_API_KEY"}
        | {"DEEPINFRA_API_KEY", "KIMI_CN_API_KEY", "MINIMAX_CN_API_KEY", "STEPFUN_API_KEY", "XIAOMI_API_KEY"}
        | {"ARCEEAI_API_KEY", "GMI_API_KEY", "KILOCODE_API_KEY", "LM_API_KEY", "NOVITA_API_KEY"}
        | {"OPENCODE_ZEN_API_KEY", "OPENCODE_GO_API_KEY", "AZURE_FOUNDRY_API_KEY", "UPSTAGE_API_KEY"}
    )
)
"""The variables with keys of model providers that hermes reads."""


class Endpoint(Protocol):
    """A resolved model endpoint, as the workspace's settings give it."""

    @property
    def model(self) -> str: ...
    @property
    def protocol(self) -> str: ...
    @property
    def base_url(self) -> str: ...
    @property
    def api_key(self) -> str: ...


@dataclass(frozen=True)
class HermesModel:
    """The `model` section of hermes' config.yaml. `is_fallback` when nobody said which model to use."""

    default: str
    provider: str
    base_url: str = ""
    api_key: str = field(default="", repr=False)
    api_mode: str = ""
    is_fallback: bool = False

    def section(self) -> dict[str, str]:
        """The members that are set."""
        members = {
            "default": self.default,
            "provider": self.provider,
            "base_url": self.base_url,
            "api_key": self.api_key,
            "api_mode": self.api_mode,
        }
        return {name: value for name, value in members.items() if value}


def choose_model(
    env: Mapping[str, str], workspace_model: str = "", endpoint: Endpoint | None = None
) -> HermesModel:
    """The model and its provider; raises `HermesError` for a custom provider without an address.

    What is said to hermes wins over what is said to the workspace; an address wins over a name. `endpoint` is
    the one of `workspace_model`, so it does not serve a model that was named to hermes.
    """
    model_name = _set(env, "HERMES_INFERENCE_MODEL") or _set(env, "HERMES_DEFAULT_MODEL")
    model = model_name or workspace_model.strip() or DEFAULT_MODEL
    is_fallback = not model_name and not workspace_model.strip()
    address = _address(env, None if model_name else endpoint)
    provider = _set(env, "HERMES_INFERENCE_PROVIDER").lower()
    if provider == "custom" and not address.base_url:
        raise HermesError(
            "HERMES_INFERENCE_PROVIDER is custom, but no address is known: set HERMES_CUSTOM_BASE_URL."
        )
    if provider and provider != "custom":
        return HermesModel(_without(model, provider), provider)
    if address.base_url:
        name = model if model_name else endpoint.model if endpoint is not None else _name_of(model)
        return HermesModel(name, "custom", address.base_url, address.api_key, address.api_mode)
    return _by_prefix(model, env, is_fallback)


@dataclass(frozen=True)
class _Address:
    base_url: str = ""
    api_key: str = field(default="", repr=False)
    api_mode: str = ""


def _address(env: Mapping[str, str], endpoint: Endpoint | None) -> _Address:
    """Where a custom provider is: said to hermes, said to every engine, or resolved for the workspace."""
    if base_url := _set(env, "HERMES_CUSTOM_BASE_URL"):
        mode = _set(env, "HERMES_CUSTOM_API_MODE")
        return _Address(base_url.rstrip("/"), _set(env, "HERMES_CUSTOM_API_KEY"), mode)
    if base_url := _set(env, "MOLECULE_MODEL_BASE_URL"):
        mode = _API_MODES.get(_set(env, "MOLECULE_MODEL_PROTOCOL") or "openai-chat", "")
        return _Address(base_url.rstrip("/"), _set(env, "MOLECULE_MODEL_API_KEY"), mode)
    # Hermes speaks no gemini to a custom address; its own provider does.
    if endpoint is not None and endpoint.protocol in _API_MODES:
        return _Address(endpoint.base_url, endpoint.api_key, _API_MODES[endpoint.protocol])
    return _Address()


def _by_prefix(model: str, env: Mapping[str, str], is_fallback: bool) -> HermesModel:
    """The provider that the name begins with; openrouter has models of all, when its key is set."""
    has_openrouter = bool(_set(env, "OPENROUTER_API_KEY"))
    separator = ":" if ":" in model.partition("/")[0] else "/"
    prefix, _, name = (part.strip() for part in model.partition(separator))
    prefix = prefix.lower()
    if name and prefix == "openrouter":
        return HermesModel(name, "openrouter", is_fallback=is_fallback)
    if name and prefix == "openai":
        if has_openrouter:
            return HermesModel(f"openai/{name}", "openrouter", is_fallback=is_fallback)
        return HermesModel(name, "custom", OPENAI_BASE_URL, _set(env, "OPENAI_API_KEY"))
    if not name or prefix not in _PREFIXES:
        return HermesModel(model, "openrouter" if has_openrouter else "auto", is_fallback=is_fallback)
    provider, keys = _PREFIXES[prefix]
    if has_openrouter and separator == "/" and not any(_set(env, key) for key in keys):
        return HermesModel(model, "openrouter", is_fallback=is_fallback)
    return HermesModel(name, provider, is_fallback=is_fallback)


def _name_of(model: str) -> str:
    """The name without the provider of `provider:model`; `vendor/model` is a name of its own."""
    provider, _, name = model.partition(":")
    return name if name and "/" not in provider else model


def _without(model: str, provider: str) -> str:
    """The name without the provider in front of it."""
    for separator in (":", "/"):
        prefix, found, name = model.partition(separator)
        if found and name and prefix.lower() == provider:
            return name
    return model


def _set(env: Mapping[str, str], name: str) -> str:
    return env.get(name, "").strip()
