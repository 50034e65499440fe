"""Turns of a workspace: one at a time in a context, so many at once, ended by cancel, deadline or silence."""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from molecule_runtime.testing.probe import Probe, body_of, state_of
from scripts.live_platform import LivePlatform
from tests.e2e.workspaces import SECONDS, Member, member, until, with_modules

pytestmark = pytest.mark.timeout(60)

ROOT = Path(__file__).parents[2]
LIMITS = "{max_concurrent_turns: 2, max_queued_turns: 2}"
CONFIG = f"name: Two\nruntime: echo\na2a: {{port: 0}}\nruntime_config: {LIMITS}\n"


@dataclass
class Limited:
    """A workspace that runs two turns at once and lets two wait; its turns leave lines."""

    member: Member
    file: Path

    @property
    def probe(self) -> Probe:
        return Probe(self.member.url)

    def at(self, text: str) -> dict[str, float]:
        """When the turn of a text started, and ended."""
        lines = (
            [json.loads(line) for line in self.file.read_text().splitlines()] if self.file.exists() else []
        )
        found = [line for line in lines if line["text"] == text]
        assert len(found) <= 2, found
        return {line["event"]: line["at"] for line in found}

    def queued(self) -> int:
        """How many turns wait."""
        lines = self.probe.get("/metrics").text.splitlines()
        [line] = [line for line in lines if "_queued_turns " in line and not line.startswith("#")]
        return int(line.rpartition(" ")[2])

    def answer(self, text: str, context: str = "", **headers: str) -> dict[str, Any]:
        """The Message that answers a text."""
        names = {"contextId": context} if context else {}
        message = self.probe.message("1.0", text, **names)
        return self.probe.result("1.0", "send", {"message": message}, **headers)["message"]

    def task(self, text: str, **names: str) -> tuple[str, Iterator[Any]]:
        """The id of the task that a text begins, and the events that follow."""
        events = self.probe.events("1.0", "stream", {"message": self.probe.message("1.0", text, **names)})
        return body_of(next(events))[1]["id"], events

    def is_free(self) -> bool:
        """Whether no turn has a slot, as the platform knows it."""
        return self.member.row()["active_tasks"] == 0


@pytest.fixture(scope="module")
def limited(live: LivePlatform, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Limited]:
    folder = tmp_path_factory.mktemp("limited")
    variables = {
        "ADAPTER_MODULE": "tests.e2e.recording_adapter",
        "PYTHONPATH": with_modules(ROOT),
        "TURN_LINES": str(folder / "lines.txt"),
    }
    with member(live, folder / "workspace", CONFIG, **variables) as made:
        yield Limited(made, folder / "lines.txt")


def beside(*calls: Callable[[], Any]) -> list[threading.Thread]:
    """Make the calls, each in a thread."""
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    return threads


def test_turns_of_one_context_follow_each_other_and_others_run_beside_them(limited: Limited) -> None:
    task_id, _ = limited.task("/sleep 60", contextId="a")
    until(lambda: limited.at("/sleep 60"))
    threads = beside(lambda: limited.answer("the next", "a"))
    until(lambda: limited.queued() == 1)
    assert limited.answer("beside", "b")["parts"] == [{"text": "echo: beside"}]
    assert limited.at("the next") == {}
    limited.probe.result("1.0", "cancel", {"id": task_id})
    for thread in threads:
        thread.join(SECONDS)
    assert limited.at("the next").keys() == {"start", "end"}


def test_a_turn_that_finds_the_queue_full_is_refused_and_may_come_again(limited: Limited) -> None:
    tasks = [limited.task(f"/sleep 3{number}") for number in range(4)]
    until(lambda: limited.queued() == 2)
    params = {"message": limited.probe.message("1.0", "one too many")}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
    refused = limited.probe.post("", body, **{"A2A-Version": "1.0"})
    assert (refused.status_code, refused.json()["code"]) == (503, "agent-busy")
    assert refused.headers["Retry-After"] == "5"
    for task_id, _ in reversed(tasks):
        limited.probe.result("1.0", "cancel", {"id": task_id})
    assert limited.answer("one too many")["parts"] == [{"text": "echo: one too many"}]
    assert limited.at("/sleep 33") == {}, "what was cancelled in the queue has no turn"


def test_a_cancel_a_deadline_and_silence_each_end_a_turn_and_free_its_slot(limited: Limited) -> None:
    task_id, events = limited.task("/sleep 30")
    limited.probe.result("1.0", "cancel", {"id": task_id})
    assert state_of(body_of(list(events)[-1])[1]) == "canceled"
    late = limited.answer("/sleep 30", X_Timeout="1")
    assert late["parts"] == [{"text": "[turn timed out after 1s]"}]
    assert late["metadata"]["molecule"]["code"] == "turn-timeout"
    idle = limited.file.with_name("idle.txt")
    idle.write_text("1")
    silent = limited.answer("/sleep 30")
    idle.unlink()
    assert silent["parts"] == [{"text": "[no activity for 1s]"}]
    assert silent["metadata"]["molecule"]["code"] == "turn-stalled"
    until(limited.is_free)
    assert limited.answer("still there")["parts"] == [{"text": "echo: still there"}]


def test_a_message_that_comes_again_while_its_turn_runs_has_no_second_turn(limited: Limited) -> None:
    message, answers = limited.probe.message("1.0", "/sleep 0.6"), list[Any]()

    def deliver() -> None:
        result = limited.probe.result("1.0", "send", {"message": message}, X_Molecule_Message_Id="row-1")
        answers.append(result["message"])

    threads = beside(deliver)
    until(lambda: limited.at("/sleep 0.6"))
    threads += beside(deliver, deliver)
    for thread in threads:
        thread.join(SECONDS)
    assert limited.at("/sleep 0.6").keys() == {"start", "end"}
    assert [answer["parts"] for answer in answers] == [[{"text": "echo: slept 0.6 s"}]] * 3
    assert len({answer["messageId"] for answer in answers}) == 1
