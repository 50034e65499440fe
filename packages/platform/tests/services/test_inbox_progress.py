"""Progress from the inbox: numbered events of the message's task, and a lease that lasts."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from molecule_platform.domain.messages import Message
from molecule_platform.domain.tasks import Task, TaskKey
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.storage import Transaction
from molecule_platform.services.messaging.inbox.inbox_answers import InboxAnswer
from molecule_platform.services.messaging.inbox.inbox_progress import InboxProgress, ProgressReport
from molecule_platform.services.messaging.tasks import task_log

if TYPE_CHECKING:
    from packages.platform.tests.services.conftest import Refuses, Rig


class Work:
    """A message that a worker holds, and its task."""

    def __init__(self, rig: Rig, ada: Workspace, item: dict[str, Any]) -> None:
        self.rig, self.ada = rig, ada
        self.id: str = item["message_id"]
        self.token: str = item["lease"]["token"]
        self.progress = InboxProgress(rig.storage, rig.clock)

    async def report(self, **report: Any) -> int:
        return (await self.progress.report(self.ada, self.id, self.token, ProgressReport(**report))).seq

    async def chunk(self, name: str, words: str, **flags: Any) -> int:
        return await self.report(artifact={"artifactId": name, "parts": [{"text": words}]}, **flags)

    async def answer(self, *artifacts: dict[str, Any]) -> Message:
        answer = InboxAnswer([{"text": "done"}], artifacts=artifacts)
        return await self.rig.inbox.answer(self.ada, self.id, self.token, answer)

    async def message(self) -> Message:
        return await self.rig.message(self.id)

    async def task(self) -> tuple[Task, dict[str, Any]]:
        def work(tx: Transaction) -> tuple[Task, dict[str, Any]]:
            found = tx.tasks.get(TaskKey(self.ada.id, "", self.id))
            assert found is not None
            return found, task_log.folded(tx, found)

        return await self.rig.storage.read(work)


@pytest.fixture
async def work(rig: Rig) -> Work:
    ada = await rig.agent()
    await rig.send(ada, "two and two?", dialect="1.0")
    [item] = await rig.lease(ada, lease_seconds=30)
    return Work(rig, ada, item)


async def test_a_report_is_the_next_numbered_event_of_the_task(work: Work) -> None:
    # 1: the task, submitted; 2: that it is being worked on.
    assert await work.report(parts=[{"text": "thinking"}]) == 3
    assert await work.report(parts=[{"text": "still thinking"}], metadata={"percent": 50}) == 4
    _, whole = await work.task()
    assert whole["status"]["state"] == "TASK_STATE_WORKING"
    assert whole["status"]["message"]["parts"] == [{"text": "still thinking"}]
    assert whole["metadata"] == {"percent": 50}


async def test_pieces_of_an_artifact_grow_together(work: Work) -> None:
    await work.chunk("a", "one ")
    assert await work.chunk("a", "two", append=True, last_chunk=True) == 4
    _, whole = await work.task()
    assert whole["artifacts"] == [{"artifactId": "a", "parts": [{"text": "one "}, {"text": "two"}]}]


async def test_a_piece_of_an_artifact_that_was_never_begun_is_refused_without_effect(
    work: Work, refuses: Refuses
) -> None:
    refusal = await refuses(work.chunk("never", "x", append=True), "invalid-request")
    assert refusal.extras["field"] == "artifact"
    assert await work.report(parts=[{"text": "goes on"}]) == 3


async def test_an_artifact_and_words_are_two_events_and_the_last_number_is_told(work: Work) -> None:
    assert await work.report(artifact={"artifactId": "a", "parts": []}, parts=[{"text": "see"}]) == 4


async def test_a_report_without_content_only_renews_the_lease(work: Work) -> None:
    work.rig.clock.advance(20)
    assert await work.report() == await work.report() == 2
    assert (await work.message()).lease_expires_at == work.rig.clock.now() + timedelta(seconds=60)


async def test_a_report_never_shortens_a_lease_and_never_passes_the_deadline(rig: Rig) -> None:
    ada = await rig.agent()
    await rig.send(ada, timeout_seconds=90)
    [item] = await rig.lease(ada, lease_seconds=80)
    work = Work(rig, ada, item)
    ends = (await work.message()).lease_expires_at
    await work.report()
    assert (await work.message()).lease_expires_at == ends
    rig.clock.advance(75)
    await work.report()
    assert (await work.message()).lease_expires_at == (await work.message()).deadline_at


@pytest.mark.parametrize("state", ["completed", "input-required", "dreaming"])
async def test_a_state_that_ends_a_message_is_no_progress(work: Work, refuses: Refuses, state: str) -> None:
    refusal = await refuses(work.report(state=state), "invalid-request")
    assert "answer" in refusal.sentence


async def test_whoever_lost_the_lease_reports_nothing(work: Work, refuses: Refuses) -> None:
    await work.rig.inbox.release(work.ada, work.id, work.token)
    await work.rig.lease(work.ada)
    await refuses(work.report(parts=[{"text": "late"}]), "lease-lost")


async def test_after_a_cancel_the_worker_learns_it_from_its_next_report(work: Work, refuses: Refuses) -> None:
    await work.rig.cancellation.cancel_message(work.rig.admin, work.id, "enough")
    refusal = await refuses(work.report(parts=[{"text": "more"}]), "lease-lost")
    assert refusal.extras["status"] == "cancelled"


async def test_the_answer_holds_all_artifacts_also_those_that_were_streamed(work: Work) -> None:
    await work.chunk("a", "streamed")
    await work.chunk("b", "first draft")
    better = {"artifactId": "b", "parts": [{"text": "better"}]}
    ended = await work.answer(better, {"parts": [{"text": "nameless"}]})
    result = ended.result_json()["task"]
    assert [(one["artifactId"], one["parts"][0]["text"]) for one in result["artifacts"]] == [
        ("a", "streamed"),
        ("b", "better"),
        ("artifact-2", "nameless"),
    ]
    _, whole = await work.task()
    assert whole["artifacts"] == result["artifacts"]
    assert whole["status"]["state"] == "TASK_STATE_COMPLETED"
    assert await work.answer(better, {"parts": [{"text": "nameless"}]}) == ended


async def test_a_running_task_is_folded_from_its_log_and_stored_whole_when_it_ends(work: Work) -> None:
    await work.chunk("a", "0")
    for number in range(1, 100):
        await work.chunk("a", f" {number}", append=True)
    task, whole = await work.task()
    assert (task.snapshot, task.snapshot_seq) == (None, 0)
    words = "".join(part["text"] for part in whole["artifacts"][0]["parts"])
    assert words == " ".join(str(number) for number in range(100))
    await work.answer()
    ended, kept = await work.task()
    assert ended.snapshot_seq == ended.last_seq
    assert kept["artifacts"] == whole["artifacts"]


async def test_a_repeated_report_appends_once_and_gets_the_first_reply(work: Work) -> None:
    assert await work.chunk("a", "one", number=1) == 3
    assert await work.chunk("a", "two", append=True, number=2) == 4
    assert await work.chunk("a", "two", append=True, number=2) == 4
    assert await work.report(number=3) == 4
    # A report that was stuck in a replica comes after the next one: it must not be appended again.
    assert await work.chunk("a", "one", number=1) == 4
    assert await work.chunk("a", "three", append=True, number=4) == 5
    _, whole = await work.task()
    assert [part["text"] for part in whole["artifacts"][0]["parts"]] == ["one", "two", "three"]


async def test_the_numbers_of_reports_begin_again_with_each_lease(work: Work) -> None:
    await work.chunk("a", "one", number=1)
    await work.rig.inbox.release(work.ada, work.id, work.token)
    [item] = await work.rig.lease(work.ada)
    again = Work(work.rig, work.ada, item)
    await again.chunk("a", "two", append=True, number=1)
    _, whole = await again.task()
    assert [part["text"] for part in whole["artifacts"][0]["parts"]] == ["one", "two"]


async def test_artifacts_over_the_limit_fail_the_message_with_the_figure(
    work: Work, refuses: Refuses
) -> None:
    work.progress = InboxProgress(work.rig.storage, work.rig.clock, 1000)
    await work.chunk("a", "x" * 600)
    refusal = await refuses(work.chunk("b", "x" * 600), "payload-too-large")
    assert (refusal.extras["limit"], refusal.extras["maximum"]) == ("task-artifacts", 1000)
    message = await work.message()
    assert (message.status, message.error and message.error["code"]) == ("failed", "invalid-agent-response")
    assert "1000 bytes" in str(message.error)
    _, whole = await work.task()
    assert [artifact["artifactId"] for artifact in whole["artifacts"]] == ["a"]
