"""Questions to a hermes gateway outside of turns: is it there, and what was said in a session."""

from collections.abc import Mapping
from typing import Any

from molecule_runtime.runtimes.hermes import chat, client, executor, settings
from molecule_runtime.runtimes.hermes.client import HermesUnreachable

PROBE_SECONDS = 5.0


def gateway_health_url() -> str:
    """Where the gateway itself says that it is up."""
    return f"{_settings().base.removesuffix('/v1')}/health"


def plugin_health_url() -> str:
    """Where the plugin in the gateway says that it takes messages."""
    values = _settings()
    host = f"[{values.plugin_host}]" if ":" in values.plugin_host else values.plugin_host
    return f"http://{host}:{values.plugin_port}/a2a/health"


async def problem_at(url: str, seconds: float = PROBE_SECONDS) -> str:
    """Why a health route does not answer 200, by class or status; empty when it does."""
    try:
        reply = await client.send("GET", url, {}, min(seconds, PROBE_SECONDS))
    except HermesUnreachable as problem:
        return problem.kind
    return "" if reply.status == 200 else f"HTTP {reply.status}"


async def session_messages(base: str, headers: Mapping[str, str], session_id: str) -> list[Any] | None:
    """The messages of a session; None where the gateway does not tell them."""
    return await chat.session_messages(base, headers, session_id, PROBE_SECONDS) or None


def _settings() -> settings.HermesSettings:
    return settings.read_settings(executor.defaults())
