"""The testing kit, and the kit's claim: a skill behaves the same in every place."""

from typing import Any

import pytest
from pydantic import BaseModel

from molecule_skill import A2AAgent, AgentEvent, APIKeyAuth, CallResult, RetryableError, RunContext, skill
from molecule_skill.testing import (
    CallRecorder,
    Case,
    CaseResult,
    Decline,
    RecordedCall,
    ScriptedPeer,
    assert_same_everywhere,
)


class Size(BaseModel):
    size: int


class Sample(A2AAgent[Any, Any]):
    name = "sample"
    auth_model = BaseModel
    required_secrets = ("TOKEN",)

    @skill(scopes=["work"])
    async def work(self, ctx: RunContext[Any], n: int) -> dict[str, Any]:
        await ctx.emit_progress("working")
        await ctx.emit_event(AgentEvent("author.kind", {"n": n}))
        doubled = await ctx.step("double", lambda: n * 2)
        ref = await ctx.write_artifact("a.txt", b"abc", "text/plain")
        await ctx.emit_artifact(ref)
        return {"doubled": doubled, "size": ref.size_bytes, "secret": bool(ctx.secret("TOKEN"))}

    @skill
    async def asks(self, ctx: RunContext[Any]) -> list[Any]:
        name = await ctx.ask("name?")
        form = await ctx.collect(Size, title="size?")
        return [name, form.size]

    @skill
    async def fails(self, ctx: RunContext[Any], how: str) -> int:
        if how == "retryable":
            raise RetryableError("later")
        if how == "output":
            return "text"  # type: ignore[return-value]
        raise ValueError(how)

    @skill
    async def calls(self, ctx: RunContext[Any]) -> Any:
        return (await ctx.call("peer", "work", args={"n": 1}, timeout=3)).result

    @skill
    async def tells(self, ctx: RunContext[Any]) -> int:
        kind = "local" if type(ctx).__name__ == "LocalRunContext" else "hosted"
        await ctx.emit_progress(kind)
        return 1 if kind == "local" else 2


AUTH = APIKeyAuth(api_key_id="k", scopes=("work",))
SECRETS = {"TOKEN": "hunter2hunter2"}


def case(skill_name: str, answers: list[Any] | None = None, **arguments: Any) -> Case:
    return Case(skill_name, arguments, answers or [], AUTH, SECRETS)


async def test_one_list_of_cases_is_seen_the_same_everywhere() -> None:
    seen = await assert_same_everywhere(
        Sample,
        [
            case("work", n="2"),
            case("work", wrong=1),
            case("nope"),
            case("asks", answers=["Ada", {"size": 4}]),
            case("asks", answers=["Ada", Size(size=5)]),
            case("asks", answers=[Decline("no")]),
            case("fails", how="value"),
            case("fails", how="retryable"),
            case("fails", how="output"),
            Case("work", {"n": 1}, secrets=SECRETS),
        ],
    )
    pauses = ("question", "interaction_closed", "input_request", "interaction_closed")
    assert seen == [
        CaseResult({"doubled": 4, "size": 3, "secret": True}, None, ("progress", "author.kind", "artifact")),
        CaseResult(None, "skill-input-invalid"),
        CaseResult(None, "skill-not-found"),
        CaseResult(["Ada", 4], None, pauses),
        CaseResult(["Ada", 5], None, pauses),
        CaseResult(None, "declined", ("question", "interaction_closed")),
        CaseResult(None, "skill-failed"),
        CaseResult(None, "skill-failed"),
        CaseResult(None, "skill-output-invalid"),
        CaseResult(None, "missing-scopes"),
    ]


async def test_a_skill_that_differs_between_places_is_caught() -> None:
    with pytest.raises(AssertionError, match=r"(?s)local context.*in process"):
        await assert_same_everywhere(Sample(), [case("tells")])


async def test_calls_are_recorded_and_peers_follow_their_script() -> None:
    peer = ScriptedPeer({"peer.work": [CallResult(1), lambda n: n + 1, ConnectionError("gone")]})  # type: ignore[misc]  # pyright: ignore
    recorder = CallRecorder(peer)
    sample = Sample()
    results = [await sample.local_invoke("calls", auth=AUTH, a2a=recorder) for _ in range(2)]
    assert results == [1, 2]
    with pytest.raises(Exception, match="ConnectionError"):
        await sample.local_invoke("calls", auth=AUTH, a2a=recorder)
    with pytest.raises(Exception, match="no answer left"):
        await sample.local_invoke("calls", auth=AUTH, a2a=recorder)
    assert recorder.calls == peer.calls == [RecordedCall("peer", "work", {"n": 1}, None, 3)] * 4
