"""The runner: every turn ends in one outcome, and no way out keeps a slot."""

import asyncio
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from molecule_runtime.domain.capabilities import RuntimeCapabilities
from molecule_runtime.domain.turns import NO_RESPONSE, NO_TEXT, TurnError, TurnOutcome, TurnResult
from molecule_runtime.kit import processes, wedge
from molecule_runtime.kit.executor import Turn, TurnExecutor
from molecule_runtime.kit.runner import TurnRunner, TurnServices
from molecule_runtime.testing.outputs import KeptOutput, request
from molecule_wire.a2a.server.bindings import AgentBusy


@pytest.fixture(autouse=True)
def no_wedge() -> Iterator[None]:
    wedge.reset_for_test()
    yield
    wedge.reset_for_test()


class Engine(TurnExecutor):
    """Does what the text says."""

    interrupt_grace: ClassVar[float] = 0.2

    def __init__(self, **runtime_config: Any) -> None:
        super().__init__(SimpleNamespace(runtime_config=runtime_config))
        self.interrupted: list[str] = []
        self.running = 0
        self.most = 0
        self.gate = asyncio.Event()

    async def run_turn(self, turn: Turn) -> TurnResult | str | None:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            return await self.act(turn)
        finally:
            self.running -= 1

    async def act(self, turn: Turn) -> TurnResult | str | None:
        if turn.text == "wait":
            await self.gate.wait()
        elif turn.text == "obey":
            await turn.cancelled.wait()
        elif turn.text == "fail":
            raise ValueError("the password is hunter2")
        elif turn.text == "known":
            raise TurnError("no-model", "there is no model", retryable=False)
        elif turn.text == "history":
            return " | ".join(f"{item.role}: {item.text}" for item in turn.history)
        elif turn.text == "nothing":
            return None
        return f"did {turn.text}"

    async def interrupt(self, turn: Turn) -> None:
        self.interrupted.append(turn.text)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - what it waits for has no event
            await asyncio.sleep(0.005)


async def run(runner: TurnRunner, text: str, **more: Any) -> TurnOutcome:
    output = KeptOutput()
    await runner.run(request(text, **more), output)
    assert len(output.outcomes) == 1
    return output.outcomes[0]


async def test_a_turn_answers_and_is_remembered_in_its_context_only() -> None:
    runner = TurnRunner(Engine())
    assert (await run(runner, "one", context_id="a")).text == "did one"
    assert (await run(runner, "history", context_id="a")).text == "user: one | assistant: did one"
    assert (await run(runner, "history", context_id="b")).text == NO_RESPONSE


async def test_the_history_that_a_message_brings_wins() -> None:
    given: Any = {"history": [{"role": "user", "parts": [{"kind": "text", "text": "before"}]}]}
    assert (await run(TurnRunner(Engine()), "history", metadata=given)).text == "user: before"


async def test_an_empty_message_is_rejected_and_silence_is_said() -> None:
    runner = TurnRunner(Engine())
    outcome = await run(runner, "")
    assert (outcome.state, outcome.text) == ("rejected", NO_TEXT)
    assert (await run(runner, "nothing")).text == NO_RESPONSE


async def test_what_an_exception_says_stays_inside() -> None:
    outcome = await run(TurnRunner(Engine()), "fail")
    assert outcome.state == "failed"
    assert outcome.text.startswith("Agent error (ValueError) — see workspace logs for details. [ref ")
    assert outcome.reference in outcome.text
    assert "hunter2" not in outcome.text
    known = await run(TurnRunner(Engine()), "known")
    assert (known.text, known.code) == ("there is no model", "no-model")


async def test_turns_of_one_context_follow_each_other_and_others_run_beside_them() -> None:
    engine = Engine(max_concurrent_turns=4)
    engine.serialize = False  # type: ignore[misc]
    runner = TurnRunner(engine)
    turns = [asyncio.create_task(run(runner, "wait", context_id=name)) for name in ("a", "a", "b", "c")]
    await until(lambda: engine.running == 3 and runner.queue.waiting == 1)
    assert (engine.running, runner.queue.waiting) == (3, 1)
    engine.gate.set()
    assert [outcome.state for outcome in await asyncio.gather(*turns)] == ["completed"] * 4


async def test_a_serial_engine_runs_one_turn_and_a_full_queue_refuses() -> None:
    engine = Engine(max_concurrent_turns=4, max_queued_turns=2)
    runner = TurnRunner(engine)
    turns = [asyncio.create_task(run(runner, "wait")) for _ in range(3)]
    await until(lambda: runner.queue.waiting == 2)
    with pytest.raises(AgentBusy, match="2 turns wait already"):
        runner.admit()
    engine.gate.set()
    await asyncio.gather(*turns)
    runner.admit()
    assert engine.most == 1


async def test_an_engine_with_sessions_of_its_own_bounds_its_turns_itself() -> None:
    engine = Engine()
    flags = RuntimeCapabilities(provides_native_session=True)
    engine.adapter = SimpleNamespace(capabilities=lambda: flags, idle_timeout_override=lambda: None)
    runner = TurnRunner(engine)
    turns = [asyncio.create_task(run(runner, "wait")) for _ in range(40)]
    await until(lambda: engine.running == 40)
    runner.admit()
    engine.gate.set()
    await asyncio.gather(*turns)


