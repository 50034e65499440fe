"""Questions to a hermes gateway outside of turns: is it there, and what was said in a session."""

from collections.abc import Mapping
from typing import Any, cast

from molecule_runtime.runtimes.hermes import client, executor, settings
from molecule_runtime.runtimes.hermes.client import HermesUnreachable, as_object

PROBE_SECONDS = 5.0


def gateway_health_url() -> str:
    """Where the gateway itself says that it is up."""
    return f"{_settings().base.removesuffix('/v1')}/health"


def plugin_health_url() -> str:
    """Where the plugin in the gateway says that it takes messages."""
    given = _settings()
    host = f"[{given.plugin_host}]" if ":" in given.plugin_host else given.plugin_host
    return f"http://{host}:{given.plugin_port}/a2a/health"


async def problem_at(url: str, seconds: float = PROBE_SECONDS) -> str:
    """Why a health route does not answer 200, by class or status; empty when it does."""
    try:
        reply = await client.send("GET", url, {}, min(seconds, PROBE_SECONDS))
    except HermesUnreachable as problem:
        return problem.kind
    return "" if reply.status == 200 else f"HTTP {reply.status}"


async def session_messages(base: str, headers: Mapping[str, str], session_id: str) -> list[Any] | None:
    """The messages of a session; None where the gateway does not tell them."""
    url = f"{base.removesuffix('/v1')}/api/sessions/{session_id}/messages"
    try:
        reply = await client.send("GET", url, headers, PROBE_SECONDS)
    except HermesUnreachable:
        return None
    told: Any = reply.json() if reply.status == 200 else None
    if isinstance(told, dict):
        told = as_object(told).get("data", as_object(told).get("messages"))
    return cast("list[Any]", told) if isinstance(told, list) else None


def _settings() -> settings.HermesSettings:
    return settings.read_settings(executor.defaults())
