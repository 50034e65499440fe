"""The runner: every turn ends in one outcome, and no way out keeps a slot."""

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from molecule_runtime.domain.capabilities import RuntimeCapabilities
from molecule_runtime.domain.turns import (
    NO_RESPONSE,
    NO_TEXT,
    TurnError,
    TurnEvent,
    TurnOutcome,
    TurnResult,
    Usage,
)
from molecule_runtime.kit.state import delegation_results, engine_health
from molecule_runtime.kit.state.delegation_results import UnreadResults
from molecule_runtime.kit.turns import processes
from molecule_runtime.kit.turns.executor import Turn, TurnExecutor
from molecule_runtime.kit.turns.history import MAX_CONTEXTS
from molecule_runtime.kit.turns.runner import TurnRunner, TurnServices
from molecule_runtime.testing.recording_output import RecordingOutput, request
from molecule_wire.a2a.server.bindings import AgentBusy
from molecule_wire.redaction import StreamRedactor


@pytest.fixture(autouse=True)
def no_wedge() -> Iterator[None]:
    engine_health.reset_for_test()
    yield
    engine_health.reset_for_test()


class Engine(TurnExecutor):
    """Does what the text says."""

    interrupt_grace: ClassVar[float] = 0.2

    def __init__(self, **runtime_config: Any) -> None:
        super().__init__(SimpleNamespace(runtime_config=runtime_config))
        self.interrupted: list[str] = []
        self.running = 0
        self.most = 0
        self.gate = asyncio.Event()
        self.failing = False

    async def run_turn(self, turn: Turn) -> TurnResult | str | None:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            return await self.act(turn)
        finally:
            self.running -= 1

    async def act(self, turn: Turn) -> TurnResult | str | None:
        if self.failing:
            raise ValueError("it was told to fail")
        if turn.text == "use":
            turn.sink.tool_end(turn.sink.tool_start("search", {"for": "it"}), "found")
            turn.sink.usage("m", 3, 5, 0.01)
        elif turn.text == "wait":
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


class Masking:
    def feed(self, text: str) -> str:
        return text.replace("hunter2", "***")

    def flush(self) -> str:
        return ""

    def redact(self, text: str) -> str:
        return self.feed(text)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - what it waits for has no event
            await asyncio.sleep(0.005)


async def run(runner: TurnRunner, text: str, **more: Any) -> TurnOutcome:
    output = RecordingOutput()
    await runner.run(request(text, **more), output)
    assert len(output.outcomes) == 1
    return output.outcomes[0]


async def test_a_turn_answers_and_is_remembered_in_its_context_only() -> None:
    runner = TurnRunner(Engine())
    assert (await run(runner, "one", context_id="a")).text == "did one"
    assert (await run(runner, "history", context_id="a")).text == "user: one | assistant: did one"
    assert (await run(runner, "history", context_id="b")).text == NO_RESPONSE


async def test_the_history_that_a_message_brings_wins() -> None:
    metadata: Any = {"history": [{"role": "user", "parts": [{"kind": "text", "text": "before"}]}]}
    assert (await run(TurnRunner(Engine()), "history", metadata=metadata)).text == "user: before"


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
    with pytest.raises(AgentBusy, match="2 turns wait already") as busy:
        runner.admit()
    assert ("retry-after", "5") in busy.value.response.headers
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
    assert [outcome.state for outcome in await asyncio.gather(*turns)] == ["completed"] * 40


@pytest.mark.parametrize("text", ["wait", "obey"])
async def test_a_cancel_reaches_the_engine_and_frees_the_slot(text: str) -> None:
    engine = Engine()
    runner = TurnRunner(engine)
    turn_request = request(text)
    output = RecordingOutput()
    turn = asyncio.create_task(runner.run(turn_request, output))
    await until(lambda: engine.running == 1)
    assert runner.cancel(turn_request.task_id)
    await turn
    assert ([outcome.state for outcome in output.outcomes], engine.interrupted) == (["canceled"], [text])
    assert (engine.running, not runner.queue.running, runner.services.heartbeat.active_tasks) == (0, True, 0)
    assert not runner.cancel(turn_request.task_id)


