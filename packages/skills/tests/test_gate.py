"""The gate: the order of its checks, runs as rows, events, answers, cancellation, secrets, draining."""

import ast
import asyncio
import contextlib
import logging
import time
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import molecule_skill
from molecule_skill import (
    A2AAgent,
    AgentEvent,
    APIKeyAuth,
    AuthError,
    CallResult,
    GrantInvalid,
    HostedRunContext,
    Invocation,
    MissingScopes,
    NoAuth,
    RunContext,
    RunRefused,
    SkillInputError,
    SkillInvocationError,
    SkillNotFound,
    skill,
)
from molecule_skill.events import MAX_EVENTS
from molecule_skill.hosted import Answerer, RunGate
from molecule_skill.store import RunState, StateChange, StoreUnavailable
from molecule_skill.testing import ScriptedPeer, StaticAuthResolver
from packages.skills.tests import hosting
from packages.skills.tests.hosting import ADA, ended, kinds, opened, pending, run, start
from packages.skills.tests.stores import StoreUnderTest

LOG: list[Any] = []


class Order(BaseModel):
    size: int
    colour: str = "red"


class Counter(BaseModel):
    count: int = 0


class Agent(A2AAgent[Any, Any]):
    name = "hosted"
    concurrency = 2
    required_secrets = ("TOKEN", "SHORT")
    lifecycle, state, state_model = "warm", "durable", Counter

    async def startup(self, ctx: Any) -> None:
        LOG.append(("startup", ctx.secret("TOKEN")))

    async def shutdown(self, ctx: Any) -> None:
        LOG.append("shutdown")

    @skill
    async def add(self, ctx: RunContext[Any], a: int, b: int = 1) -> int:
        await ctx.emit_progress("adding")
        return a + b

    @skill(scopes=["admin"])
    async def guarded(self, ctx: RunContext[Any], n: int) -> int:
        return n

    @skill
    async def asks(self, ctx: RunContext[Any], timeout: float = 60.0) -> str:
        return await ctx.ask("name?", timeout=timeout)

    @skill
    async def orders(self, ctx: RunContext[Any]) -> Order:
        return await ctx.collect(Order, title="What size?", reason="to order")

    @skill
    async def writes(self, ctx: RunContext[Any], name: str, text: str) -> str:
        ref = await ctx.write_artifact(name, text.encode(), "text/plain")
        await ctx.emit_artifact(ref)
        return ref.uri

    @skill
    async def emits(self, ctx: RunContext[Any], kind: str, size: int = 0, times: int = 1) -> None:
        for _ in range(times):
            await ctx.emit_event(AgentEvent(kind, {"text": "x" * size}))

    @skill
    async def leaks(self, ctx: RunContext[Any], how: str) -> dict[str, str]:
        value = ctx.secret("TOKEN")
        await ctx.emit_progress(f"using {value} now")
        if how == "raise":
            raise RuntimeError(f"denied for {value}")
        if how == "undeclared":
            ctx.secret("HOME")
        return {value: f"<{value}>", "short": ctx.secret("SHORT")}

    @skill
    async def waits(self, ctx: RunContext[Any]) -> None:
        LOG.append("waiting")
        while True:
            await ctx.check_cancelled()
            await asyncio.sleep(0.001)

    @skill
    async def calls(self, ctx: RunContext[Any]) -> Any:
        return (await ctx.call("peer", "work", args={"n": 1})).result

    @skill
    async def counts(self, ctx: RunContext[Any]) -> int:
        state = await ctx.load_state()
        await ctx.save_state(Counter(count=state.count + 1))
        return state.count + 1

    @skill
    async def races(self, ctx: RunContext[Any]) -> None:
        await ctx.load_state()
        await ctx._host.store.save_state(StateChange("agent:hosted", {"count": 9}, 0))  # type: ignore[attr-defined]
        await ctx.save_state(Counter())

    @skill
    async def swallows(self, ctx: RunContext[Any]) -> str:
        with contextlib.suppress(BaseException):
            await ctx.ask("go on?")
        return "late"


