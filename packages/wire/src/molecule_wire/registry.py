"""Which runtimes, channels and plugin sources there are: one table each, for every part that asks.

A package adds to a table by an entry point of the group of that table, whose name is the new id. Runtimes are
written with underscores; whoever writes hyphens means the same.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

RUNTIMES_GROUP = "molecule_runtime.adapters"
CHANNELS_GROUP = "molecule.channels"
SOURCES_GROUP = "molecule.plugin_sources"
ADAPTORS_GROUP = "molecule.plugin_adaptors"
"""Not a table: entry points named `<plugin>:<runtime>` that bring an adaptor."""

DEFAULT_RUNTIME = "llm"
EXTERNAL_RUNTIME = "external"


class Entry(NamedTuple):
    """One member of a table.

    `required` holds the ways to configure it, each a set of keys that suffices; `sensitive` the keys whose
    values are secrets.
    """

    id: str
    display_name: str
    required: tuple[tuple[str, ...], ...] = ()
    sensitive: tuple[str, ...] = ()
    since: str = "0.1.0"


def _table(*entries: Entry) -> Mapping[str, Entry]:
    return MappingProxyType({entry.id: entry for entry in entries})


RUNTIMES = _table(
    Entry("echo", "Echo"),
    Entry("llm", "LLM"),
    Entry("python", "Python"),
    Entry("claude_code", "Claude Code"),
    Entry("langgraph", "LangGraph"),
    Entry("deepagents", "Deep Agents"),
    Entry("crewai", "CrewAI"),
    Entry("autogen", "AutoGen"),
    Entry("agent_framework", "Agent Framework"),
    Entry("openai_agents", "OpenAI Agents"),
    Entry("openclaw", "OpenClaw"),
    Entry("hermes", "Hermes"),
    Entry("codex", "Codex"),
    Entry("gemini_cli", "Gemini CLI"),
    Entry("google_adk", "Google ADK"),
    Entry("custom", "Custom"),
    Entry(EXTERNAL_RUNTIME, "External"),
)
CHANNELS = _table(
    Entry("telegram", "Telegram", (("bot_token",),), ("bot_token",)),
    Entry(
        "slack",
        "Slack",
        (("bot_token", "channel_id"), ("webhook_url",)),
        ("bot_token", "webhook_url", "signing_secret"),
    ),
    Entry("discord", "Discord", (("webhook_url",),), ("webhook_url",)),
    Entry("lark", "Lark", (("webhook_url",),), ("webhook_url", "verify_token")),
)
SOURCES = _table(Entry("local", "The platform's plugin directory"), Entry("github", "GitHub"))


def underscored(runtime: str) -> str:
    """A runtime's id as the tables and the manifests keep it."""
    return runtime.replace("-", "_")


def hyphenated(runtime: str) -> str:
    """A runtime's id as workspaces and templates write it."""
    return runtime.replace("_", "-")


def both_spellings(ids: Iterable[str]) -> frozenset[str]:
    """Every id with underscores and with hyphens."""
    return frozenset(spelling for id in ids for spelling in (underscored(id), hyphenated(id)))


SUPPORTED_RUNTIMES = both_spellings(RUNTIMES)
SUPPORTED_CHANNEL_TYPES = frozenset(CHANNELS)


def runtimes(extra: Iterable[str] = ()) -> frozenset[str]:
    """Every runtime known here, with underscores; `extra` are those that the caller knows of besides."""
    named = (underscored(name.strip()) for name in (*entry_point_names(RUNTIMES_GROUP), *extra))
    return frozenset([*RUNTIMES, *(name for name in named if name)])


def channels() -> frozenset[str]:
    """Every kind of channel known here."""
    return frozenset([*CHANNELS, *entry_point_names(CHANNELS_GROUP)])


def sources() -> frozenset[str]:
    """The scheme of every plugin source known here."""
    return frozenset([*SOURCES, *entry_point_names(SOURCES_GROUP)])


@cache
def entry_point_names(group: str) -> frozenset[str]:
    """The names that installed packages add to a group; no package is imported for it.

    They are looked up once: what is installed later counts after a restart.
    """
    from importlib import metadata  # slow to import, and most callers need only the tables

    return frozenset(point.name for point in metadata.entry_points(group=group))