@pytest.mark.parametrize("text", ["wait", "obey"])
async def test_a_cancel_reaches_the_engine_and_frees_the_slot(text: str) -> None:
    engine = Engine()
    runner = TurnRunner(engine)
    asked = request(text)
    output = KeptOutput()
    turn = asyncio.create_task(runner.run(asked, output))
    await until(lambda: engine.running == 1)
    assert runner.cancel(asked.task_id)
    await turn
    assert ([outcome.state for outcome in output.outcomes], engine.interrupted) == (["canceled"], [text])
    assert (engine.running, not runner.queue.running, runner.services.heartbeat.active_tasks) == (0, True, 0)
    assert not runner.cancel(asked.task_id)


async def test_a_turn_that_waits_can_be_cancelled_and_never_runs() -> None:
    engine = Engine()
    runner = TurnRunner(engine)
    first = asyncio.create_task(run(runner, "wait"))
    asked, output = request("never"), KeptOutput()
    second = asyncio.create_task(runner.run(asked, output))
    await until(lambda: runner.queue.waiting == 1)
    runner.cancel(asked.task_id)
    await second
    engine.gate.set()
    await first
    assert (output.outcomes[0].state, engine.most) == ("canceled", 1)


async def test_a_deadline_ends_a_turn_with_its_text() -> None:
    outcome = await run(TurnRunner(Engine()), "wait", deadline=time.monotonic() + 0.05)
    assert (outcome.code, outcome.text) == ("turn-timeout", "[turn timed out after 0s]")
    limited = await run(TurnRunner(Engine(timeout=0.05)), "wait")
    assert limited.code == "turn-timeout"


async def test_silence_ends_a_turn_and_twice_is_a_wedge() -> None:
    engine = Engine()
    engine.idle_timeout = 0.05  # type: ignore[misc]
    runner = TurnRunner(engine)
    outcome = await run(runner, "wait")
    assert (outcome.code, outcome.text, wedge.is_wedged()) == ("turn-stalled", "[no activity for 0s]", False)
    await run(runner, "wait")
    assert wedge.is_wedged()
    await run(runner, "fine")
    assert not wedge.is_wedged()


async def test_reports_keep_a_turn_alive() -> None:
    class Chatty(Engine):
        async def act(self, turn: Turn) -> str:
            for _ in range(6):
                await asyncio.sleep(0.02)
                turn.sink.touch()
            return "done"

    engine = Chatty()
    engine.idle_timeout = 0.06  # type: ignore[misc]
    assert (await run(TurnRunner(engine), "go")).text == "done"


async def test_three_failures_of_one_kind_are_a_wedge_that_a_success_ends() -> None:
    runner = TurnRunner(Engine())
    for _ in range(3):
        assert not wedge.is_wedged()
        await run(runner, "fail")
    assert "ValueError" in wedge.wedge_reason()
    await run(runner, "fine")
    assert not wedge.is_wedged()


async def test_what_an_adapter_said_of_a_wedge_it_takes_back_itself() -> None:
    wedge.mark_wedged("the daemon is gone")
    wedge.mark_wedged("another reason")
    await run(TurnRunner(Engine()), "fine")
    assert wedge.wedge_reason() == "the daemon is gone"


async def test_a_stop_ends_what_runs_as_retryable_and_takes_nothing_more() -> None:
    engine = Engine()
    runner = TurnRunner(engine)
    turn = asyncio.create_task(run(runner, "wait"))
    await until(lambda: engine.running == 1)
    await runner.stop(0.05)
    outcome = await turn
    assert (outcome.state, outcome.code, outcome.retryable) == ("failed", "agent-stopping", True)
    with pytest.raises(AgentBusy):
        runner.admit()


async def test_children_of_a_turn_die_with_it() -> None:
    started: list[Any] = []

    class Starter(Engine):
        async def act(self, turn: Turn) -> str:
            started.append(await processes.spawn("sleep", "60"))
            await started[0].wait()
            return "ended"

    asked, runner = request("go"), TurnRunner(Starter())
    turn = asyncio.create_task(runner.run(asked, KeptOutput()))
    await until(lambda: bool(started))
    runner.cancel(asked.task_id)
    await turn
    assert await started[0].wait() == -9


async def test_pieces_come_in_order_and_a_tool_call_begins_a_new_run() -> None:
    class Streamer(Engine):
        async def act(self, turn: Turn) -> None:
            for word in ("a", "b"):
                await turn.sink.text(word)
            call = await turn.sink.tool_start("look", {"where": "here"})
            await turn.sink.tool_end(call, output="found")
            await asyncio.to_thread(turn.sink.text, "c")

    output = KeptOutput()
    outcome = await TurnRunner(Streamer()).run(request("go"), output)
    assert (output.said, outcome.text) == ("abc", "abc")
    assert {event[2] for event in output.events if event[0] == "text"} == {1, 2}
    trace = [{"tool": "look", "input": '{"where":"here"}', "output_preview": "found"}]
    assert outcome.metadata["tool_trace"] == trace


async def test_streamed_and_final_text_are_both_redacted() -> None:
    class Secretive:
        def feed(self, text: str) -> str:
            return text.replace("hunter2", "***")

        def flush(self) -> str:
            return ""

    class Leaky(Engine):
        async def act(self, turn: Turn) -> str:
            await turn.sink.text("it is hunter2")
            return "hunter2 it is"

    output = KeptOutput()
    outcome = await TurnRunner(Leaky(), TurnServices(redactor=Secretive)).run(request("go"), output)
    assert (output.said, outcome.text) == ("it is ***", "*** it is")
