"""Agent card: what an agent is and can do, in its native form and in that of A2A."""

from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from molecule_skill.declarations import AgentRuntime
from molecule_skill.spec import SkillSpec
from molecule_skill.workspace import WorkspaceAccess
from molecule_wire import JSON, JSONObject

EXTENSION_URI = "urn:molecule:skills:1"
"""The A2A extension whose parameters are the native card: what A2A has no member for is not lost."""

DEFAULT_MODES = ("application/json",)


class SkillPolicy(BaseModel):
    """How a skill may be run."""

    model_config = ConfigDict(frozen=True)

    timeout_seconds: float | None = None
    idempotent: bool = False
    max_retries: int = 0
    cost_class: str = "standard"
    durable: bool = False


class CardSkill(BaseModel):
    """A skill as the card shows it."""

    model_config = ConfigDict(frozen=True)

    id: str
    name: str
    description: str = ""
    tags: list[str] = Field(default_factory=list)
    scopes: list[str] = Field(default_factory=list)
    stream: bool = False
    policy: SkillPolicy = SkillPolicy()
    input_schema: dict[str, Any] = Field(default_factory=dict)
    output_schema: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def of(cls, spec: SkillSpec, max_runtime_seconds: float) -> "CardSkill":
        """The public part of a specification."""
        policy = SkillPolicy(
            timeout_seconds=spec.timeout_seconds or max_runtime_seconds,
            idempotent=spec.idempotent,
            max_retries=spec.max_retries,
            cost_class=spec.cost_class,
            durable=spec.durable,
        )
        return cls(
            id=spec.name,
            name=spec.name,
            description=spec.description,
            tags=list(spec.tags),
            scopes=list(spec.scopes),
            stream=spec.stream,
            policy=policy,
            input_schema=spec.input_schema,
            output_schema=spec.output_schema,
        )


class AgentCard(BaseModel):
    """The native card of an agent."""

    model_config = ConfigDict(frozen=True)

    name: str
    description: str = ""
    version: str = "0.1.0"
    skills: list[CardSkill] = Field(default_factory=list[CardSkill])
    capabilities: dict[str, Any] = Field(default_factory=dict)
    input_modes: list[str] = Field(default_factory=lambda: list(DEFAULT_MODES))
    output_modes: list[str] = Field(default_factory=lambda: list(DEFAULT_MODES))
    required_secrets: list[str] = Field(default_factory=list)
    required_env: list[str] = Field(default_factory=list)
    consumer_setup: dict[str, Any] | None = None
    runtime: AgentRuntime = AgentRuntime()
    state_schema: dict[str, Any] | None = None
    workspace_access: WorkspaceAccess = WorkspaceAccess()

    @model_serializer(mode="wrap")
    def _with_lists(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return _lists(serialise(self))

    def to_json(self) -> JSONObject:
        """The card as JSON."""
        return cast("JSONObject", self.model_dump(mode="json"))

    def to_a2a(self) -> JSONObject:
        """The members with which an A2A 1.0 card describes an agent; the server adds how it is reached."""
        extension: JSONObject = {
            "uri": EXTENSION_URI,
            "description": "Schemas, scopes and policies of the skills",
            "params": self.to_json(),
        }
        return {
            "name": self.name,
            "description": self.description or self.name,
            "version": self.version,
            "capabilities": {
                "streaming": True,
                "pushNotifications": False,
                "extensions": [extension],
            },
            "defaultInputModes": [*self.input_modes],
            "defaultOutputModes": [*self.output_modes],
            "skills": [_a2a_skill(one) for one in self.skills],
        }

    @classmethod
    def from_a2a(cls, card: JSONObject) -> "AgentCard":
        """The native card inside an A2A card, or the little that one of another kind of agent says.

        Raises ValueError for what is no card.
        """
        for extension in _objects(_object(card.get("capabilities")).get("extensions")):
            if extension.get("uri") == EXTENSION_URI:
                return cls.model_validate(extension.get("params"))
        return cls.model_validate(
            {
                "name": card.get("name"),
                "description": card.get("description") or "",
                "version": card.get("version") or "0.1.0",
                "skills": [_native_skill(one) for one in _objects(card.get("skills"))],
                "capabilities": {},
                "input_modes": card.get("defaultInputModes") or [*DEFAULT_MODES],
                "output_modes": card.get("defaultOutputModes") or [*DEFAULT_MODES],
            }
        )


def _a2a_skill(skill: CardSkill) -> JSON:
    # A2A wants a description and at least one tag.
    return {
        "id": skill.id,
        "name": skill.name,
        "description": skill.description or skill.name,
        "tags": [*(skill.tags or [skill.id])],
    }


def _native_skill(skill: JSONObject) -> JSONObject:
    name = skill.get("id") or skill.get("name")
    return {
        "id": name,
        "name": skill.get("name") or name,
        "description": skill.get("description") or "",
        "tags": skill.get("tags") or [],
    }


def _lists(value: Any) -> Any:
    """The value with every sequence a list."""
    if isinstance(value, dict):
        return {name: _lists(one) for name, one in cast("dict[str, Any]", value).items()}
    return [_lists(one) for one in cast("list[Any]", value)] if isinstance(value, list | tuple) else value


def _object(value: JSON) -> JSONObject:
    return value if isinstance(value, dict) else {}


def _objects(value: JSON) -> list[JSONObject]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