SECRETS = {"TOKEN": "hunter2hunter2", "SHORT": "abc", "HOME": "/root"}


@pytest.fixture
def store(under_test: StoreUnderTest) -> Any:
    LOG.clear()
    return under_test.store


def at(agent_store: Any, **options: Any) -> AbstractAsyncContextManager[RunGate]:
    return opened(Agent(), agent_store, secrets=SECRETS, **options)


async def code_of(call: Any) -> str:
    with pytest.raises(RunRefused) as caught:
        await call
    return caught.value.code


# The way in


async def test_a_run_is_a_row_with_numbered_events_and_a_result(store: Any) -> None:
    async with at(store) as gate:
        record = await run(gate, "add", a="2")
        assert (record.state, record.result, record.attempt) == ("succeeded", 3, 1)
        assert await kinds(gate, record.run_id) == ["run_started", "progress", "run_finished"]
        assert record.run_id.startswith("run_")
        assert len(record.run_id) == 30


async def test_checks_come_in_their_order_and_nothing_is_written_before_them(store: Any) -> None:
    async with at(store) as gate:
        with pytest.raises(SkillNotFound):
            await gate.open(Invocation("t", "nope", {}, grant_token="g"))
        with pytest.raises(GrantInvalid):
            await gate.open(Invocation("t", "guarded", {"wrong": 1}, grant_token="g"))
        with pytest.raises(MissingScopes):
            await start(gate, "guarded", wrong=1)
        with pytest.raises(SkillInputError):
            await start(gate, "add", wrong=1)
        assert await gate.runs(None) == []


async def test_a_caller_that_is_not_known_is_refused_first(store: Any) -> None:
    class Closed(StaticAuthResolver):
        async def resolve(self, token: str | None, **_: Any) -> BaseModel:  # type: ignore[override]
            raise AuthError("who are you?")

    async with at(store, resolver=Closed(NoAuth())) as gate:
        with pytest.raises(AuthError):
            await start(gate, "nope")
    async with at(store, resolver=StaticAuthResolver(APIKeyAuth(api_key_id="k"))) as gate:
        with pytest.raises(SkillInvocationError) as caught:
            await start(gate, "add", a=1)
        assert caught.value.code == "auth-model-mismatch"


async def test_a_workspace_header_that_contradicts_the_credential_is_refused(store: Any) -> None:
    async with at(store, resolver=StaticAuthResolver(NoAuth(), "workspace:a")) as gate:
        with pytest.raises(AuthError) as caught:
            await gate.open(Invocation("t", "add", {"a": 1}, headers={"x-workspace-id": "b"}))
        assert caught.value.status_code == 403
        assert await gate.open(Invocation("t", "add", {"a": 1}, headers={"x-workspace-id": "A"}))


async def test_one_key_is_one_run_also_for_two_at_once(store: Any) -> None:
    async with at(store) as gate:
        same = Invocation("t", "add", {"a": 1}, idempotency_key="k")
        opened_twice = await asyncio.gather(gate.open(same), gate.open(same))
        assert len({ctx.run_id for ctx in opened_twice}) == 1
        assert sorted(ctx.attached for ctx in opened_twice) == [False, True]
        await ended(gate, opened_twice[0].run_id)
        assert (await gate.open(same)).attached
        other = Invocation("t", "add", {"a": 2}, idempotency_key="k")
        assert await code_of(gate.open(other)) == "idempotency-conflict"
        assert len(await gate.runs(None)) == 1


async def test_beyond_the_queue_callers_are_asked_to_come_back(store: Any) -> None:
    async with at(store, queue_limit=1) as gate:
        running = [await start(gate, "waits") for _ in range(2)]
        await hosting.until(lambda: LOG.count("waiting") == 2)
        queued = [await start(gate, "add", a=1)]
        with pytest.raises(RunRefused) as caught:
            await start(gate, "add", a=1)
        assert (caught.value.code, caught.value.extras) == ("agent-busy", {"retry_after": 1})
        for ctx in running:
            await gate.cancel(ctx.run_id, "user:ada")
        assert (await ended(gate, queued[0].run_id)).state == "succeeded"


