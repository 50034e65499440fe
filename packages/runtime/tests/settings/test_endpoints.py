"""Which endpoint a model has: provider, base URL, protocol and key, each by its precedence."""

import pytest

from molecule_runtime.domain.config import RuntimeConfig
from molecule_runtime.settings.endpoints import PROVIDERS, EndpointError, resolve_endpoint

TABLE: list[tuple[str, str, str, list[str]]] = [
    ("anthropic", "https://api.anthropic.com", "anthropic", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"]),
    ("openai", "https://api.openai.com/v1", "openai-chat", ["OPENAI_API_KEY"]),
    ("openrouter", "https://openrouter.ai/api/v1", "openai-chat", ["OPENROUTER_API_KEY"]),
    ("groq", "https://api.groq.com/openai/v1", "openai-chat", ["GROQ_API_KEY"]),
    ("cerebras", "https://api.cerebras.ai/v1", "openai-chat", ["CEREBRAS_API_KEY"]),
    ("qianfan", "https://qianfan.baidubce.com/v2", "openai-chat", ["QIANFAN_API_KEY", "AISTUDIO_API_KEY"]),
    (
        "google_genai",
        "https://generativelanguage.googleapis.com",
        "gemini",
        ["GOOGLE_API_KEY", "GEMINI_API_KEY"],
    ),
    ("ollama", "http://localhost:11434/v1", "openai-chat", []),
]


@pytest.mark.parametrize(("provider", "base_url", "protocol", "keys"), TABLE)
def test_a_provider_of_the_table_is_used_as_it_stands(
    provider: str, base_url: str, protocol: str, keys: list[str]
) -> None:
    endpoint = resolve_endpoint(f"{provider}:m", {}, {})
    assert (endpoint.provider, endpoint.model) == (provider, "m")
    assert (endpoint.base_url, endpoint.protocol, endpoint.api_key) == (base_url, protocol, "")
    assert endpoint.lacks_key is bool(keys)
    for first, name in enumerate(keys):
        env = {key: f"value of {key}" for key in keys[first:]}
        found = resolve_endpoint(f"{provider}:m", {}, env)
        assert (found.api_key, found.lacks_key) == (f"value of {name}", False)


def test_the_table_is_complete() -> None:
    assert set(PROVIDERS) == {row[0] for row in TABLE} | {"custom"}


@pytest.mark.parametrize(
    ("model", "provider", "name"),
    [
        ("openai:gpt-5", "openai", "gpt-5"),
        ("openai/gpt-5", "openai", "gpt-5"),
        ("OpenAI:gpt-5", "openai", "gpt-5"),
        ("ollama:llama3:8b", "ollama", "llama3:8b"),
        ("openrouter:meta/llama:free", "openrouter", "meta/llama:free"),
        ("openrouter/meta/llama:free", "openrouter", "meta/llama:free"),
        ("claude-opus-4-7", "anthropic", "claude-opus-4-7"),
        ("meta/llama", "anthropic", "meta/llama"),
    ],
)
def test_a_model_names_its_provider_or_has_the_default_one(model: str, provider: str, name: str) -> None:
    endpoint = resolve_endpoint(model, None, {})
    assert (endpoint.provider, endpoint.model) == (provider, name)
    assert resolve_endpoint("llama", None, {}, default_provider="ollama").provider == "ollama"


def test_the_base_url_has_its_precedence() -> None:
    env = {"MOLECULE_MODEL_BASE_URL": "http://one/", "OPENAI_BASE_URL": "http://three"}
    config = {"provider_url": "http://two"}
    assert resolve_endpoint("openai:m", config, env).base_url == "http://one"
    env.pop("MOLECULE_MODEL_BASE_URL")
    assert resolve_endpoint("openai:m", config, env).base_url == "http://two"
    assert (
        resolve_endpoint("openai:m", RuntimeConfig(provider_url="http://two"), env).base_url == "http://two"
    )
    assert resolve_endpoint("openai:m", {}, env).base_url == "http://three"
    assert resolve_endpoint("openai:m", {}, {"OPENAI_BASE_URL": " "}).base_url == PROVIDERS["openai"].base_url


def test_key_and_protocol_have_their_precedence() -> None:
    env = {
        "MOLECULE_MODEL_API_KEY": "first",
        "OPENAI_API_KEY": "second",
        "MOLECULE_MODEL_PROTOCOL": "anthropic",
    }
    config = {"api_mode": "openai-responses"}
    endpoint = resolve_endpoint("openai:m", config, env)
    assert (endpoint.api_key, endpoint.protocol) == ("first", "anthropic")
    endpoint = resolve_endpoint("openai:m", config, {"OPENAI_API_KEY": "second"})
    assert (endpoint.api_key, endpoint.protocol) == ("second", "openai-responses")


def test_a_provider_that_is_not_in_the_table_needs_a_base_url() -> None:
    env = {"MY_LAB_BASE_URL": "http://lab.test/v1", "MY_LAB_API_KEY": "k"}
    endpoint = resolve_endpoint("my-lab:m", {}, env)
    assert (endpoint.base_url, endpoint.protocol, endpoint.api_key) == (
        "http://lab.test/v1",
        "openai-chat",
        "k",
    )
    for provider in ("my-lab", "custom"):
        with pytest.raises(EndpointError, match="has no base URL"):
            resolve_endpoint(f"{provider}:m", {}, {})
    custom = resolve_endpoint("custom:m", {"provider_url": "http://c", "api_mode": "gemini"}, {})
    assert (custom.protocol, custom.lacks_key) == ("gemini", False)


@pytest.mark.parametrize("url", ["ftp://host", "host:1", "http://", "http://[", "//host"])
def test_a_base_url_must_be_http(url: str) -> None:
    with pytest.raises(EndpointError, match="no http or https URL"):
        resolve_endpoint("openai:m", {"provider_url": url}, {})


def test_unknown_protocols_and_empty_models_are_refused() -> None:
    with pytest.raises(EndpointError, match="openai-chat, openai-responses, anthropic, gemini"):
        resolve_endpoint("openai:m", {"api_mode": "smoke-signals"}, {})
    for model in ("", "openai:", "  "):
        with pytest.raises(EndpointError, match="has no name"):
            resolve_endpoint(model, {}, {})


def test_a_bearer_token_of_anthropic_is_sent_as_such() -> None:
    endpoint = resolve_endpoint("anthropic:m", {}, {"ANTHROPIC_AUTH_TOKEN": "bearer"})
    assert (endpoint.api_key, endpoint.headers) == ("bearer", {"Authorization": "Bearer bearer"})
    assert resolve_endpoint("anthropic:m", {}, {"ANTHROPIC_API_KEY": "key"}).headers == {}


def test_the_text_form_never_shows_the_key() -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "MOLECULE_MODEL_API_KEY"):
        endpoint = resolve_endpoint("anthropic:m", {}, {name: "very-secret"})
        assert endpoint.api_key == "very-secret"
        assert "very-secret" not in f"{endpoint!r} {endpoint}"
