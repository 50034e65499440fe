"""The contract suite of adapters passes good engines, and says of each broken one what is wrong with it."""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar
from unittest import SkipTest

import pytest
from a2a.server.agent_execution import AgentExecutor

from molecule_runtime.domain.capabilities import RuntimeCapabilities
from molecule_runtime.domain.turns import TurnError
from molecule_runtime.executor_helpers import extract_message_text, new_response_message
from molecule_runtime.kit.setup.adapter import AdapterConfig, BaseAdapter
from molecule_runtime.kit.turns import runner
from molecule_runtime.kit.turns.executor import Turn, TurnExecutor
from molecule_runtime.runtimes.echo import EchoAdapter
from molecule_runtime.testing import AdapterContract


class TestEcho(AdapterContract):
    """The engine that comes with the runtime."""

    adapter = EchoAdapter
    turn_answer = "echo: hello"
    stream_text = "/stream 30"
    long_text = "/sleep 60"
    error_text = "/fail"
    error_private = "echo was asked to fail"
    unsupported: ClassVar = {"memory": "echo answers with what it was asked, whatever was said before"}
    work_seconds = 0.05


class Engine(TurnExecutor):
    """Remembers words by their context and does what the text says; its faults are those of its adapter."""

    interrupt_grace = 0.05

    def __init__(self, config: AdapterConfig, adapter: "EngineAdapter") -> None:
        super().__init__(config, adapter=adapter)
        self.words: dict[str, str] = dict(adapter.restored)

    async def run_turn(self, turn: Turn) -> str:
        verb, _, rest = turn.text.partition(" ")
        act = getattr(self, f"do_{verb}", None)
        return f"you said {turn.text}" if act is None else await act(turn, rest)

    async def do_keep(self, turn: Turn, rest: str) -> str:
        self.words[turn.context_id] = rest
        return "kept"

    async def do_tell(self, turn: Turn, rest: str) -> str:
        return f"it is {self.words.get(turn.context_id, 'unknown')}"

    async def do_stream(self, turn: Turn, rest: str) -> None:
        for piece in ("one ", "two ", "three"):
            await turn.sink.text(piece)

    async def do_wait(self, turn: Turn, rest: str) -> str:
        await asyncio.sleep(60)
        return "waited"

    async def do_fail(self, turn: Turn, rest: str) -> str:
        raise ValueError("the password is hunter2")


class EngineAdapter(BaseAdapter):
    executor: type[Engine] = Engine
    restored: ClassVar[dict[str, str]] = {}

    @staticmethod
    def name() -> str:
        return "test-engine"

    @staticmethod
    def display_name() -> str:
        return "Engine of a test"

    @staticmethod
    def description() -> str:
        return "Remembers words."

    async def setup(self, config: AdapterConfig) -> None:
        pass

    async def create_executor(self, config: AdapterConfig) -> Engine:
        self._executor: Engine = self.executor(config, self)
        return self._executor

    def pre_stop_state(self) -> dict[str, Any]:
        return {"words": self._executor.words}

    def restore_state(self, snapshot: dict[str, Any]) -> None:
        self.restored = snapshot["words"]  # type: ignore[misc]


class EngineContract(AdapterContract):
    adapter = EngineAdapter
    turn_answer = "you said hello"
    remember_text = "keep heron"
    recall_text = "tell"
    remembered = "heron"
    stream_text = "stream"
    long_text = "wait"
    error_text = "fail"
    error_private = "hunter2"
    work_seconds = 0.05


class TestEngine(EngineContract):
    """An engine that can do everything."""


class ForeignExecutor(AgentExecutor):
    """An executor of the a2a-sdk, which knows nothing of the kit."""

    def __init__(self, words: dict[str, str]) -> None:
        self.words = words
        self.cancelled = asyncio.Event()

    async def execute(self, context: Any, event_queue: Any) -> None:
        text = extract_message_text(context.message)
        if text.startswith("keep "):
            self.words[context.context_id] = text.removeprefix("keep ")
        elif text == "tell":
            text = f"it is {self.words.get(context.context_id, 'unknown')}"
        elif text == "wait":
            self.cancelled.clear()
            await self.cancelled.wait()
        elif text == "fail":
            raise ValueError("the password is hunter2")
        await event_queue.enqueue_event(new_response_message(context, f"you said {text}"))

    async def cancel(self, context: Any, event_queue: Any) -> None:
        self.cancelled.set()


