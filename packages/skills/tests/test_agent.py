"""The agent class: what is checked when it is made, configuration, inheritance, and its card."""

import json
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from molecule_skill import (
    A2AAgent,
    AgentCard,
    AgentEndpoint,
    EgressPolicy,
    Lifecycle,
    LocalRunContext,
    NoAuth,
    Pricing,
    Resources,
    RunContext,
    SkillNotFound,
    State,
    WorkspaceAccess,
    WorkspaceMode,
    skill,
)


class Memory(BaseModel):
    count: int = 0


def make(**body: Any) -> type[A2AAgent[Any, Any]]:
    return type("Made", (A2AAgent,), body)


@pytest.mark.parametrize(
    ("body", "fragment"),
    [
        ({}, "name must be set"),
        ({"name": "   "}, "name must be set"),
        ({"name": "Upper"}, "Upper"),
        ({"name": "-a"}, "-a"),
        ({"name": "a" * 64}, "name"),
        ({"name": "a", "state": "durable"}, "state_model"),
        ({"name": "a", "state": "session", "state_model": Memory}, "ephemeral"),
        ({"name": "a", "state": "sometimes"}, "state"),
        ({"name": "a", "lifecycle": "forever"}, "lifecycle"),
        ({"name": "a", "concurrency": 0}, "concurrency"),
        ({"name": "a", "default_skill": "none"}, "default_skill"),
        ({"name": "a", "required_secrets": "KEY"}, "required_secrets"),
        ({"name": "a", "required_secrets": ("MOLECULE_X",)}, "reserved"),
        ({"name": "a", "config_model": dict}, "config_model"),
        ({"name": "a", "endpoints": (AgentEndpoint(path="/runs/x", skill="s"),)}, "/runs/x"),
        ({"name": "a", "endpoints": (AgentEndpoint(path="/hook", skill="s"),)}, "'s'"),
    ],
)
def test_a_class_that_could_not_run_is_refused(body: dict[str, Any], fragment: str) -> None:
    with pytest.raises(TypeError, match="Made") as caught:
        make(**body)
    assert fragment in str(caught.value)


def test_ephemeral_and_session_are_both_named() -> None:
    with pytest.raises(TypeError, match="ephemeral.*session"):
        make(name="a", state="session", state_model=Memory)


def test_an_abstract_base_needs_no_name_and_its_child_does() -> None:
    base = make(abstract=True)
    with pytest.raises(TypeError, match="name must be set"):
        type("Child", (base,), {})
    with pytest.raises(TypeError, match="abstract"):
        base()


class Greeter(A2AAgent[Any, Any]):
    name = "greeter"
    description = "Greets."
    lifecycle = "warm"
    state, state_model = "durable", Memory
    required_secrets = ("API_KEY",)
    capabilities = {"greeting": True}
    workspace_access = WorkspaceAccess.dynamic(max_files=3)
    egress = EgressPolicy(allow_hosts=("example.org",))
    tools_used = ("search",)

    @skill(tags=["hello"], scopes=["greet"], stream=True, timeout_seconds=5)
    async def greet(self, ctx: RunContext[NoAuth], who: str) -> str:
        """Greets somebody."""
        return f"Hello {who}"

    @skill(name="part")
    async def say_goodbye(self, ctx: RunContext[NoAuth]) -> str:
        return "Bye"


class Loud(Greeter):
    name = "loud"

    @skill
    async def greet(self, ctx: RunContext[NoAuth], who: str, marks: int = 1) -> str:
        """Shouts."""
        return f"HELLO {who}{'!' * marks}"


class Quiet(Greeter):
    name = "quiet"

    async def say_goodbye(self, ctx: RunContext[NoAuth]) -> str:
        return "..."


def ctx() -> LocalRunContext[Any]:
    return LocalRunContext(auth=NoAuth())