def test_nobody_but_the_gate_makes_a_hosted_context() -> None:
    with pytest.raises(TypeError, match=r"RunGate\.open"):
        HostedRunContext()
    root = Path(molecule_skill.__file__).parent
    makers = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "_made"
    }
    assert makers <= {"hosted/gate.py", "hosted/runs.py"}


# Who sees what


async def test_a_caller_sees_only_its_own_runs(store: Any) -> None:
    async with at(store) as gate:
        record = await run(gate, "writes", name="a.txt", text="hi")
        stranger = "user:eve"
        for view in (
            gate.run(record.run_id, stranger),
            gate.reader(record.run_id, stranger).events(),
            gate.reader(record.run_id, stranger).wait(),
            gate.cancel(record.run_id, stranger),
            gate.reader(record.run_id, stranger).interactions(),
            gate.reader(record.run_id, stranger).artifacts(),
            gate.artifact(record.run_id, stranger, "a.txt"),
            gate.run("run_unknown", "user:ada"),
        ):
            assert await code_of(view) == "not-found"
        assert await gate.runs(stranger) == []
        assert [one.run_id for one in await gate.runs("user:ada")] == [record.run_id]


async def test_events_can_be_followed_live_and_resumed_at_any_number(store: Any) -> None:
    async with at(store) as gate:
        ctx = await start(gate, "asks")
        seen: list[int] = []

        async def follow() -> None:
            async for event in gate.reader(ctx.run_id, "user:ada").follow():
                seen.append(event.seq)

        following = asyncio.ensure_future(follow())
        row = await pending(gate, ctx.run_id)
        await gate.answer(row.id, ADA, "Ada")
        await asyncio.wait_for(following, 20)
        assert seen == [1, 2, 3, 4]
        for after in range(5):
            rest = [event.seq async for event in gate.reader(ctx.run_id, None).follow(after=after)]
            assert rest == seen[after:]
        assert await code_of(gate.reader(ctx.run_id, None).events(after=5)) == "cursor-ahead"


# Answers


async def test_a_form_gives_the_handler_an_instance(store: Any) -> None:
    async with at(store) as gate:
        ctx = await start(gate, "orders")
        row = await pending(gate, ctx.run_id)
        assert row.id.startswith("ir_")
        with pytest.raises(RunRefused) as caught:
            await gate.answer(row.id, ADA, {"size": "many"})
        assert caught.value.code == "answer-invalid"
        assert caught.value.extras["errors"][0]["loc"] == ["size"]  # type: ignore[index]
        assert await gate.answer(row.id, ADA, {"size": 4}) == "answered"
        record = await ended(gate, ctx.run_id)
        assert record.result == {"size": 4, "colour": "red"}


async def test_answers_that_are_double_late_foreign_or_self_given_are_refused(store: Any) -> None:
    async with at(store, own_principals=frozenset({"workspace:self"})) as gate:
        ctx = await start(gate, "asks")
        row = await pending(gate, ctx.run_id)
        for stranger in (
            Answerer("user:eve"),
            Answerer("user:eve", ("org.approve",), "other-org"),
            Answerer("workspace:self", ("org.approve",)),
        ):
            assert await code_of(gate.answer(row.id, stranger, "x")) == "not-found"
        assert await code_of(gate.answer("q_unknown", ADA, "x")) == "not-found"
        assert await code_of(gate.answer(row.id, ADA, "x", run_id="run_other")) == "not-found"
        assert await code_of(gate.answer(row.id, ADA, "x", kind="form")) == "not-found"
        assert await code_of(gate.answer(row.id, ADA, 3)) == "answer-invalid"
        assert await gate.answer(row.id, ADA, "Ada") == "answered"
        assert await gate.answer(row.id, ADA, "Ada") == "answered"
        assert await code_of(gate.answer(row.id, ADA, "Bob")) == "already-answered"
        assert (await ended(gate, ctx.run_id)).result == "Ada"
        assert await code_of(gate.answer(row.id, ADA, "Bob")) == "already-answered"


