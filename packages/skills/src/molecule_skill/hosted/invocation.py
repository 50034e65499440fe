"""Values at the gate: what a transport hands in, who answers an interaction, and the settings of a gate."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from molecule_skill.a2a_client import A2AClient
from molecule_skill.discovery import DiscoveryClient
from molecule_skill.identity import AuthResolver
from molecule_skill.sandbox import SandboxClient
from molecule_wire import JSON, JSONObject
from molecule_wire.values import value

DEFAULT_STORE = Path(".molecule/runs.db")


@value
class Invocation:
    """A request to run a skill, whatever transport it came by.

    `caller_token` is the bearer credential; it goes to the resolver and nowhere else. Names in `headers` are
    lower case. `deadline` is in seconds since the epoch.
    """

    transport: str
    skill: str
    arguments: JSONObject = field(default_factory=dict[str, JSON])
    caller_token: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    grant_token: str | None = None
    idempotency_key: str | None = None
    session_id: str | None = None
    deadline: float | None = None
    traceparent: str | None = None
    run_id: str | None = None
    """The id of the new run, where the transport had to name it before: an A2A task is told at once."""
    origin: JSONObject | None = None
    """What the transport wants to know again after a restart; it is kept with the run."""


@value
class Answerer:
    """Who answers an interaction, as the resolver of the transport found."""

    principal: str
    scopes: tuple[str, ...] = ()
    org_id: str | None = None


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether runs are admitted; `reasons` says why not, `stuck` names runs that ignore cancellation."""

    ok: bool
    reasons: tuple[str, ...] = ()
    stuck: tuple[str, ...] = ()


READY = Readiness(True)


def _from_environment(name: str, default: float) -> float:
    text = os.environ.get(name, "")
    try:
        return float(text) if text else default
    except ValueError:
        raise ValueError(f"{name} must be a number, not {text!r}") from None


@dataclass(frozen=True)
class GateSettings:
    """What surrounds the runs of one agent in this process."""

    resolver: AuthResolver | None = None
    """None: the agent's own `auth_resolver`; without one every caller is `NoAuth`, principal `local`."""
    own_principals: frozenset[str] = frozenset()
    """The principals of this agent and of what works for it: none of them answers its interactions."""
    secrets: Mapping[str, str] = field(default_factory=dict[str, str])
    """Values by name; a run sees only those that the agent declares in `required_secrets`."""
    a2a: A2AClient | None = None
    discovery: DiscoveryClient | None = None
    sandboxes: SandboxClient | None = None
    queue_limit: int = field(default_factory=lambda: int(_from_environment("MOLECULE_SKILL_QUEUE", 64)))
    drain_seconds: float = field(default_factory=lambda: _from_environment("MOLECULE_DRAIN_SECONDS", 30))
    retention_days: float = field(default_factory=lambda: _from_environment("MOLECULE_RUN_RETENTION_DAYS", 7))
    artifact_max_bytes: int = field(
        default_factory=lambda: int(_from_environment("MOLECULE_ARTIFACT_MAX_BYTES", 100 * 1024 * 1024))
    )
    park_after_seconds: float = 300.0
    poll_seconds: float = 2.0
    health_seconds: float = 30.0
