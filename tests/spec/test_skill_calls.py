"""Skills that call skills of other workspaces: the platform's tree decides, its mailbox keeps the calls."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from molecule_skill import A2AAgent, PlatformAuth, RunContext, skill
from molecule_skill.auth import PlatformResolver
from molecule_skill.clients.platform import PlatformA2AClient
from molecule_skill.errors import (
    A2AError,
    CallTimeout,
    MissingScopes,
    SkillInputError,
    SkillInvocationError,
    SkillNotFound,
)
from packages.skills.tests.serve.served import Served, serving
from tests.spec.platforms import Engine, Platform


@pytest.fixture(params=["sqlite"])
def engine(request: pytest.FixtureRequest) -> Engine:
    """The wire is the same on both engines."""
    return request.param


class Colleague(A2AAgent[Any, PlatformAuth]):
    name = "colleague"
    auth_model = PlatformAuth
    concurrency = 4

    @skill()
    async def count(self, ctx: RunContext[PlatformAuth], words: list[str]) -> dict[str, Any]:
        """Count words, and say who asked."""
        return {"words": len(words), "caller": ctx.caller}

    @skill()
    async def write(self, ctx: RunContext[PlatformAuth], name: str) -> str:
        """Write a file."""
        await ctx.emit_artifact(await ctx.write_artifact(name, b"12345", "text/plain"))
        return "written"

    @skill()
    async def slow(self, ctx: RunContext[PlatformAuth], seconds: float) -> str:
        """Take longer than the platform holds a call."""
        for _ in range(int(seconds * 50)):
            await ctx.check_cancelled()
            await asyncio.sleep(0.02)
        return "at last"

    @skill(scopes=("books.read",))
    async def guarded(self, ctx: RunContext[PlatformAuth]) -> str:
        """Needs a scope."""
        return "let in"

    @skill()
    async def fail(self, ctx: RunContext[PlatformAuth]) -> str:
        """Fail."""
        raise LookupError("no such book")


@asynccontextmanager
async def colleague(platform: Platform, parent: str | None = None) -> AsyncGenerator[Served]:
    """A skill agent as a workspace that the platform pushes messages to."""
    workspace_id = platform.create("Colleague", parent)["id"]
    resolver = PlatformResolver(platform.url, workspace_id)
    async with serving(Colleague(), resolver=resolver) as served:
        card = Colleague.card().to_a2a()
        joined = platform.client(workspace_id, agent_card=card, reported_url=served.url)
        await asyncio.to_thread(joined.register)
        yield served


@asynccontextmanager
async def calling(platform: Platform, name: str = "caller") -> AsyncGenerator[tuple[PlatformA2AClient, str]]:
    """The client of a workspace that calls others, and its id."""
    joined = await asyncio.to_thread(platform.join, name)
    token = joined.load_token()
    assert token
    client = PlatformA2AClient(platform.url, joined.workspace_id, token)
    try:
        yield client, joined.workspace_id
    finally:
        await client.close()


async def test_a_skill_of_a_peer_answers_by_name_slug_and_id(platform: Platform) -> None:
    async with colleague(platform) as served, calling(platform) as (client, caller):
        listed = await asyncio.to_thread(platform.ok, "GET", "/workspaces")
        [peer] = [row["id"] for row in listed if row["name"] == "Colleague"]
        for target in ("Colleague", "colleague", peer):
            answer = await client.call(target, "count", args={"words": ["a", "b"]})
            assert answer.result == {"words": 2, "caller": f"workspace:{caller}"}
            assert (await served.app.gate.run(str(answer.run_id), None)).state == "succeeded"
        written = await client.call("Colleague", "write", args={"name": "a/b.txt"})
        assert [(ref.name, ref.mime_type) for ref in written.artifacts] == [("a/b.txt", "text/plain")]


async def test_a_call_outlives_the_hold_of_the_platform_and_ends_with_its_own_time(
    platform: Platform,
) -> None:
    async with colleague(platform), calling(platform) as (client, _):
        assert (await client.call("Colleague", "slow", args={"seconds": 1.5}, timeout=30)).result == "at last"
        with pytest.raises(CallTimeout):
            await client.call("Colleague", "slow", args={"seconds": 4}, timeout=1.5)
        assert (await client.call("Colleague", "count", args={"words": []})).result["words"] == 0


async def test_a_refusal_of_the_callee_is_raised_as_what_it_is(platform: Platform) -> None:
    refusals: list[tuple[str, dict[str, Any], type[Exception], str]] = [
        ("guarded", {}, MissingScopes, "missing-scopes"),
        ("fail", {}, SkillInvocationError, "skill-failed"),
        ("absent", {}, SkillNotFound, "skill-not-found"),
        ("count", {"words": 3}, SkillInputError, "skill-input-invalid"),
    ]
    async with colleague(platform), calling(platform) as (client, _):
        for name, args, kind, code in refusals:
            with pytest.raises(A2AError) as refused:
                await client.call("Colleague", name, args=args)
            assert (isinstance(refused.value, kind), refused.value.code) == (True, code), refused.value


async def test_the_tree_decides_whom_a_skill_may_call(platform: Platform) -> None:
    lead = await asyncio.to_thread(platform.join, "lead")
    async with colleague(platform, lead.workspace_id), calling(platform, "stranger") as (client, _):
        with pytest.raises(KeyError, match="org tree"):
            await client.call("Colleague", "count", args={"words": []})
        listed = await asyncio.to_thread(platform.ok, "GET", "/workspaces")
        [row] = [one for one in listed if one["name"] == "Colleague"]
        with pytest.raises(A2AError) as refused:
            await client.call(row["id"], "count", args={"words": []})
        assert refused.value.status_code in (403, 404)
