"""Checks of an agent class when it is made; every refusal is a TypeError that names the class."""

import inspect
import re
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from molecule_skill.declarations import AgentEndpoint, Availability, Lifecycle, State
from molecule_skill.decorator import build_spec, spec_of
from molecule_skill.spec import SkillSpec

if TYPE_CHECKING:
    from molecule_skill.agent import A2AAgent

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_RESERVED_SECRETS = re.compile(r"(MOLECULE|KUBERNETES)_.*|PORT|HOST|PATH|PYTHONPATH")
_TEXT_TUPLES = ("required_secrets", "required_env", "input_modes", "output_modes", "tools_used")
_ENUMS: dict[str, type[StrEnum]] = {"lifecycle": Lifecycle, "availability": Availability, "state": State}
_SERVED = (
    "healthz", "readyz", ".well-known", "invoke", "runs", "answers", "input-requests", "scope-grants",
    "scope-denials", "message:send", "message:stream", "tasks", "extendedAgentCard", "mcp", "v1", "_dev", "",
)  # fmt: skip
"""First segments of paths that a served agent answers itself."""


def skills_of(cls: "type[A2AAgent[Any, Any]]") -> dict[str, SkillSpec]:
    """The skills of the bases and of the class body by name; an attribute defined again overrides."""
    by_attribute: dict[str, SkillSpec] = {}
    for base in reversed(cls.__mro__):
        for attribute, value in vars(base).items():
            spec = spec_of(value)
            if spec is None and attribute in by_attribute and inspect.isfunction(value):
                # Redefined without the decorator: the same skill by another function.
                spec = build_spec(value, by_attribute[attribute].options)
            if spec is not None:
                by_attribute[attribute] = spec
            elif attribute in by_attribute:
                del by_attribute[attribute]
    found: dict[str, SkillSpec] = {}
    for attribute, spec in by_attribute.items():
        if spec.name in found:
            other = found[spec.name].attribute
            raise TypeError(
                f"{cls.__name__}: duplicate skill name {spec.name!r}: {other} and {attribute} both have it"
            )
        found[spec.name] = spec
    return found


def check_class(cls: "type[A2AAgent[Any, Any]]") -> None:
    """Refuse a class that could not be run or described."""
    _check_name(cls)
    _check_types(cls)
    _check_state_and_limits(cls)
    label = cls.__name__
    for name in cls.required_secrets:
        if _RESERVED_SECRETS.fullmatch(name):
            raise TypeError(f"{label}: required_secrets: the name {name!r} is reserved; choose another")
    if cls.default_skill is not None and cls.default_skill not in cls.skills:
        raise TypeError(f"{label}: default_skill {cls.default_skill!r} is none of {sorted(cls.skills)}")
    for endpoint in cls.endpoints:
        _check_endpoint(cls, endpoint)


def _check_types(cls: "type[A2AAgent[Any, Any]]") -> None:
    label = cls.__name__
    for attribute in _TEXT_TUPLES:
        value: Any = getattr(cls, attribute)
        if isinstance(value, str) or not all(isinstance(one, str) for one in value):
            raise TypeError(f"{label}: {attribute} must be a tuple of texts")
    for attribute, enum in _ENUMS.items():
        declared: Any = getattr(cls, attribute)
        if declared not in list(enum):
            raise TypeError(f"{label}: {attribute} must be one of {', '.join(enum)}, not {declared!r}")
        setattr(cls, attribute, enum(declared))
    for attribute in ("config_model", "auth_model"):
        model: Any = getattr(cls, attribute)
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            raise TypeError(f"{label}: {attribute} must be a pydantic model class")


def _check_state_and_limits(cls: "type[A2AAgent[Any, Any]]") -> None:
    label = cls.__name__
    if cls.state != State.NONE and cls.state_model is None:
        raise TypeError(f"{label}: state {str(cls.state)!r} needs a state_model")
    if cls.lifecycle == Lifecycle.EPHEMERAL and cls.state == State.SESSION:
        raise TypeError(f"{label}: lifecycle ephemeral cannot have state session: use lifecycle session")
    concurrency: Any = cls.concurrency
    if not isinstance(concurrency, int) or isinstance(concurrency, bool) or concurrency < 1:
        raise TypeError(f"{label}: concurrency must be a whole number of 1 or more, not {concurrency!r}")


def _check_name(cls: "type[A2AAgent[Any, Any]]") -> None:
    name: Any = cls.name
    if not isinstance(name, str) or not name.strip():
        raise TypeError(
            f"{cls.__name__}: name must be set to a non-blank text (or abstract = True for a base)"
        )
    if not _NAME.fullmatch(name):
        raise TypeError(f"{cls.__name__}: name {name!r} must match [a-z0-9][a-z0-9._-]{{0,62}}")


def _check_endpoint(cls: "type[A2AAgent[Any, Any]]", endpoint: AgentEndpoint) -> None:
    first = endpoint.path.lstrip("/").partition("/")[0]
    if not endpoint.path.startswith("/") or first in _SERVED:
        raise TypeError(
            f"{cls.__name__}: endpoint path {endpoint.path!r} is taken by the server; choose another"
        )
    if endpoint.skill not in cls.skills:
        raise TypeError(
            f"{cls.__name__}: endpoint {endpoint.path!r} names the unknown skill {endpoint.skill!r}"
        )
