"""Agents of one process call each other with nothing between them but JSON."""

import asyncio
from datetime import datetime
from typing import Any

import pytest

from molecule_skill import a2a_client
from molecule_skill.a2a_client import InMemoryA2AClient, InProcessA2AClient
from molecule_skill.agent import A2AAgent
from molecule_skill.context import RunContext
from molecule_skill.decorator import skill
from molecule_skill.errors import (
    CallLimitExceeded,
    CallTimeout,
    GrantDelegationDenied,
    MissingScopes,
    SkillInputError,
    SkillNotFound,
)
from molecule_skill.identity import APIKeyAuth, NoAuth
from molecule_skill.local_context import LocalRunContext
from packages.skills.tests.clients.agents import Echo, Forecaster, Planner


def client(*agents: A2AAgent[Any, Any], **options: Any) -> InProcessA2AClient:
    return InProcessA2AClient(agents or (Forecaster(), Planner(), Echo()), **options)


def test_the_client_has_its_other_name_and_both_keywords() -> None:
    assert InMemoryA2AClient is InProcessA2AClient
    assert a2a_client.InProcessA2AClient(agents=[Forecaster()], ctx_factory=None)


async def test_a_call_gives_result_events_and_artifacts() -> None:
    found = await client().call("forecaster", "tomorrow", args={"city": "Basel"})
    assert found.result == {"city": "Basel", "degrees": 21.5}
    assert [event["kind"] for event in found.events] == ["progress", "artifact"]
    assert [(ref["name"], ref["mime_type"], ref["size_bytes"]) for ref in found.artifacts] == [
        ("map.txt", "text/plain", 3)
    ]
    assert found.run_id
    assert found.run_id.startswith("run_")


async def test_a_callee_calls_on() -> None:
    found = await client().call("planner", "plan", args={"city": "Basel"})
    assert found.result == "Basel: 21.5"


async def test_agents_may_be_given_by_name() -> None:
    named = InProcessA2AClient({"whatever": Forecaster()})
    assert (await named.call("forecaster", "tomorrow", args={"city": "x"})).result["city"] == "x"


async def test_an_unknown_target_and_an_unknown_skill_are_named() -> None:
    with pytest.raises(KeyError, match="nobody"):
        await client().call("nobody", "x")
    with pytest.raises(SkillNotFound):
        await client().call("forecaster", "yesterday")


async def test_a_callee_gets_neither_scopes_nor_secrets_nor_a_workspace_of_its_caller() -> None:
    seen: list[RunContext[Any]] = []

    class Curious(A2AAgent[Any, Any]):
        name = "curious"

        @skill()
        async def look(self, ctx: RunContext[Any]) -> str:
            """Look around."""
            seen.append(ctx)
            return "x"

    class Caller(A2AAgent[Any, Any]):
        name = "caller"

        @skill()
        async def go(self, ctx: RunContext[Any]) -> str:
            """Call somebody."""
            return str((await ctx.call("curious", "look")).result)

    auth = APIKeyAuth(api_key_id="me", scopes=("admin",))
    calls = client(Curious())
    ctx = LocalRunContext(auth=auth, secrets={"KEY": "sk-very-secret"}, workspace=object(), a2a=calls)
    assert await Caller().invoke("go", ctx) == "x"
    assert isinstance(seen[0].auth, NoAuth)
    assert not isinstance(seen[0].auth, APIKeyAuth)
    with pytest.raises(KeyError):
        seen[0].secret("KEY")
    with pytest.raises(PermissionError, match="no workspace bound"):
        _ = seen[0].workspace


async def test_scopes_of_a_skill_are_asked_of_the_context_that_the_factory_makes() -> None:
    with pytest.raises(MissingScopes):
        await client().call("forecaster", "change", args={"city": "x"})
    made: list[tuple[str, str | None]] = []

    def factory(agent: A2AAgent[Any, Any], grant: str | None) -> RunContext[Any]:
        made.append((agent.name, grant))
        return LocalRunContext(auth=APIKeyAuth(api_key_id="a", scopes=("forecast.write",)))

    allowed = client(Forecaster(), ctx_factory=factory)
    assert (await allowed.call("forecaster", "change", args={"city": "x"}, grant="g")).result == "rain"
    await allowed.call("forecaster", "tomorrow", args={"city": "x"})
    assert made == [("forecaster", "g"), ("forecaster", None)]


async def test_a_grant_that_nobody_verifies_is_refused() -> None:
    with pytest.raises(GrantDelegationDenied):
        await client().call("forecaster", "tomorrow", args={"city": "x"}, grant="token")


async def test_arguments_pass_through_json() -> None:
    with pytest.raises(SkillInputError, match="not JSON"):
        await client().call("forecaster", "tomorrow", args={"city": datetime.now().astimezone()})


async def test_a_call_that_takes_too_long_is_cancelled() -> None:
    before = asyncio.get_running_loop().time()
    with pytest.raises(CallTimeout, match=r"0\.05 s"):
        await client().call("forecaster", "sleep", args={"seconds": 30}, timeout=0.05)
    assert asyncio.get_running_loop().time() - before < 8


async def test_a_circle_and_too_many_calls_are_refused() -> None:
    with pytest.raises(CallLimitExceeded, match="circle"):
        await client().call("echo", "again", args={"target": "echo", "times": 1})

    class Other(Echo):
        name = "other"

    calls = client(Echo(), Other())
    assert (await calls.call("echo", "again", args={"target": "other", "times": 60})).result == 60
    with pytest.raises(CallLimitExceeded, match="64"):
        await calls.call("echo", "again", args={"target": "other", "times": 10})


async def test_another_run_has_calls_of_its_own() -> None:
    calls = client()

    async def run() -> int:
        for _ in range(40):
            await calls.call("echo", "once")
        return 40

    assert await asyncio.gather(asyncio.create_task(run()), asyncio.create_task(run())) == [40, 40]
