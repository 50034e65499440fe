"""Agent class: skills as typed async methods, and what the class declares about running them."""

from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel

from molecule_skill import agent_checks
from molecule_skill.card import AgentCard, CardSkill
from molecule_skill.context import AuthT, RunContext
from molecule_skill.declarations import (
    AgentEndpoint,
    AgentRuntime,
    Availability,
    EgressPolicy,
    EmptyConfig,
    Lifecycle,
    Pricing,
    Resources,
    State,
)
from molecule_skill.identity import AuthResolver, NoAuth
from molecule_skill.spec import SkillSpec
from molecule_skill.workspace import WorkspaceAccess
from molecule_wire import JSON

ConfigT = TypeVar("ConfigT", bound=BaseModel)


class A2AAgent(Generic[ConfigT, AuthT]):
    """Base class of agents. What a class declares is checked when the class is made."""

    abstract: ClassVar[bool] = True
    name: ClassVar[str] = ""
    description: ClassVar[str] = ""
    version: ClassVar[str] = "0.1.0"
    config_model: ClassVar[type[BaseModel]] = EmptyConfig
    auth_model: ClassVar[type[BaseModel]] = NoAuth
    auth_resolver: ClassVar[AuthResolver | None] = None
    required_secrets: ClassVar[tuple[str, ...]] = ()
    required_env: ClassVar[tuple[str, ...]] = ()
    consumer_setup: ClassVar[type[BaseModel] | None] = None
    capabilities: ClassVar[dict[str, Any]] = {}
    input_modes: ClassVar[tuple[str, ...]] = ("application/json",)
    output_modes: ClassVar[tuple[str, ...]] = ("application/json",)
    default_skill: ClassVar[str | None] = None
    lifecycle: ClassVar[Lifecycle | str] = Lifecycle.EPHEMERAL
    availability: ClassVar[Availability | str] = Availability.ON_DEMAND
    state: ClassVar[State | str] = State.NONE
    state_model: ClassVar[type[BaseModel] | None] = None
    resources: ClassVar[Resources] = Resources()
    concurrency: ClassVar[int] = 1
    egress: ClassVar[EgressPolicy] = EgressPolicy()
    workspace_access: ClassVar[WorkspaceAccess] = WorkspaceAccess.none()
    tools_used: ClassVar[tuple[str, ...]] = ()
    pricing: ClassVar[Pricing] = Pricing()
    llm_provisioning: ClassVar[str] = "platform"
    endpoints: ClassVar[tuple[AgentEndpoint, ...]] = ()

    skills: ClassVar[dict[str, SkillSpec]] = {}

    config: ConfigT

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        cls.skills = agent_checks.skills_of(cls)
        if vars(cls).get("abstract") is True:
            return
        cls.abstract = False
        agent_checks.check_class(cls)

    def __init__(self, config: ConfigT | Mapping[str, Any] | None = None) -> None:
        if self.abstract:
            raise TypeError(f"{type(self).__name__} is abstract: make a subclass with a name")
        is_model = isinstance(config, self.config_model)
        self.config = config if is_model else self.config_model.model_validate(config or {})  # type: ignore[assignment]

    # Running skills

    async def invoke(self, skill: str, ctx: RunContext[Any], **kwargs: Any) -> Any:
        """Run a skill with Python values in and out."""
        from molecule_skill import engine

        return (await engine.invoke(self, skill, ctx, kwargs)).value

    async def invoke_json(self, skill: str, ctx: RunContext[Any], payload: dict[str, Any]) -> JSON:
        """Run a skill with decoded JSON in and out."""
        from molecule_skill import engine

        return (await engine.invoke(self, skill, ctx, payload, is_json=True)).json

    async def local_invoke(
        self,
        skill: str,
        *,
        auth: BaseModel | None = None,
        secrets: Mapping[str, str] | None = None,
        task_id: str = "local-task",
        workspace: Any = None,
        sandbox: Any = None,
        a2a: Any = None,
        discover: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Run a skill under a `LocalRunContext` made for it."""
        from molecule_skill.local_context import LocalRunContext

        ctx = LocalRunContext(
            auth=NoAuth() if auth is None else auth,
            task_id=task_id,
            secrets=secrets,
            workspace=workspace,
            sandbox=sandbox,
            a2a=a2a,
            discover=discover,
        )
        return await self.invoke(skill, ctx, **kwargs)

    # Lifecycle, for subclasses to override

    async def startup(self, ctx: Any) -> None:
        """Called once before the first run; `ctx` is a `LifecycleContext`."""

    async def shutdown(self, ctx: Any) -> None:
        """Called once when the process ends; `ctx` is a `LifecycleContext`."""

    async def health(self) -> bool:
        """Whether the agent can work now; asked every 30 seconds."""
        return True

    # Description

    @classmethod
    def runtime(cls) -> AgentRuntime:
        """How the agent runs, as its card tells."""
        return AgentRuntime(
            lifecycle=Lifecycle(cls.lifecycle),
            state=State(cls.state),
            availability=Availability(cls.availability),
            resources=cls.resources,
            concurrency=cls.concurrency,
            egress=cls.egress,
            tools_used=list(cls.tools_used),
            pricing=cls.pricing,
            llm_provisioning=cls.llm_provisioning,
        )

    @classmethod
    def card(cls) -> AgentCard:
        """The card of the agent."""
        seconds = cls.resources.max_runtime_seconds
        return AgentCard(
            name=cls.name,
            description=cls.description,
            version=cls.version,
            skills=[CardSkill.of(spec, seconds) for spec in cls.skills.values()],
            capabilities=dict(cls.capabilities),
            input_modes=list(cls.input_modes),
            output_modes=list(cls.output_modes),
            required_secrets=list(cls.required_secrets),
            required_env=list(cls.required_env),
            consumer_setup=cls.consumer_setup.model_json_schema() if cls.consumer_setup else None,
            runtime=cls.runtime(),
            state_schema=cls.state_model.model_json_schema() if cls.state_model else None,
            workspace_access=cls.workspace_access,
        )
