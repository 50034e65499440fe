"""The engine by `invoke`: timeouts, retries, slots, cancellation, startup, errors."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from molecule_skill import (
    A2AAgent,
    A2AError,
    AgentEvent,
    APIKeyAuth,
    CancelledByCaller,
    Declined,
    InteractionTimeout,
    LocalRunContext,
    MissingScopes,
    NoAuth,
    RetryableError,
    RunContext,
    SkillInputError,
    SkillInvocationError,
    SkillTimeout,
    skill,
)
from molecule_skill.slots import slots_of
from molecule_skill.testing import Decline, ManualClock


def local(**keywords: Any) -> LocalRunContext[Any]:
    return LocalRunContext(auth=keywords.pop("auth", NoAuth()), **keywords)


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not happen")


class Worker(A2AAgent[Any, Any]):
    name = "worker"

    def __init__(self) -> None:
        super().__init__()
        self.log: list[Any] = []
        self.started = 0
        self.release = asyncio.Event()

    async def startup(self, ctx: Any) -> None:
        self.started += 1
        await asyncio.sleep(0)

    @skill(timeout_seconds=0.05)
    async def slow(self, ctx: RunContext[Any], seconds: float = 0.2) -> str:
        await asyncio.sleep(seconds)
        self.log.append("finished")
        return "done"

    @skill(timeout_seconds=0.05)
    async def blocks(self, ctx: RunContext[Any]) -> str:
        time.sleep(0.1)  # noqa: ASYNC251 - a handler that blocks the loop is what is tested
        return "late"

    @skill(timeout_seconds=1)
    async def stubborn(self, ctx: RunContext[Any]) -> str:
        while not self.release.is_set():
            try:
                await self.release.wait()
            except asyncio.CancelledError:
                self.log.append("ignored")
        return "at last"

    @skill
    async def raises(self, ctx: RunContext[Any], kind: str) -> None:
        raise {
            "value": ValueError("bad"),
            "permission": PermissionError("no"),
            "timeout": TimeoutError("t"),
            "declined": Declined("not me"),
            "exit": SystemExit(3),
            "cancelled": asyncio.CancelledError(),
            "secret": RuntimeError("token is hunter2hunter2"),
        }[kind]

    @skill(idempotent=True, max_retries=2)
    async def flaky(self, ctx: RunContext[Any], failures: int, kind: str = "connection") -> int:
        self.log.append(ctx.attempt)
        if len(self.log) <= failures:
            raise {
                "connection": ConnectionError("gone"),
                "retryable": RetryableError("soon", retry_after=7),
                "busy": A2AError("busy", status_code=503),
                "refused": A2AError("no", status_code=403),
                "value": ValueError("bad"),
                "asked": InteractionTimeout("nobody"),
                "timeout": TimeoutError("slow"),
            }[kind]
        return ctx.attempt

    @skill
    async def once(self, ctx: RunContext[Any]) -> None:
        self.log.append("once")
        raise ConnectionError

    @skill(scopes=["b", "a"])
    async def guarded(self, ctx: RunContext[Any], n: int) -> int:
        return n

    @skill
    async def overlap(self, ctx: RunContext[Any], tag: str) -> None:
        self.log.append(f"+{tag}")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        self.log.append(f"-{tag}")

    @skill
    async def asks(self, ctx: RunContext[Any]) -> str:
        self.log.append("asking")
        return await ctx.ask("name?")

    @skill(timeout_seconds=10)
    async def asks_long(self, ctx: RunContext[Any]) -> str:
        return await ctx.ask("name?", timeout=1000)

    @skill
    async def looks(self, ctx: RunContext[Any]) -> str:
        while True:
            await ctx.check_cancelled()
            await asyncio.sleep(0)

    @skill
    async def sleeps(self, ctx: RunContext[Any]) -> None:
        await self.release.wait()

    @skill
    async def returns_late(self, ctx: RunContext[Any]) -> str:
        try:
            while True:
                await ctx.check_cancelled()
                await asyncio.sleep(0)
        except CancelledByCaller:
            return "swallowed"


class Wide(Worker):
    name = "wide"
    concurrency = 3

    @skill(concurrency=1)
    async def narrow(self, ctx: RunContext[Any], tag: str) -> None:
        self.log.append(f"+{tag}")
        await asyncio.sleep(0)
        self.log.append(f"-{tag}")


# Timeouts


async def test_a_timeout_of_50_ms_stops_a_handler_of_200_ms() -> None:
    worker, began = Worker(), time.monotonic()
    with pytest.raises(SkillTimeout, match="0.05"):
        await worker.invoke("slow", local())
    assert time.monotonic() - began < 0.18
    assert worker.log == []


async def test_a_handler_that_blocked_past_its_limit_is_too_late() -> None:
    with pytest.raises(SkillTimeout):
        await Worker().invoke("blocks", local())


async def test_a_handler_that_ignores_cancellation_keeps_its_slot_and_is_reported_stuck() -> None:
    worker, clock = Worker(), ManualClock()
    with clock.installed():
        run = asyncio.ensure_future(worker.invoke("stubborn", local(task_id="t1")))
        await clock.advance(1)
        assert worker.log == ["ignored"]
        await clock.advance(4.9)
        assert not run.done()
        await clock.advance(0.2)
        with pytest.raises(SkillTimeout):
            await run
        assert slots_of(worker).stuck == {"t1": "stubborn"}
        following = asyncio.ensure_future(worker.invoke("overlap", local(), tag="next"))
        await clock.advance(1)
        assert worker.log == ["ignored"]
        worker.release.set()
        await following
    assert worker.log == ["ignored", "+next", "-next"]
    assert slots_of(worker).stuck == {}


async def test_waiting_for_a_person_stops_the_clock_and_gives_the_slot_away() -> None:
    worker, clock, ctx = Worker(), ManualClock(), local()
    with clock.installed():
        run = asyncio.ensure_future(worker.invoke("asks_long", ctx))
        await clock.advance(500)
        await worker.invoke("overlap", local(), tag="x")
        ctx.answer(ctx.events[0]["payload"]["question_id"], "Ada")
        assert await run == "Ada"
    assert worker.log == ["+x", "-x"]


# Errors


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("value", "ValueError"),
        ("permission", "PermissionError"),
        ("timeout", "TimeoutError"),
        ("exit", "SystemExit"),
        ("cancelled", "CancelledError"),
    ],
)
async def test_other_exceptions_are_wrapped_and_named(kind: str, name: str) -> None:
    with pytest.raises(SkillInvocationError, match=name) as caught:
        await Worker().invoke("raises", local(), kind=kind)
    assert caught.value.code == "skill-failed"


async def test_the_cause_of_a_wrapped_error_is_kept() -> None:
    with pytest.raises(SkillInvocationError) as caught:
        await Worker().invoke("raises", local(), kind="value")
    assert isinstance(caught.value.__cause__, ValueError)


async def test_errors_of_the_table_pass_through_as_they_are() -> None:
    with pytest.raises(Declined, match="not me"):
        await Worker().invoke("raises", local(), kind="declined")


async def test_a_secret_in_an_exception_is_replaced() -> None:
    with pytest.raises(SkillInvocationError, match=r"\[secret:TOKEN\]") as caught:
        await Worker().invoke("raises", local(secrets={"TOKEN": "hunter2hunter2"}), kind="secret")
    assert "hunter2" not in str(caught.value)


# Retries


@pytest.mark.parametrize("kind", ["connection", "busy", "timeout"])
async def test_an_idempotent_skill_is_tried_again_with_growing_delays(kind: str) -> None:
    worker, clock, ctx = Worker(), ManualClock(), local()
    with clock.installed():
        run = asyncio.ensure_future(worker.invoke("flaky", ctx, failures=2, kind=kind))
        await clock.advance(0.39)
        assert worker.log == [1]
        await clock.advance(0.3)
        assert worker.log == [1, 2]
        await clock.advance(1.3)
        assert await run == 3
    retries = [event["payload"] for event in ctx.events]
    assert [event["attempt"] for event in retries] == [2, 3]
    assert 0.4 <= retries[0]["delay_seconds"] <= 0.6
    assert 0.8 <= retries[1]["delay_seconds"] <= 1.2


async def test_a_handler_says_itself_when_to_try_again() -> None:
    worker, clock = Worker(), ManualClock()
    with clock.installed():
        run = asyncio.ensure_future(worker.invoke("flaky", local(), failures=1, kind="retryable"))
        await clock.advance(6.9)
        assert worker.log == [1]
        await clock.advance(0.2)
        assert await run == 2


async def test_attempts_end_and_the_last_error_is_told() -> None:
    worker, clock = Worker(), ManualClock()
    with clock.installed():
        run = asyncio.ensure_future(worker.invoke("flaky", local(), failures=9))
        await clock.advance(10)
        with pytest.raises(SkillInvocationError, match="ConnectionError"):
            await run
    assert worker.log == [1, 2, 3]


@pytest.mark.parametrize("kind", ["refused", "value", "asked"])
async def test_errors_that_would_come_again_are_not_retried(kind: str) -> None:
    worker = Worker()
    with pytest.raises((A2AError, SkillInvocationError, InteractionTimeout)):
        await worker.invoke("flaky", local(), failures=9, kind=kind)
    assert worker.log == [1]


async def test_a_skill_that_is_not_idempotent_runs_once() -> None:
    worker = Worker()
    with pytest.raises(SkillInvocationError):
        await worker.invoke("once", local())
    assert worker.log == ["once"]


# Order, slots, startup


async def test_scopes_come_before_input_so_a_stranger_learns_nothing() -> None:
    with pytest.raises(MissingScopes):
        await Worker().invoke("guarded", local(), wrong=1)
    auth = APIKeyAuth(api_key_id="k", scopes=("a", "b"))
    with pytest.raises(SkillInputError):
        await Worker().invoke("guarded", local(auth=auth), wrong=1)
    assert await Worker().invoke("guarded", local(auth=auth), n=1) == 1


async def test_concurrency_of_one_serialises_in_the_order_of_arrival() -> None:
    worker = Worker()
    await asyncio.gather(*(worker.invoke("overlap", local(), tag=tag) for tag in "abcd"))
    assert worker.log == ["+a", "-a", "+b", "-b", "+c", "-c", "+d", "-d"]


async def test_a_skill_may_have_a_cap_below_the_agents() -> None:
    wide = Wide()
    await asyncio.gather(
        wide.invoke("narrow", local(), tag="a"),
        wide.invoke("narrow", local(), tag="b"),
        wide.invoke("overlap", local(), tag="x"),
        wide.invoke("overlap", local(), tag="y"),
    )
    assert wide.log.index("-a") < wide.log.index("+b")
    assert wide.log.index("+y") < wide.log.index("-x")


async def test_startup_runs_once_before_the_first_run() -> None:
    wide = Wide()
    await asyncio.gather(*(wide.invoke("overlap", local(), tag=tag) for tag in "abc"))
    assert wide.started == 1


# Cancellation


async def test_cancelling_reaches_the_handler() -> None:
    ctx = local(task_id="t")
    run = asyncio.ensure_future(Worker().invoke("looks", ctx))
    await asyncio.sleep(0.01)
    ctx.cancel()
    with pytest.raises(CancelledByCaller, match="^t$"):
        await run


async def test_a_handler_that_swallows_the_cancellation_is_cancelled_all_the_same() -> None:
    ctx = local()
    run = asyncio.ensure_future(Worker().invoke("returns_late", ctx))
    await asyncio.sleep(0.01)
    ctx.cancel()
    with pytest.raises(CancelledByCaller):
        await run


async def test_a_handler_that_never_looks_is_cancelled_after_ten_seconds() -> None:
    worker, clock, ctx = Worker(), ManualClock(), local()
    with clock.installed():
        run = asyncio.ensure_future(worker.invoke("sleeps", ctx))
        await clock.advance(1)
        ctx.cancel()
        await clock.advance(10)
        with pytest.raises(CancelledByCaller):
            await run


async def test_cancelling_ends_a_pause_and_a_queued_run() -> None:
    worker, asking, queued = Worker(), local(task_id="a"), local(task_id="q")
    run = asyncio.ensure_future(worker.invoke("asks", asking))
    await until(lambda: bool(asking.events))
    busy = asyncio.ensure_future(worker.invoke("stubborn", local()))
    waiting = asyncio.ensure_future(worker.invoke("overlap", queued, tag="never"))
    await asyncio.sleep(0.01)
    asking.cancel()
    queued.cancel()
    for one in (run, waiting):
        with pytest.raises(CancelledByCaller):
            await one
    worker.release.set()
    assert await busy == "at last"
    assert "+never" not in worker.log


async def test_cancelling_the_task_of_the_caller_ends_the_handler() -> None:
    worker = Worker()
    run = asyncio.ensure_future(worker.invoke("asks", local()))
    await asyncio.sleep(0.01)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert await worker.invoke("asks", local(answers=["free again"])) == "free again"


# Pauses of the local context


@pytest.mark.parametrize("answers", [{"name?": "Ada"}, ["Ada"], lambda event: "Ada"])  # type: ignore[misc]  # pyright: ignore
async def test_answers_may_be_given_beforehand(answers: Any) -> None:
    assert await Worker().invoke("asks", local(answers=answers)) == "Ada"


async def test_an_answer_that_does_not_come_is_a_timeout_and_a_declined_one_says_why() -> None:
    clock, ctx = ManualClock(), local()
    with clock.installed():
        run = asyncio.ensure_future(ctx.ask("name?", timeout=30))
        await clock.advance(30)
        with pytest.raises(InteractionTimeout):
            await run
    assert ctx.events[-1] == AgentEvent(
        "interaction_closed",
        {"id": ctx.events[0]["payload"]["question_id"], "state": "expired", "answered_by": None},
    )
    with pytest.raises(Declined, match="busy"):
        await local(answers=[Decline("busy")]).ask("name?")


async def test_an_unknown_id_and_an_invalid_answer_are_refused_and_the_pause_stays() -> None:
    ctx = local()
    run = asyncio.ensure_future(ctx.ask("name?"))
    await until(lambda: bool(ctx.events))
    question = ctx.events[0]["payload"]["question_id"]
    with pytest.raises(KeyError):
        ctx.answer("q_unknown", "x")
    with pytest.raises(ValueError, match="text"):
        ctx.answer(question, 3)
    ctx.answer(question, "Ada")
    assert await run == "Ada"
    with pytest.raises(KeyError):
        ctx.answer(question, "Bob")


async def test_a_key_is_used_once_and_a_step_returns_json() -> None:
    ctx = local()
    assert await ctx.step("a", lambda: (1, 2)) == [1, 2]
    with pytest.raises(ValueError, match="'a'"):
        await ctx.step("a", lambda: 1)
    with pytest.raises(TypeError, match="'b'"):
        await ctx.step("b", lambda: {1})
    with pytest.raises(TypeError, match="key"):
        await ctx.step("c", lambda: {1: 2})


async def test_a_retry_repeats_neither_steps_nor_questions_and_a_new_run_does() -> None:
    done: list[str] = []

    class Forgetful(A2AAgent[Any, Any]):
        name = "forgetful"

        @skill(idempotent=True, max_retries=1)
        async def work(self, ctx: RunContext[Any], items: list[int]) -> list[Any]:
            name = await ctx.ask("name?")
            await ctx.step("once", done.append, "step")
            items.append(1)
            if ctx.attempt == 1:
                raise RetryableError("again", retry_after=0)
            return [name, items]

    ctx = local(answers=["Ada", "Bob"])
    assert await Forgetful().invoke("work", ctx, items=[]) == ["Ada", [1]]
    assert done == ["step"]
    assert [event.kind for event in ctx.events] == ["question", "interaction_closed", "retry"]
    assert await Forgetful().invoke("work", ctx, items=[]) == ["Bob", [1]]
    assert done == ["step", "step"]