class ForeignAdapter(EngineAdapter):
    async def create_executor(self, config: AdapterConfig) -> Any:
        self._executor: Any = ForeignExecutor(dict(self.restored))
        return self._executor


class TestForeignExecutor(EngineContract):
    """An adapter for the original base: the guard of the kit does what it does not know."""

    adapter = ForeignAdapter
    unsupported: ClassVar = {"stream": "its executor sends one message"}


# Broken adapters: each with the test that catches it and what the author is told.


class IgnoresCancel(EngineAdapter):
    class executor(Engine):
        async def do_wait(self, turn: Turn, rest: str) -> str:
            for _ in range(3):
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    continue
            return "waited"


class ForgetsOnRestart(EngineAdapter):
    def restore_state(self, snapshot: dict[str, Any]) -> None:
        pass


class SessionLikeASecret(EngineAdapter):
    def pre_stop_state(self) -> dict[str, Any]:
        return {**super().pre_stop_state(), "session_id": "sk-0123456789abcdef0123"}


class RestoresOnlyAfterATurn(EngineAdapter):
    def restore_state(self, snapshot: dict[str, Any]) -> None:
        super().restore_state({"words": snapshot["sessions"]["kept"]})


class DeclaresSession(EngineAdapter):
    def capabilities(self) -> RuntimeCapabilities:
        return RuntimeCapabilities(provides_native_session=True)


class RaisesInCapabilities(EngineAdapter):
    def capabilities(self) -> RuntimeCapabilities:
        raise KeyError("model")


class FractionalIdleTimeout(EngineAdapter):
    def idle_timeout_override(self) -> Any:
        return 0.5


class LeaksErrorText(EngineAdapter):
    class executor(Engine):
        async def do_fail(self, turn: Turn, rest: str) -> str:
            try:
                return await super().do_fail(turn, rest)
            except ValueError as problem:
                raise TurnError("failed", str(problem)) from problem


class AnswersInsteadOfFailing(EngineAdapter):
    class executor(Engine):
        async def do_fail(self, turn: Turn, rest: str) -> str:
            return "all is well"


class BrokenAfterAnError(EngineAdapter):
    class executor(Engine):
        is_broken = False

        async def run_turn(self, turn: Turn) -> str:
            self.is_broken = self.is_broken or turn.text == "fail"
            if self.is_broken:
                raise RuntimeError("the connection is closed")
            return await super().run_turn(turn)


class SharesConversations(EngineAdapter):
    class executor(Engine):
        async def do_tell(self, turn: Turn, rest: str) -> str:
            return " ".join(self.words.values())


class StreamsNothing(EngineAdapter):
    class executor(Engine):
        async def do_stream(self, turn: Turn, rest: str) -> str:  # type: ignore[override]
            return "one two three"


class TouchesByTimer(EngineAdapter):
    class executor(Engine):
        async def do_wait(self, turn: Turn, rest: str) -> str:
            while True:
                await asyncio.sleep(0.01)
                turn.sink.touch()


class LeavesAChild(EngineAdapter):
    children: ClassVar[list["subprocess.Popen[bytes]"]] = []

    class executor(Engine):
        async def run_turn(self, turn: Turn) -> str:
            LeavesAChild.start_child()
            return await super().run_turn(turn)

    @classmethod
    def start_child(cls) -> None:
        cls.children.append(subprocess.Popen(["sleep", "60"]))


class StartsAProgramInSmoke(EngineAdapter):
    async def setup(self, config: AdapterConfig) -> None:
        await (await asyncio.create_subprocess_exec("true")).wait()


class NameIsNoId(EngineAdapter):
    @staticmethod
    def name() -> str:
        return "My Engine"