async def test_the_agent_cannot_answer_a_question_of_a_run_it_started_itself(store: Any) -> None:
    own = frozenset({"workspace:self"})
    async with at(store, own_principals=own, resolver=StaticAuthResolver(NoAuth(), "workspace:self")) as gate:
        ctx = await start(gate, "asks")
        row = await pending(gate, ctx.run_id)
        assert await code_of(gate.answer(row.id, Answerer("workspace:self"), "x")) == "not-found"


async def test_a_late_answer_finds_the_question_closed(store: Any) -> None:
    async with at(store) as gate:
        ctx = await start(gate, "asks", timeout=0.05)
        record = await ended(gate, ctx.run_id)
        assert record.failure is not None
        assert (record.state, record.failure.code) == ("failed", "interaction-timeout")
        [row] = await gate.reader(ctx.run_id, None).interactions()
        assert row.state == "expired"
        assert await code_of(gate.answer(row.id, ADA, "x")) == "interaction-closed"


async def test_a_declined_question_raises_declined(store: Any) -> None:
    async with at(store) as gate:
        ctx = await start(gate, "asks")
        row = await pending(gate, ctx.run_id)
        assert await gate.answer(row.id, ADA, declined=True, reason="not now") == "denied"
        record = await ended(gate, ctx.run_id)
        assert record.failure is not None
        assert (record.failure.code, record.failure.error) == ("declined", "not now")


async def test_an_approver_of_the_same_organisation_may_answer(store: Any) -> None:
    class InOrg(BaseModel):
        org_id: str = "o"

    class OrgAgent(Agent):
        name = "org-agent"
        auth_model = InOrg

    async with opened(
        OrgAgent(), store, secrets=SECRETS, resolver=StaticAuthResolver(InOrg(), "user:ada")
    ) as gate:
        ctx = await start(gate, "asks")
        row = await pending(gate, ctx.run_id)
        assert await gate.answer(row.id, Answerer("user:boss", ("org.approve",), "o"), "ok") == "answered"
        assert (await gate.reader(ctx.run_id, None).interactions())[0].answered_by == "user:boss"


async def test_a_waiting_run_holds_no_slot(store: Any) -> None:
    async with at(store) as gate:
        waiting = [await start(gate, "asks") for _ in range(5)]
        for ctx in waiting:
            await pending(gate, ctx.run_id)
        assert (await run(gate, "add", a=1)).result == 2


# Cancellation, deadlines


async def test_cancelling_ends_the_handler_and_says_so(store: Any) -> None:
    async with at(store) as gate:
        ctx = await start(gate, "waits")
        await hosting.until(lambda: "waiting" in LOG)
        await gate.cancel(ctx.run_id, "user:ada")
        record = await ended(gate, ctx.run_id)
        assert record.failure is not None
        assert (record.state, record.failure.code, record.failure.status) == ("cancelled", "cancelled", 499)
        assert await kinds(gate, ctx.run_id) == ["run_started", "cancel_requested", "run_finished"]
        assert (await gate.cancel(ctx.run_id, "user:ada")).state == "cancelled"


async def test_cancelling_closes_the_question_and_wins_over_a_late_return(store: Any) -> None:
    async with at(store) as gate:
        ctx = await start(gate, "swallows")
        row = await pending(gate, ctx.run_id)
        await gate.cancel(ctx.run_id, "user:ada")
        assert (await ended(gate, ctx.run_id)).state == "cancelled"
        assert (await gate.reader(ctx.run_id, None).interactions())[0].state == "cancelled"
        assert await code_of(gate.answer(row.id, ADA, "x")) == "interaction-closed"


