"""The tables of runtimes, channels and sources, which every part reads."""

from importlib import metadata

import pytest

from molecule_wire import registry

PROMISED_RUNTIMES = [
    "echo",
    "llm",
    "python",
    "claude_code",
    "langgraph",
    "deepagents",
    "crewai",
    "autogen",
    "agent_framework",
    "openai_agents",
    "openclaw",
    "hermes",
    "codex",
    "gemini_cli",
    "google_adk",
    "custom",
    "external",
]


def test_every_promised_runtime_is_in_the_table() -> None:
    assert list(registry.RUNTIMES) == PROMISED_RUNTIMES
    assert registry.DEFAULT_RUNTIME in registry.RUNTIMES


def test_supported_runtimes_have_both_spellings() -> None:
    assert {"claude_code", "claude-code", "llm"} <= registry.SUPPORTED_RUNTIMES
    assert isinstance(registry.SUPPORTED_RUNTIMES, frozenset)


def test_channels_say_which_keys_suffice_and_which_are_secret() -> None:
    assert (
        set(registry.CHANNELS) == {"telegram", "slack", "discord", "lark"} == registry.SUPPORTED_CHANNEL_TYPES
    )
    assert registry.CHANNELS["slack"].required == (("bot_token", "channel_id"), ("webhook_url",))
    assert all(
        set(entry.sensitive) & {key for way in entry.required for key in way}
        for entry in registry.CHANNELS.values()
    )


def test_callers_may_know_more_runtimes() -> None:
    assert {"my_own", "llm"} <= registry.runtimes(["my-own", " ", ""])
    assert "" not in registry.runtimes([""])


def test_the_sources_are_those_of_the_contract() -> None:
    assert registry.sources() >= {"local", "github"}
    assert registry.channels() >= registry.SUPPORTED_CHANNEL_TYPES


def test_every_entry_has_a_name_for_people_and_a_version() -> None:
    for table in (registry.RUNTIMES, registry.CHANNELS, registry.SOURCES):
        assert all(entry.display_name and entry.since and entry.id == id for id, entry in table.items())


def test_an_installed_package_adds_to_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    points = metadata.EntryPoints(
        [
            metadata.EntryPoint("my-engine", "nowhere:Engine", registry.RUNTIMES_GROUP),
            metadata.EntryPoint("fax", "nowhere:Fax", registry.CHANNELS_GROUP),
            metadata.EntryPoint("gitlab", "nowhere:GitLab", registry.SOURCES_GROUP),
        ]
    )
    monkeypatch.setattr(metadata, "entry_points", points.select)
    registry.entry_point_names.cache_clear()
    try:
        assert "my_engine" in registry.runtimes()
        assert "fax" in registry.channels()
        assert "gitlab" in registry.sources()
    finally:
        registry.entry_point_names.cache_clear()
