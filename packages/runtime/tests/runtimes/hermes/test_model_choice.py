"""Which model and provider hermes is configured with."""

from dataclasses import dataclass

import pytest

from molecule_runtime.runtimes.hermes.errors import HermesError
from molecule_runtime.runtimes.hermes.model_choice import HermesModel, choose_model


@dataclass(frozen=True)
class Endpoint:
    model: str = "claude-x"
    protocol: str = "anthropic"
    base_url: str = "https://models.example/v1"
    api_key: str = "workspace-key"


ROUTER = {"OPENROUTER_API_KEY": "r"}
CUSTOM = {
    "HERMES_CUSTOM_BASE_URL": "http://127.0.0.1:9/v1/",
    "HERMES_CUSTOM_API_KEY": "c",
    "HERMES_CUSTOM_API_MODE": "chat_completions",
}

TABLE: list[tuple[dict[str, str], str, Endpoint | None, HermesModel]] = [
    # Which model
    ({}, "", None, HermesModel("hermes-4-70b", "nous", is_fallback=True)),
    (ROUTER, "", None, HermesModel("nousresearch/hermes-4-70b", "openrouter", is_fallback=True)),
    ({"HERMES_DEFAULT_MODEL": "deepseek/v4"}, "xai/grok", None, HermesModel("v4", "deepseek")),
    (
        {"HERMES_INFERENCE_MODEL": "zai/glm", "HERMES_DEFAULT_MODEL": "xai/grok"},
        "",
        None,
        HermesModel("glm", "zai"),
    ),
    ({"HERMES_INFERENCE_MODEL": "  "}, "anthropic:claude", None, HermesModel("claude", "anthropic")),
    # Which provider, by the prefix
    ({}, "anthropic/claude", None, HermesModel("claude", "anthropic")),
    (ROUTER, "anthropic/claude", None, HermesModel("anthropic/claude", "openrouter")),
    (ROUTER, "anthropic:claude", None, HermesModel("claude", "anthropic")),
    ({**ROUTER, "ANTHROPIC_API_KEY": "a"}, "anthropic/claude", None, HermesModel("claude", "anthropic")),
    ({}, "google/gemini-3", None, HermesModel("gemini-3", "gemini")),
    ({}, "openrouter:qwen/qwen4", None, HermesModel("qwen/qwen4", "openrouter")),
    (ROUTER, "qwen/qwen4:free", None, HermesModel("qwen/qwen4:free", "openrouter")),
    ({}, "some-model", None, HermesModel("some-model", "auto")),
    # OpenAI: through openrouter, else at its own address
    (ROUTER, "openai/gpt-6", None, HermesModel("openai/gpt-6", "openrouter")),
    (
        {"OPENAI_API_KEY": "o"},
        "openai/gpt-6",
        None,
        HermesModel("gpt-6", "custom", "https://api.openai.com/v1", "o"),
    ),
    # Said to hermes
    ({"HERMES_INFERENCE_PROVIDER": "XAI"}, "xai/grok", None, HermesModel("grok", "xai")),
    ({"HERMES_INFERENCE_PROVIDER": "openrouter", **CUSTOM}, "a/b", None, HermesModel("a/b", "openrouter")),
    (
        {"HERMES_INFERENCE_PROVIDER": "custom", **CUSTOM},
        "a/b",
        None,
        HermesModel("a/b", "custom", "http://127.0.0.1:9/v1", "c", "chat_completions"),
    ),
    # Addresses
    (
        CUSTOM,
        "anthropic/claude",
        Endpoint(),
        HermesModel("claude-x", "custom", "http://127.0.0.1:9/v1", "c", "chat_completions"),
    ),
    (
        {"MOLECULE_MODEL_BASE_URL": "http://m/v1", "MOLECULE_MODEL_API_KEY": "k"},
        "openai:any",
        None,
        HermesModel("any", "custom", "http://m/v1", "k", "chat_completions"),
    ),
    (
        {},
        "anthropic/claude-x",
        Endpoint(),
        HermesModel("claude-x", "custom", "https://models.example/v1", "workspace-key", "anthropic_messages"),
    ),
    ({}, "google/gemini", Endpoint(protocol="gemini"), HermesModel("gemini", "gemini")),
    # The endpoint is the one of the workspace's model, not of the one that was named to hermes.
    ({"HERMES_INFERENCE_MODEL": "xai/grok"}, "anthropic/c", Endpoint(), HermesModel("grok", "xai")),
]


@pytest.mark.parametrize(("env", "model", "endpoint", "expected"), TABLE)
def test_the_table(env: dict[str, str], model: str, endpoint: Endpoint | None, expected: HermesModel) -> None:
    assert choose_model(env, model, endpoint) == expected


def test_a_custom_provider_needs_an_address() -> None:
    with pytest.raises(HermesError, match="set HERMES_CUSTOM_BASE_URL"):
        choose_model({"HERMES_INFERENCE_PROVIDER": "custom"}, "x")


def test_the_key_does_not_show() -> None:
    chosen = choose_model(CUSTOM | {"HERMES_CUSTOM_API_KEY": "canary-value"}, "x")
    assert "canary-value" not in repr(chosen)
    assert chosen.section() == {
        "default": "x",
        "provider": "custom",
        "base_url": "http://127.0.0.1:9/v1",
        "api_key": "canary-value",
        "api_mode": "chat_completions",
    }