async def test_a_run_past_its_deadline_expires_even_while_it_waits(store: Any) -> None:
    async with at(store) as gate:
        ctx = await gate.open(Invocation("t", "asks", {}, deadline=time.time() + 0.1))
        record = await ended(gate, ctx.run_id)
        assert record.failure is not None
        assert (record.state, record.failure.code) == ("expired", "deadline-exceeded")


async def test_cancelling_a_run_cancels_its_call(store: Any) -> None:
    state: list[str] = []

    async def work(n: int) -> None:
        state.append("called")
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            state.append("cancelled")
            raise

    async with at(store, a2a=ScriptedPeer({"peer.work": work})) as gate:
        ctx = await start(gate, "calls")
        await hosting.until(lambda: state == ["called"])
        await gate.cancel(ctx.run_id, "user:ada")
        assert (await ended(gate, ctx.run_id)).state == "cancelled"
        assert state == ["called", "cancelled"]


async def test_a_call_is_told_in_events(store: Any) -> None:
    peer = ScriptedPeer({"peer.work": [CallResult({"ok": 1}, run_id="run_x"), ValueError("bad")]})
    async with at(store, a2a=peer) as gate:
        record = await run(gate, "calls")
        assert record.result == {"ok": 1}
        assert (await kinds(gate, record.run_id))[1:3] == ["call_started", "call_complete"]
        failed = await run(gate, "calls")
        assert (await kinds(gate, failed.run_id))[1:3] == ["call_started", "call_error"]


# Events and artifacts


@pytest.mark.parametrize("kind", ["question", "run_finished", "Bad", "", "a" * 65])
async def test_reserved_and_malformed_kinds_are_refused(store: Any, kind: str) -> None:
    async with at(store) as gate:
        record = await run(gate, "emits", kind=kind)
        assert record.failure is not None
        assert "ValueError" in record.failure.error


async def test_a_payload_over_64_kib_is_refused(store: Any) -> None:
    async with at(store) as gate:
        assert (await run(gate, "emits", kind="progress", size=60_000)).state == "succeeded"
        assert (await run(gate, "emits", kind="progress", size=66_000)).state == "failed"


