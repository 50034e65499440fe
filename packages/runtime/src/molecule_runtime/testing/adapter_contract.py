"""The contract suite of adapters: an author subclasses it in a pytest file and says which texts do what.

    class TestMyAdapter(AdapterContract):
        adapter = MyAdapter
        long_text = "count to a million"
        ...

It needs pytest to be run and nothing to be imported: what an engine cannot do is skipped by `SkipTest`, which
pytest knows, and every fault is an AssertionError that says what is wrong and what to do.
"""

import asyncio
import inspect
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar
from unittest import SkipTest

from molecule_runtime.domain.snapshots import plain
from molecule_runtime.domain.turns import NO_RESPONSE
from molecule_runtime.kit.setup.adapter import AdapterConfig, BaseAdapter
from molecule_runtime.testing import declarations, side_effects
from molecule_runtime.testing.event_loop import run_in_loop
from molecule_runtime.testing.memory_workspace import MemoryWorkspace, step
from molecule_runtime.testing.recording_output import RecordingOutput, request

CASES = ("memory", "restore", "stream", "long", "error")
"""What an engine may be unable to do; `AdapterContract.unsupported` says so, with the reason."""


class AdapterContract:
    """What every adapter must do. Turns go through the kit's runner, as in a workspace process.

    Set `adapter` and the texts. A flag that `capabilities()` declares needs a method that proves it, such as
    `async def prove_retry(self, folder: Path) -> None`; `workspace` and `answer` are there for it.
    A restart is a new adapter in the same process: what an engine keeps in globals is not noticed here.
    """

    adapter: ClassVar[type[BaseAdapter]]

    turn_text: str = "hello"
    """Is answered."""
    turn_answer: str = ""
    """A part of the answer to `turn_text`; empty accepts any."""
    remember_text: str = ""
    """Says something, as in "my name is Ada"."""
    recall_text: str = ""
    """Asks for it in the next turn, without saying it."""
    remembered: str = ""
    """The part of that answer which shows that the first turn is remembered."""
    stream_text: str = ""
    """Is answered in several pieces."""
    long_text: str = ""
    """Keeps the engine at work, silently, for a minute unless it is interrupted."""
    error_text: str = ""
    """Makes the engine fail."""
    error_private: str = ""
    """Words of that failure which only the log may have."""

    unsupported: ClassVar[Mapping[str, str]] = {}
    """What the engine cannot do, with the reason: `{"memory": "it has no conversations"}`; see `CASES`."""

    answer_seconds: float = 60.0
    """How long an answer may take."""
    work_seconds: float = 0.2
    """How long the engine is at work before a cancel, its deadline, or the end of patience with silence."""
    cancel_seconds: float = 15.0
    """How long a cancelled turn may take to end."""

    # Hooks and helpers

    def make_adapter(self) -> BaseAdapter:
        """A new adapter; override it when the class needs arguments."""
        return self.adapter()

    def configure(self, config: AdapterConfig) -> None:
        """Change what the adapter is told, for example `config.runtime_config`."""

    @asynccontextmanager
    async def workspace(self, folder: Path) -> AsyncGenerator[MemoryWorkspace]:
        """A workspace that runs and is stopped with a snapshot; a second one on the folder is its restart."""
        before = side_effects.child_processes()
        workspace = MemoryWorkspace(self.make_adapter(), folder)
        self.configure(workspace.config)
        try:
            await workspace.start()
            yield workspace
        except BaseException:
            with suppress(Exception):  # the first fault is the one to tell
                await workspace.close()
            raise
        await workspace.stop()
        await side_effects.check_children_ended(before)

    async def answer(self, workspace: MemoryWorkspace, text: str, context_id: str = "", why: str = "") -> str:
        """The answer to a text; `why` is put into the complaint when there is none."""
        outcome = (await workspace.send(text, context_id, seconds=self.answer_seconds)).outcome
        ended = f"{outcome.state} {outcome.code}: {outcome.text}"
        assert outcome.state == "completed", f"{text!r} was not answered{why}; the turn ended as {ended}"
        assert outcome.text.strip() not in ("", NO_RESPONSE), f"{text!r} has an empty answer{why}"
        return outcome.text

    # What the adapter says of itself

    def test_it_says_what_it_is(self) -> None:
        """Names, description, schema and memory file are there and have their form."""
        declarations.check_identity(self.make_adapter())

    def test_its_capabilities_are_declared(self) -> None:
        """Seven flags, and a number of seconds or none; before anything was set up."""
        adapter = self.make_adapter()
        declarations.flags_of(adapter)
        declarations.check_idle_timeout(adapter)

    @run_in_loop
    async def test_its_capabilities_are_proved(self, tmp_path: Path) -> None:
        """Each declared flag has a proof of the author, and the proof holds."""
        declared = [name for name, is_set in declarations.flags_of(self.make_adapter()).items() if is_set]
        if not declared:
            raise SkipTest("the adapter declares no capability")
        proofs = {name: getattr(self, f"prove_{name}", None) for name in declared}
        missing = [declarations.missing_proof(name) for name, proof in proofs.items() if proof is None]
        assert not missing, "; ".join(missing)
        for name, proof in proofs.items():
            assert inspect.iscoroutinefunction(proof), f"prove_{name} must be `async def`"
            await proof(tmp_path / name)

    @run_in_loop
    async def test_a_smoke_start_touches_nothing_outside(self, tmp_path: Path) -> None:
        """With `config.smoke` the setup connects to nothing and starts nothing: image builds rely on it."""
        workspace = MemoryWorkspace(self.make_adapter(), tmp_path)
        self.configure(workspace.config)
        workspace.config.smoke = True
        try:
            with side_effects.recorded() as happened, step("setup"):
                await workspace.adapter.setup(workspace.config)
        finally:
            with suppress(Exception):
                await workspace.close()
        found = ", ".join(happened)
        assert not happened, f"setup() goes outside although config.smoke is true: {found}"

    # Turns

    @run_in_loop
    async def test_a_turn_is_answered(self, tmp_path: Path) -> None:
        """A message has one outcome, with text."""
        async with self.workspace(tmp_path) as workspace:
            answer = await self.answer(workspace, self.turn_text)
        problem = f"the answer to {self.turn_text!r} is {answer!r}, without {self.turn_answer!r}"
        assert self.turn_answer in answer, problem

    @run_in_loop
    async def test_a_second_turn_remembers_the_first(self, tmp_path: Path) -> None:
        """A conversation goes on, and another one knows nothing of it."""
        self._needs("memory", "remember_text", "recall_text", "remembered")
        async with self.workspace(tmp_path) as workspace:
            await self.answer(workspace, self.remember_text, "one")
            answer = await self.answer(workspace, self.recall_text, "one")
            assert self.remembered in answer, (
                f"the second turn does not remember the first: it says {answer!r}"
            )
            other = (await workspace.send(self.recall_text, "two", seconds=self.answer_seconds)).outcome.text
        assert self.remembered not in other, f"one conversation knows what another one said: {other!r}"

    @run_in_loop
    async def test_an_answer_is_streamed(self, tmp_path: Path) -> None:
        """Pieces come while the engine works; together they are the answer."""
        self._needs("stream", "stream_text")
        async with self.workspace(tmp_path) as workspace:
            output = await workspace.send(self.stream_text, seconds=self.answer_seconds)
        outcome, pieces = (
            output.outcome,
            [event for event in output.events if event[0] == "text" and event[1]],
        )
        assert outcome.state == "completed", f"the stream ended as {outcome.state}: {outcome.text}"
        advice = "report each piece with `await turn.sink.text(piece)` as it comes"
        assert len(pieces) > 1, f"{len(pieces)} pieces of text were streamed: {advice}"
        streamed, final_text = " ".join(output.streamed_text.split()), " ".join(outcome.text.split())
        assert final_text in streamed, (
            f"the text that was streamed, {streamed!r}, is not the answer, {final_text!r}"
        )

    # What ends a turn early

    @run_in_loop
    async def test_a_cancel_ends_the_work(self, tmp_path: Path) -> None:
        """A cancelled turn ends in time, the engine with it, and the conversation goes on."""
        self._needs("long", "long_text")
        async with self.workspace(tmp_path) as workspace:
            turn_request, output = request(self.long_text, "long"), RecordingOutput()
            turn = asyncio.ensure_future(workspace.runner.run(turn_request, output))
            begun = asyncio.ensure_future(workspace.engine_began.wait())
            await asyncio.wait({turn, begun}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({turn}, timeout=self.work_seconds)
            assert not turn.done(), self._too_short(output)
            began = time.monotonic()
            workspace.runner.cancel(turn_request.task_id)
            await turn
            took = time.monotonic() - began
            await self._has_ended(workspace, "was cancelled")
            assert output.outcome.state == "canceled", f"a cancelled turn ended as {output.outcome.state}"
            late = (
                f"a cancelled turn took {took:.1f} s to end; implement interrupt(), or lower interrupt_grace"
            )
            assert took <= self.cancel_seconds, late

    @run_in_loop
    async def test_a_deadline_ends_the_work(self, tmp_path: Path) -> None:
        """A turn ends at its deadline, the engine with it, and the conversation goes on."""
        self._needs("long", "long_text")
        async with self.workspace(tmp_path) as workspace:
            output = await workspace.send(self.long_text, "long", seconds=self.work_seconds)
            assert output.outcome.code == "turn-timeout", self._too_short(output)
            await self._has_ended(workspace, "is past its deadline")

    @run_in_loop
    async def test_silence_ends_the_work(self, tmp_path: Path) -> None:
        """A turn that reports nothing is taken for stuck, unless the engine asks for more patience."""
        self._needs("long", "long_text")
        async with self.workspace(tmp_path) as workspace:
            patience = workspace.executor.idle_timeout
            workspace.executor.idle_timeout = self.work_seconds  # type: ignore[misc] - for this executor alone
            output = await workspace.send(self.long_text, "long", seconds=10 * self.work_seconds)
            workspace.executor.idle_timeout = patience  # type: ignore[misc]
            active = f"{self.long_text!r} is not silent: report to turn.sink what happens, never by a timer"
            assert output.outcome.code != "turn-timeout", active
            assert output.outcome.code == "turn-stalled", self._too_short(output)
            await self._has_ended(workspace, "was silent too long")

    @run_in_loop
    async def test_an_error_stays_inside(self, tmp_path: Path) -> None:
        """A failure is told as one, its text stays in the log, and the engine goes on."""
        self._needs("error", "error_text", "error_private")
        async with self.workspace(tmp_path) as workspace:
            output = await workspace.send(self.error_text, "broken", seconds=self.answer_seconds)
            advice = "raise it, or raise TurnError with a sentence for the caller"
            record = repr((output.events, output.outcomes))
            assert self.error_private not in record, f"the caller sees the text of the failure; {advice}"
            state = output.outcome.state
            assert state == "failed", f"{self.error_text!r} ended as {state} and not as failed; {advice}"
            await self.answer(workspace, self.turn_text, "broken", " after a failure")

    # Restarts

    @run_in_loop
    async def test_a_restart_answers(self, tmp_path: Path) -> None:
        """A new adapter takes over what the one before left, also when that had no turn."""
        for count in range(3):
            async with self.workspace(tmp_path) as workspace:
                assert count == 0 or workspace.restored is not None, "no snapshot was left to restore"
                if count:
                    await self.answer(workspace, self.turn_text, "restarted", " after a restart")

    @run_in_loop
    async def test_a_restart_remembers(self, tmp_path: Path) -> None:
        """A conversation goes on with a new adapter that was given the snapshot of the one before."""
        self._needs("memory", "remember_text", "recall_text", "remembered")
        self._needs("restore")
        async with self.workspace(tmp_path) as first:
            await self.answer(first, self.remember_text, "kept")
        async with self.workspace(tmp_path) as second:
            self._compare_states(first.state_before_stop, second.restored or {})
            answer = await self.answer(second, self.recall_text, "kept", " after a restart")
        advice = "keep what it needs in pre_stop_state() or turn.state, or use turn.history"
        assert self.remembered in answer, f"after a restart the engine says {answer!r}; {advice}"

    # Complaints

    def _needs(self, case: str, *names: str) -> None:
        """Skip a case that the engine cannot do; one that is neither stated nor denied is a fault."""
        unknown = sorted(set(self.unsupported) - set(CASES))
        assert not unknown, f"`unsupported` names {', '.join(unknown)}; the cases are {', '.join(CASES)}"
        if case in self.unsupported:
            reason = self.unsupported[case].strip()
            assert reason, f"`unsupported` has no reason for {case!r}"
            raise SkipTest(f"{case}: {reason}")
        missing = [name for name in names if not getattr(self, name)]
        advice = f"or say in `unsupported` why the engine cannot do {case!r}"
        assert not missing, f"set {', '.join(missing)} of {type(self).__name__}, {advice}"

    def _too_short(self, output: RecordingOutput) -> str:
        outcome = output.outcome
        ended = f"{outcome.state} {outcome.code}: {outcome.text}"
        return f"long_text {self.long_text!r} must keep the engine at work for a minute; it ended as {ended}"

    async def _has_ended(self, workspace: MemoryWorkspace, what: str) -> None:
        advice = "run_turn must end when its task is cancelled"
        assert not workspace.turns_at_work, f"the engine still works on a turn that {what}; {advice}"
        await self.answer(workspace, self.turn_text, "long", f" after a turn that {what}")

    def _compare_states(self, left: Mapping[str, Any], restored: Mapping[str, Any]) -> None:
        """A snapshot is JSON without secrets: what is neither comes back as something else."""
        changed = [name for name, value in left.items() if restored.get(name) != plain(value) and value]
        differences = ", ".join(f"{name} is {restored.get(name)!r}" for name in changed)
        why = "snapshots redact what looks like a secret"
        assert not changed, f"restore_state() is not given what pre_stop_state() told, {why}: {differences}"