BROKEN: list[tuple[type[BaseAdapter], str, str]] = [
    (IgnoresCancel, "a_cancel_ends_the_work", "the engine still works on a turn that was cancelled"),
    (ForgetsOnRestart, "a_restart_remembers", "after a restart the engine says 'it is unknown'"),
    (
        SessionLikeASecret,
        "a_restart_remembers",
        "snapshots redact what looks like a secret: session_id is '[REDACTED",
    ),
    (RestoresOnlyAfterATurn, "a_restart_answers", "restore_state() raised KeyError: 'kept'"),
    (
        DeclaresSession,
        "its_capabilities_are_proved",
        "declares session, and nothing proves it: write `async def",
    ),
    (RaisesInCapabilities, "its_capabilities_are_declared", "capabilities() raised KeyError: 'model'"),
    (
        FractionalIdleTimeout,
        "its_capabilities_are_declared",
        "idle_timeout_override() is 0.5, not None or a positive int",
    ),
    (LeaksErrorText, "an_error_stays_inside", "the caller sees the text of the failure"),
    (AnswersInsteadOfFailing, "an_error_stays_inside", "'fail' ended as completed and not as failed"),
    (BrokenAfterAnError, "an_error_stays_inside", "'hello' was not answered after a failure"),
    (
        SharesConversations,
        "a_second_turn_remembers_the_first",
        "one conversation knows what another one said: 'heron'",
    ),
    (StreamsNothing, "an_answer_is_streamed", "0 pieces of text were streamed"),
    (TouchesByTimer, "silence_ends_the_work", "'wait' is not silent: report to turn.sink what happens"),
    (
        LeavesAChild,
        "a_turn_is_answered",
        "its programs still run: sleep 60; start programs with the kit's spawn()",
    ),
    (
        StartsAProgramInSmoke,
        "a_smoke_start_touches_nothing_outside",
        "although config.smoke is true: subprocess.Popen 'true'",
    ),
    (NameIsNoId, "it_says_what_it_is", "name() is 'My Engine', not an id such as 'my-engine'"),
]


@pytest.fixture(autouse=True)
def no_children() -> Iterator[None]:
    yield
    for child in LeavesAChild.children:
        child.kill()
        child.wait()
    LeavesAChild.children.clear()


def complaint(contract: AdapterContract, test: str, folder: Path) -> str:
    """What the contract says when one of its tests is run; empty when it passes."""
    method: Callable[..., None] = getattr(contract, f"test_{test}")
    try:
        method(*([folder] if "tmp_path" in method.__annotations__ else []))
    except AssertionError as failed:
        return str(failed)
    return ""


@pytest.mark.parametrize(("adapter", "test", "problem"), BROKEN, ids=[row[0].__name__ for row in BROKEN])
def test_a_broken_adapter_is_told_what_is_wrong(
    adapter: type[BaseAdapter], test: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "ENDING_SECONDS", 0.1)
    monkeypatch.setattr("molecule_runtime.testing.side_effects.CHILDREN_SECONDS", 0.2)
    contract = EngineContract()
    contract.adapter = adapter  # type: ignore[misc]
    assert problem in complaint(contract, test, tmp_path)


def test_a_flag_is_proved_by_its_author_and_a_proof_that_fails_is_a_failure(tmp_path: Path) -> None:
    class Proving(EngineContract):
        adapter = DeclaresSession
        proved: ClassVar[list[str]] = []

        async def prove_session(self, folder: Path) -> None:
            async with self.workspace(folder) as workspace:
                self.proved.append(await self.answer(workspace, "hello"))
            if len(self.proved) > 1:
                raise AssertionError("twice is too much")

    assert complaint(Proving(), "its_capabilities_are_proved", tmp_path) == ""
    assert Proving.proved == ["you said hello"]
    assert complaint(Proving(), "its_capabilities_are_proved", tmp_path) == "twice is too much"


def test_a_case_is_stated_or_denied_with_a_reason(tmp_path: Path) -> None:
    class Undecided(EngineContract):
        stream_text = ""

    problem = complaint(Undecided(), "an_answer_is_streamed", tmp_path)
    assert problem.startswith("set stream_text of Undecided, or say in `unsupported` why")
    for denied, sentence in (
        ({"streams": "no"}, "`unsupported` names streams; the cases are memory,"),
        ({"stream": " "}, "`unsupported` has no reason for 'stream'"),
    ):
        contract = EngineContract()
        contract.unsupported = denied  # type: ignore[misc]
        assert complaint(contract, "an_answer_is_streamed", tmp_path).startswith(sentence)
    contract = EngineContract()
    contract.unsupported = {"long": "it only adds numbers"}  # type: ignore[misc]
    with pytest.raises(SkipTest, match="long: it only adds numbers"):
        contract.test_a_cancel_ends_the_work(tmp_path)


def test_the_suite_is_imported_without_pytest() -> None:
    program = "import sys, molecule_runtime.testing; print('pytest' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