async def test_events_beyond_the_limit_are_dropped_and_counted(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MAX_EVENTS == 10_000
    monkeypatch.setattr("molecule_skill.hosted.context.MAX_EVENTS", 10)
    async with at(store) as gate:
        record = await run(gate, "emits", kind="progress", times=15)
        events = await gate.reader(record.run_id, None).events()
        assert [event.kind for event in events[-2:]] == ["events_dropped", "run_finished"]
        assert events[-2].payload == {"count": 6}
        assert len(events) == 12


@pytest.mark.parametrize("name", ["", "/a", "../a", "a//b", "a\\b", "x" * 256])
async def test_artifact_names_that_hosting_refuses(store: Any, name: str) -> None:
    async with at(store) as gate:
        assert (await run(gate, "writes", name=name, text="x")).state == "failed"


async def test_equal_artifact_names_of_two_runs_do_not_collide(store: Any) -> None:
    async with at(store) as gate:
        records = await asyncio.gather(*(run(gate, "writes", name="a/b.txt", text=text) for text in "xy"))
        for record, text in zip(records, "xy", strict=True):
            assert record.result == f"molecule://runs/{record.run_id}/artifacts/a/b.txt"
            found = await gate.artifact(record.run_id, "user:ada", "a/b.txt")
            assert await gate.read_artifact(found) == text.encode()
            assert await gate.reader(record.run_id, "user:ada").artifacts() == [found]


async def test_an_artifact_over_the_limit_is_refused(store: Any) -> None:
    async with at(store, artifact_max_bytes=3) as gate:
        assert (await run(gate, "writes", name="a", text="abcd")).state == "failed"
        assert (await run(gate, "writes", name="a", text="abc")).state == "succeeded"


# Secrets and state


async def test_values_of_secrets_are_replaced_in_events_results_errors_and_logs(
    store: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        async with at(store) as gate:
            good = await run(gate, "leaks", how="return")
            bad = await run(gate, "leaks", how="raise")
            events = [await gate.reader(one.run_id, None).events() for one in (good, bad)]
    redacted = {"[secret:TOKEN]": "<[secret:TOKEN]>", "short": "abc"}
    assert good.result == redacted
    assert bad.failure is not None
    assert "denied for [secret:TOKEN]" in bad.failure.error
    assert events[0][1].payload == {"message": "using [secret:TOKEN] now"}
    assert "hunter2" not in f"{good}{bad}{events}{caplog.text}"
    assert "[secret:TOKEN]" in caplog.text


async def test_an_undeclared_secret_is_unknown_even_if_it_is_there(store: Any) -> None:
    async with at(store) as gate:
        record = await run(gate, "leaks", how="undeclared")
        assert record.failure is not None
        assert "unknown secret: 'HOME'" in record.failure.error


async def test_a_missing_secret_makes_the_agent_not_ready_and_is_named(store: Any) -> None:
    async with opened(Agent(), store, secrets={"SHORT": "abc"}) as gate:
        ready = gate.readiness()
        assert not ready.ok
        assert "TOKEN" in " ".join(ready.reasons)
        assert await code_of(start(gate, "add", a=1)) == "peer-unavailable"


async def test_state_is_kept_between_runs_and_a_lost_race_is_told(store: Any) -> None:
    async with at(store) as gate:
        assert [(await run(gate, "counts")).result for _ in range(3)] == [1, 2, 3]
    await store.save_state(StateChange("agent:hosted", {"count": "old"}, 3))
    async with at(store) as gate:
        failure = (await run(gate, "counts")).failure
        assert failure is not None
        assert failure.code == "state-incompatible"
        assert (await store.load_state("agent:hosted"))[0] == {"count": "old"}


async def test_state_that_another_run_saved_first_is_a_conflict(store: Any) -> None:
    async with at(store) as gate:
        failure = (await run(gate, "races")).failure
        assert failure is not None
        assert failure.code == "state-conflict"


# Lifecycle, faults of the store


async def test_startup_and_shutdown_run_once(store: Any) -> None:
    async with at(store) as gate:
        await asyncio.gather(*(run(gate, "add", a=1) for _ in range(3)))
    assert LOG == [("startup", "hunter2hunter2"), "shutdown"]


async def test_a_failing_startup_is_told_without_secrets(store: Any) -> None:
    class Broken(Agent):
        name = "broken"

        async def startup(self, ctx: Any) -> None:
            raise OSError(f"no route with {ctx.secret('TOKEN')}")

    async with opened(Broken(), store, secrets=SECRETS) as gate:
        [reason] = gate.readiness().reasons
        assert reason == "startup failed: OSError: no route with [secret:TOKEN]"


async def test_closing_waits_for_runs_and_then_interrupts_them(store: Any) -> None:
    gate = hosting.RunGate(Agent(), store, hosting.settings(secrets=SECRETS, drain_seconds=0.05))
    await gate.start()
    ctx = await start(gate, "waits")
    await hosting.until(lambda: "waiting" in LOG)
    closing = asyncio.ensure_future(gate.close())
    await asyncio.sleep(0)
    assert await code_of(start(gate, "add", a=1)) == "agent-stopping"
    await closing
    record = await gate.run(ctx.run_id, None)
    assert record.failure is not None
    assert (record.state, record.failure.code) == ("failed", "run-interrupted")
    assert LOG[-1] == "shutdown"


async def test_a_store_that_fails_does_not_replace_the_outcome(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("full")

    monkeypatch.setattr("molecule_skill.hosted.runs.RECORD_DELAYS", (0.001,))
    async with at(store) as gate:
        for name in ("finish", "append_events"):
            monkeypatch.setattr(store, name, broken)
        record = await run(gate, "add", a=1)
        assert (record.state, record.result) == (RunState.SUCCEEDED, 2)
        assert gate._host.unrecorded == 2
        monkeypatch.setattr(store, "open_run", broken)
        assert await code_of(start(gate, "add", a=1)) == "agent-busy"
        monkeypatch.undo()
