"""Skill specification: what the decorator says of a handler and what its signature adds."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from molecule_skill.arguments import Arguments
from molecule_skill.results import ResultType

Handler = Callable[..., Awaitable[Any]]


@dataclass(frozen=True)
class SkillOptions:
    """The keywords of `@skill`."""

    name: str | None = None
    description: str | None = None
    tags: Sequence[str] = ()
    scopes: Sequence[str] = ()
    stream: bool = False
    input_schema: dict[str, Any] | None = None
    timeout_seconds: float | None = None
    idempotent: bool = False
    max_retries: int = 0
    durable: bool = False
    concurrency: int | None = None
    allow_scope_expansion: bool = False
    cost_class: str = "standard"
    grant_mode: str | None = None
    grant_read: Sequence[str] | None = None
    grant_deny: Sequence[str] | None = None
    grant_write: Sequence[str] | None = None
    grant_ttl_seconds: int | None = None


@dataclass(frozen=True)
class SkillSpec:
    """A skill of an agent class."""

    name: str
    description: str
    tags: tuple[str, ...]
    scopes: tuple[str, ...]
    stream: bool
    timeout_seconds: float | None
    idempotent: bool
    max_retries: int
    durable: bool
    concurrency: int | None
    allow_scope_expansion: bool
    cost_class: str
    grant_mode: str | None
    grant_read: tuple[str, ...] | None
    grant_deny: tuple[str, ...] | None
    grant_write: tuple[str, ...] | None
    grant_ttl_seconds: int | None
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    handler: Handler = field(repr=False)
    attribute: str = field(repr=False)
    """The name of the handler in its class: redefining it there overrides the skill."""
    context_parameter: str = field(repr=False)
    arguments: Arguments = field(repr=False)
    result_type: ResultType = field(repr=False)
    options: SkillOptions = field(repr=False)

    @property
    def is_rerunnable(self) -> bool:
        """Whether a run that waited for a person is run again from its journal after a restart."""
        return self.durable or self.idempotent