async def test_a_turn_that_waits_can_be_cancelled_and_never_runs() -> None:
    engine = Engine()
    runner = TurnRunner(engine)
    first = asyncio.create_task(run(runner, "wait"))
    turn_request, output = request("never"), RecordingOutput()
    second = asyncio.create_task(runner.run(turn_request, output))
    await until(lambda: runner.queue.waiting == 1)
    runner.cancel(turn_request.task_id)
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
    assert (outcome.code, outcome.text, engine_health.is_wedged()) == (
        "turn-stalled",
        "[no activity for 0s]",
        False,
    )
    await run(runner, "wait")
    assert engine_health.is_wedged()
    await run(runner, "fine")
    assert not engine_health.is_wedged()


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
        assert not engine_health.is_wedged()
        await run(runner, "fail")
    assert "ValueError" in engine_health.wedge_reason()
    await run(runner, "fine")
    assert not engine_health.is_wedged()


async def test_what_an_adapter_said_of_a_wedge_it_takes_back_itself() -> None:
    engine_health.mark_wedged("the daemon is gone")
    engine_health.mark_wedged("another reason")
    await run(TurnRunner(Engine()), "fine")
    assert engine_health.wedge_reason() == "the daemon is gone"


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

    turn_request, runner = request("go"), TurnRunner(Starter())
    turn = asyncio.create_task(runner.run(turn_request, RecordingOutput()))
    await until(lambda: bool(started))
    runner.cancel(turn_request.task_id)
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

    output = RecordingOutput()
    outcome = await TurnRunner(Streamer()).run(request("go"), output)
    assert (output.streamed_text, outcome.text) == ("abc", "abc")
    assert {event[2] for event in output.events if event[0] == "text"} == {1, 2}
    trace = [{"tool": "look", "input": '{"where":"here"}', "output_preview": "found"}]
    assert outcome.metadata["tool_trace"] == trace


async def test_streamed_and_final_text_are_both_redacted() -> None:
    class Leaky(Engine):
        async def act(self, turn: Turn) -> str:
            await turn.sink.text("it is hunter2")
            return "hunter2 it is"

    output = RecordingOutput()
    outcome = await TurnRunner(Leaky(), TurnServices(redactor=Masking)).run(request("go"), output)
    assert (output.streamed_text, outcome.text) == ("it is ***", "*** it is")


async def test_artifacts_are_redacted_too() -> None:
    class Leaky(Engine):
        async def act(self, turn: Turn) -> str:
            turn.sink.artifact("notes", [{"text": "it is hunter2"}, {"data": 1}])
            return "done"

    output = RecordingOutput()
    await TurnRunner(Leaky(), TurnServices(redactor=Masking)).run(request("go"), output)
    assert ("artifact", "notes", [{"text": "it is ***"}, {"data": 1}]) in output.events


async def test_a_huge_answer_full_of_what_looks_secret_does_not_hold_the_others_up() -> None:
    """Cleaning 2 MB of card numbers takes seconds of the processor; nobody waits for them at a stretch."""

    class Huge(Engine):
        async def act(self, turn: Turn) -> str:
            return "4111 " * 400_000

    longest, is_over = 0.0, asyncio.Event()

    async def watch() -> None:
        nonlocal longest
        while not is_over.is_set():
            before = time.monotonic()
            await asyncio.sleep(0)
            longest = max(longest, time.monotonic() - before)

    watching = asyncio.create_task(watch())
    began = time.monotonic()
    services = TurnServices(redactor=StreamRedactor)
    outcome = await TurnRunner(Huge(), services).run(request("go"), RecordingOutput())
    took = time.monotonic() - began
    is_over.set()
    await watching
    assert outcome.state == "completed"
    assert longest < max(took / 10, 0.1)


async def test_contexts_whose_turns_fail_are_forgotten_too() -> None:
    runner = TurnRunner(Engine())
    for number in range(MAX_CONTEXTS + 20):
        runner.services.histories.state(f"c{number}")["n"] = number
    assert len(runner.services.histories.dump()) == MAX_CONTEXTS


