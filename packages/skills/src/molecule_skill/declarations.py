"""Value types with which an agent class declares how it runs."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class Lifecycle(StrEnum):
    """How long an instance of the agent lives: one run, one session, or as long as the process."""

    EPHEMERAL = "ephemeral"
    SESSION = "session"
    WARM = "warm"


class State(StrEnum):
    """What the agent remembers between runs."""

    NONE = "none"
    SESSION = "session"
    DURABLE = "durable"


class Availability(StrEnum):
    """Whether the agent may be stopped while it has nothing to do."""

    ON_DEMAND = "on_demand"
    ALWAYS_ON = "always_on"


class _Declaration(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Resources(_Declaration):
    """What one instance needs; the engine enforces the running time, the container the rest."""

    cpu: str = "100m"
    memory: str = "256Mi"
    gpu: int = Field(default=0, ge=0)
    max_runtime_seconds: float = Field(default=600, gt=0)


class Pricing(_Declaration):
    """What a call costs; shown on the card."""

    price_per_call_usd: float = Field(default=0.0, ge=0)
    caller_pays_llm: bool = False
    notes: str = ""


class EgressPolicy(_Declaration):
    """Which hosts the agent's code may reach."""

    allow_hosts: tuple[str, ...] = ()
    allow_internal_services: tuple[str, ...] = ()
    deny_internet_by_default: bool = True


class AgentEndpoint(_Declaration):
    """A raw HTTP path that runs a skill."""

    path: str
    methods: tuple[str, ...] = ("POST",)
    skill: str
    body_arg: str = "body"
    headers_arg: str | None = None
    query_arg: str | None = None


class AgentRuntime(_Declaration):
    """How an agent runs, as its card tells."""

    lifecycle: Lifecycle = Lifecycle.EPHEMERAL
    state: State = State.NONE
    availability: Availability = Availability.ON_DEMAND
    resources: Resources = Resources()
    concurrency: int = Field(default=1, ge=1)
    egress: EgressPolicy = EgressPolicy()
    tools_used: list[str] = Field(default_factory=list)
    pricing: Pricing = Pricing()
    llm_provisioning: str = "platform"


class EmptyConfig(_Declaration):
    """Configuration of an agent that has none."""