async def test_a_parents_skill_can_be_overridden_under_the_same_attribute() -> None:
    assert set(Loud.skills) == {"greet", "part"}
    assert await Loud().invoke("greet", ctx(), who="you", marks="2") == "HELLO you!!"
    assert await Loud().invoke("part", ctx()) == "Bye"


async def test_an_override_without_the_decorator_keeps_the_options_of_the_skill() -> None:
    assert await Quiet().invoke("part", ctx()) == "..."


def test_two_attributes_with_one_skill_name_are_refused() -> None:
    with pytest.raises(TypeError, match="duplicate skill name 'part'"):

        class Twice(Greeter):  # pyright: ignore[reportUnusedClass]
            name = "twice"

            @skill(name="part")
            async def other(self, ctx: RunContext[NoAuth]) -> None: ...


async def test_an_unknown_skill_is_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(SkillNotFound, match="greet, part") as caught:
        await Greeter().invoke("nope", ctx())
    assert isinstance(caught.value, KeyError)


class Settings(BaseModel):
    limit: int = 3


class Configured(A2AAgent[Settings, NoAuth]):
    name = "configured"
    config_model = Settings


def test_configuration_is_none_a_dict_or_an_instance() -> None:
    settings = Settings(limit=9)
    assert Configured().config.limit == 3
    assert Configured({"limit": "5"}).config.limit == 5
    assert Configured(settings).config is settings
    with pytest.raises(ValidationError):
        Configured({"limit": "many"})


def test_plain_strings_stand_for_the_enums() -> None:
    assert (Greeter.lifecycle, Greeter.state) == (Lifecycle.WARM, State.DURABLE)
    assert (Resources().max_runtime_seconds, Pricing().price_per_call_usd) == (600, 0.0)


def test_access_to_files_is_declared_by_factories() -> None:
    assert WorkspaceAccess.none() == WorkspaceAccess()
    access = WorkspaceAccess.dynamic(require_reason=False)
    assert (access.enabled, access.max_files, access.allowed_modes) == (True, 25, (WorkspaceMode.READ_ONLY,))
    assert not access.require_reason


def tuples_in(value: Any) -> bool:
    if isinstance(value, dict):
        return any(tuples_in(one) for one in value.values())  # pyright: ignore[reportUnknownVariableType]
    return isinstance(value, tuple) or (isinstance(value, list) and any(tuples_in(one) for one in value))  # pyright: ignore[reportUnknownVariableType]


def test_the_card_has_lists_alone_and_no_values_of_secrets() -> None:
    card = Greeter.card()
    assert not tuples_in(card.model_dump())
    assert card.required_secrets == ["API_KEY"]
    assert card.skills[0].model_dump() == {
        "id": "greet",
        "name": "greet",
        "description": "Greets somebody.",
        "tags": ["hello"],
        "scopes": ["greet"],
        "stream": True,
        "policy": {
            "timeout_seconds": 5.0,
            "idempotent": False,
            "max_retries": 0,
            "cost_class": "standard",
            "durable": False,
        },
        "input_schema": Greeter.skills["greet"].input_schema,
        "output_schema": {"type": "string"},
    }
    assert card.runtime == Greeter.runtime()
    assert card.state_schema is not None


@pytest.mark.parametrize("agent", [Greeter, Loud, Configured])
def test_native_and_a2a_cards_round_trip(agent: type[A2AAgent[Any, Any]]) -> None:
    card = agent.card()
    assert AgentCard.model_validate(json.loads(json.dumps(card.to_json()))) == card
    assert AgentCard.from_a2a(json.loads(json.dumps(card.to_a2a()))) == card


def test_a_card_of_another_kind_of_agent_is_read_as_far_as_it_goes() -> None:
    card = AgentCard.from_a2a({"name": "x", "skills": [{"id": "s", "name": "S", "tags": ["t"]}]})
    assert (card.name, card.skills[0].id, card.skills[0].tags) == ("x", "s", ["t"])
    with pytest.raises(ValidationError):
        AgentCard.from_a2a({"skills": []})