async def test_results_of_delegations_begin_the_next_turn_and_survive_one_that_fails(tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    results.write_text('{"delegation_id": "d", "target_id": "w", "status": "completed", "summary": "s"}\n')
    engine = Engine()
    runner = TurnRunner(engine, TurnServices(unread=UnreadResults(results)))
    engine.failing = True
    assert (await runner.run(request("first"), RecordingOutput())).state == "failed"
    engine.failing = False
    text = (await runner.run(request("second", "c"), RecordingOutput())).text
    assert text.startswith("did [Delegation results received while you were idle]\n")
    assert "delegation d to w" in text
    assert text.endswith("\n\nsecond")
    assert (await runner.run(request("third", "c"), RecordingOutput())).text == "did third"
    history = runner.services.histories.of("c")
    assert [item.text for item in history if item.role == "user"] == ["second", "third"]


async def test_a_result_that_comes_just_after_a_turn_began_is_in_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delegation_results, "POLL_SECONDS", 1000.0)
    results = tmp_path / "results.jsonl"
    unread = UnreadResults(results)
    runner = TurnRunner(Engine(), TurnServices(unread=unread))
    assert (await runner.run(request("delegate"), RecordingOutput())).text == "did delegate"
    results.write_text('{"delegation_id": "d", "target_id": "w", "status": "completed", "summary": "s"}\n')
    unread.look()
    assert "delegation d to w" in (await runner.run(request("wake up"), RecordingOutput())).text


async def test_what_happens_in_a_turn_is_told_to_its_observer() -> None:
    seen: list[TurnEvent] = []
    runner = TurnRunner(Engine(), TurnServices(observe=seen.append))
    await runner.run(request("use"), RecordingOutput())
    assert [event.operation for event in seen] == ["task_start", "tool_call", "llm_call", "task_end"]
    assert (seen[1].tool, seen[2].usage) == ("search", Usage("m", 3, 5, 0.01))
    outcome = seen[3].outcome
    assert outcome is not None
    assert (outcome.state, seen[3].text) == ("completed", "did use")


@pytest.mark.parametrize("answer", [42, TurnResult(None), TurnResult("x", state="done"), ["a"]])  # type: ignore[arg-type]
async def test_an_answer_of_another_form_is_a_failure_that_is_told(answer: Any) -> None:
    output = RecordingOutput()
    engine = Engine()
    engine.act = lambda turn: _returned(answer)  # type: ignore[method-assign]
    await TurnRunner(engine).run(request("anything"), output)
    assert [outcome.state for outcome in output.outcomes] == ["failed"]


async def _returned(answer: Any) -> Any:
    return answer


def _report_no_text(turn: Turn) -> Any:
    return turn.sink.text(None)  # type: ignore[arg-type]


def _report_a_bad_part(turn: Turn) -> Any:
    return turn.sink.artifact("a", [{}])


class RefusingOutput(RecordingOutput):
    async def artifact(self, name: str, parts: list[Any]) -> None:
        raise ValueError("no such part")


@pytest.mark.parametrize("report", [_report_no_text, _report_a_bad_part])
async def test_a_report_that_cannot_be_passed_on_ends_the_turn(report: Callable[[Turn], Any]) -> None:
    async def act(turn: Turn) -> str:
        await report(turn)
        return "done"

    engine, output = Engine(), RefusingOutput()
    engine.act = act  # type: ignore[method-assign]
    runner = TurnRunner(engine)
    await runner.run(request("anything"), output)
    assert [outcome.state for outcome in output.outcomes] == ["failed"]
    assert not list(runner.queue)


async def test_files_that_cannot_be_received_fail_the_turn() -> None:
    async def full(parts: list[Any]) -> list[Any]:
        raise OSError("disk full")

    output, turn_request = RecordingOutput(), request("x")
    turn_request.parts.append({"url": "https://example.org/report.pdf", "mediaType": "application/pdf"})
    await TurnRunner(Engine(), TurnServices(receive_files=full)).run(turn_request, output)
    assert [outcome.code for outcome in output.outcomes] == ["OSError"]
    assert "disk full" not in output.outcomes[0].text


async def test_a_caller_that_goes_away_ends_the_engine() -> None:
    engine, output = Engine(), RecordingOutput()
    runner = TurnRunner(engine)
    turn = asyncio.ensure_future(runner.run(request("wait"), output))
    while not engine.running:  # noqa: ASYNC110 - the engine has no event for its start
        await asyncio.sleep(0)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert (engine.running, len(runner.queue.running), output.outcomes) == (0, 0, [])


async def test_a_known_failure_has_the_reference_of_its_text() -> None:
    class Failing(Engine):
        async def act(self, turn: Turn) -> TurnResult | str | None:
            raise TurnError("broken", "it broke [ref 0a1b]", reference="0a1b")

    output = RecordingOutput()
    await TurnRunner(Failing()).run(request("any"), output)
    assert output.outcome.reference == "0a1b"
