"""Hearing an agent out: every event numbered once, whoever reads it, however its stream breaks."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from molecule_platform.domain.messages import Message
from molecule_platform.domain.tasks import Task, TaskEvent, TaskKey
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.agents import AgentEvent, Completed, Delivery, DeliveryFailed, InProgress
from molecule_platform.ports.storage import Transaction
from molecule_platform.services.dispatch import task_recorder
from molecule_platform.services.dispatch.task_follower import TaskFollower
from molecule_platform.services.dispatch.task_recorder import TaskRecorder
from molecule_platform.services.messaging.tasks import task_log
from molecule_wire.a2a.errors import A2AError

if TYPE_CHECKING:
    from packages.platform.tests.conftest import Eventually
    from packages.platform.tests.services.conftest import Rig

URL = "http://agent/a2a"


def task(
    state: str, task_id: str = "t1", context: str = "c1", artifacts: list[Any] | None = None
) -> AgentEvent:
    body: dict[str, Any] = {"id": task_id, "contextId": context, "status": {"state": wire(state)}}
    if artifacts:
        body["artifacts"] = artifacts
    ids = tuple(artifact["artifactId"] for artifact in artifacts or [])
    return AgentEvent("task", json.dumps({"task": body}).encode(), "1.0", task_id, context, state, ids)


def status(state: str, task_id: str = "t1", said: str | None = None) -> AgentEvent:
    told: dict[str, Any] = {"state": wire(state)}
    if said is not None:
        told["message"] = {"messageId": "a", "role": "ROLE_AGENT", "parts": [{"text": said}]}
    body = {"taskId": task_id, "contextId": "c1", "status": told}
    return AgentEvent("status", json.dumps({"statusUpdate": body}).encode(), "1.0", task_id, "c1", state)


def chunk(text: str, append: bool = False, name: str = "out") -> AgentEvent:
    body: dict[str, Any] = {
        "taskId": "t1",
        "contextId": "c1",
        "artifact": {"artifactId": name, "parts": [{"text": text}]},
    }
    if append:
        body["append"] = True
    payload = json.dumps({"artifactUpdate": body}).encode()
    return AgentEvent("artifact", payload, "1.0", "t1", "c1", None, (name,), append)


def wire(state: str) -> str:
    return "TASK_STATE_" + state.upper().replace("-", "_")


async def ended(rig: Rig, message_id: str) -> Message:
    message = await rig.delivery.outcome(message_id, 30)
    assert not message.is_open
    return message


async def log(rig: Rig, target: Workspace, task_id: str) -> list[TaskEvent]:
    key = TaskKey(target.id, "", task_id)
    return await rig.storage.read(lambda tx: list(task_log.events_after(tx, key, 0)))


async def kept(rig: Rig, target: Workspace, task_id: str) -> Task:
    found = await rig.storage.read(lambda tx: tx.tasks.named(target.id, "", task_id))
    assert found is not None
    return found


async def test_a_stream_is_kept_event_by_event_as_the_agent_said_it(rig: Rig) -> None:
    ada = await rig.agent(url=URL)
    said = [task("submitted"), status("working"), chunk("a"), chunk("b", append=True), status("completed")]
    rig.link.answers = [said]
    message = await ended(rig, (await rig.send(ada, dialect="1.0")).message.id)
    events = await log(rig, ada, "t1")
    assert [event.seq for event in events] == [1, 2, 3, 4, 5]
    assert [event.payload for event in events] == [one.payload for one in said]
    assert message.task_id == "t1"
    whole = json.loads(message.result or b"")["task"]
    assert whole["artifacts"][0]["parts"] == [{"text": "a"}, {"text": "b"}]
    assert (await kept(rig, ada, "t1")).state == "completed"


async def test_a_bare_message_is_event_one_of_no_task(rig: Rig) -> None:
    ada = await rig.agent(url=URL)
    payload = json.dumps({"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "x"}]}})
    rig.link.answers = [[AgentEvent("message", payload.encode(), "1.0")]]
    message = await ended(rig, (await rig.send(ada, dialect="1.0")).message.id)
    [event] = await log(rig, ada, message.id)
    assert (event.seq, event.kind, event.payload) == (1, "message", message.result)


@pytest.mark.parametrize("state", ["input-required", "completed", "rejected"])
async def test_one_answer_that_is_a_task_makes_it_known(rig: Rig, state: str) -> None:
    ada = await rig.agent(url=URL)
    rig.link.answers = [Completed(task(state).payload, None, state, "t1")]
    message = await ended(rig, (await rig.send(ada, dialect="1.0")).message.id)
    known = await kept(rig, ada, "t1")
    assert (known.state, known.last_seq, known.is_agents) == (state, 1, True)
    assert (message.task_id, message.context_id) == ("t1", "c1")


async def test_an_agent_that_is_still_working_is_followed_until_it_is_done(rig: Rig) -> None:
    ada = await rig.agent(url=URL)
    rig.link.answers = [[task("working")]]
    rig.link.looks = [task("working"), task("completed", artifacts=[{"artifactId": "x", "parts": []}])]
    message = await ended(rig, (await rig.send(ada, dialect="1.0")).message.id)
    assert (message.status, message.task_state) == ("answered", "completed")
    kinds = [event.kind for event in await log(rig, ada, "t1")]
    assert kinds == ["task", "artifact", "status"]


async def test_a_stream_that_breaks_is_joined_again_without_gap_or_repeat(rig: Rig) -> None:
    ada = await rig.agent(url=URL)
    rig.link.answers = [
        [task("submitted"), chunk("a")],
        [
            task("working", artifacts=[{"artifactId": "out", "parts": [{"text": "a"}, {"text": "b"}]}]),
            chunk("c", append=True),
            status("completed"),
        ],
    ]
    message = await ended(rig, (await rig.send(ada, dialect="1.0")).message.id)
    whole = json.loads(message.result or b"")["task"]
    assert [part["text"] for part in whole["artifacts"][0]["parts"]] == ["a", "b", "c"]
    assert [event.seq for event in await log(rig, ada, "t1")] == [1, 2, 3, 4, 5, 6]


async def test_a_task_shown_together_with_what_led_to_it_tells_nothing_twice(rig: Rig) -> None:
    ada = await rig.agent(url=URL)
    rig.link.in_one_piece = True
    parts = [{"artifactId": "out", "parts": [{"text": "a"}, {"text": "b"}]}]
    rig.link.answers = [
        [task("submitted"), chunk("a")],
        [chunk("b", append=True), task("completed", artifacts=parts)],
    ]
    message = await ended(rig, (await rig.send(ada, dialect="1.0")).message.id)
    whole = json.loads(message.result or b"")["task"]
    assert [part["text"] for part in whole["artifacts"][0]["parts"]] == ["a", "b"]
    assert [event.kind for event in await log(rig, ada, "t1")] == ["task", "artifact", "artifact", "status"]


async def test_what_breaks_the_order_of_events_fails_the_task_and_says_how(rig: Rig) -> None:
    ada = await rig.agent(url=URL)
    rig.link.answers = [[task("submitted"), chunk("b", append=True)]]
    message = await ended(rig, (await rig.send(ada, dialect="1.0")).message.id)
    assert message.status == "failed"
    assert message.error is not None
    assert message.error["code"] == "invalid-agent-response"
    assert "append-to-unknown-artifact" in message.error["message"]
    assert (await kept(rig, ada, "t1")).state == "failed"


async def test_a_task_that_was_shown_before_the_agent_spoke_keeps_its_name(
    rig: Rig, eventually: Eventually
) -> None:
    ada = await rig.agent(url=URL)
    rig.link.free.clear()
    rig.link.answers = [[task("submitted"), status("working"), chunk("a"), status("completed")]]
    sent = (await rig.send(ada, dialect="1.0")).message
    await eventually(lambda: len(rig.link.carried) == 1)
    _, shown = await rig.delivery.show(sent.id)
    assert (shown["id"], shown["status"]["state"]) == (sent.id, "TASK_STATE_WORKING")
    rig.link.free.set()
    message = await ended(rig, sent.id)
    known = await kept(rig, ada, sent.id)
    assert (known.id, known.agent_task_id, known.state) == (sent.id, "t1", "completed")
    assert json.loads(message.result or b"")["task"]["id"] == sent.id
    for event in await log(rig, ada, sent.id):
        (body,) = json.loads(event.payload).values()
        assert body.get("id", body.get("taskId")) == sent.id
        assert body["contextId"] == sent.context_id


async def test_a_task_of_somebody_else_cannot_be_answered_with(rig: Rig) -> None:
    ada, bob = await rig.agent("Ada", url=URL), await rig.agent("Bob")
    rig.link.answers = [[task("input-required")], [task("working"), status("completed")]]
    await ended(rig, (await rig.send(ada, dialect="1.0")).message.id)
    from_bob = rig.admin.__class__(f"workspace:{bob.id}", bob.org_id, frozenset({"workspace"}), "Bob")
    message = await ended(rig, (await rig.send(ada, dialect="1.0", caller=from_bob)).message.id)
    assert message.error is not None
    assert "foreign-task" in message.error["message"]
    assert (await kept(rig, ada, "t1")).state == "input-required"


async def test_the_next_message_continues_the_task_and_its_numbers(rig: Rig) -> None:
    ada = await rig.agent(url=URL)
    rig.link.answers = [
        [task("submitted"), status("input-required")],
        [task("working"), status("completed")],
    ]
    first = await ended(rig, (await rig.send(ada, dialect="1.0")).message.id)
    waits = await kept(rig, ada, "t1")
    second = await ended(rig, (await rig.send(ada, dialect="1.0", continues=waits)).message.id)
    assert (first.status, second.status) == ("answered", "answered")
    events = await log(rig, ada, "t1")
    assert [event.seq for event in events] == [1, 2, 3, 4]
    assert [event.message_id for event in events] == [first.id, first.id, second.id, second.id]


async def test_a_credential_that_comes_later_lets_the_answered_task_go_on(
    rig: Rig, eventually: Eventually
) -> None:
    ada = await rig.agent(url=URL)
    rig.link.answers = [[task("submitted"), status("auth-required"), status("working"), status("completed")]]
    message = await ended(rig, (await rig.send(ada, dialect="1.0")).message.id)
    assert (message.status, message.task_state) == ("answered", "auth-required")

    async def over() -> bool:
        return (await kept(rig, ada, "t1")).state == "completed"

    await eventually(over)
    assert [event.seq for event in await log(rig, ada, "t1")] == [1, 2, 3, 4]


async def test_an_agent_that_forgot_its_task_is_given_the_message_again_under_the_same_name(
    rig: Rig, eventually: Eventually
) -> None:
    ada = await rig.agent(url=URL)
    rig.link.answers = [[task("working")]]
    rig.link.looks = [DeliveryFailed("invalid-agent-response", "Task not found", True, True, forgotten=True)]
    sent = (await rig.send(ada, dialect="1.0")).message

    async def waits() -> bool:
        return (await rig.message(sent.id)).not_before is not None

    await eventually(waits)
    rig.link.answers = [[task("submitted", "t2"), status("completed", "t2")]]
    rig.clock.advance(600)
    rig.dispatcher.wake(ada.id)
    message = await ended(rig, sent.id)
    assert (message.status, message.task_id) == ("answered", "t1")
    assert (await kept(rig, ada, "t1")).agent_task_id == "t2"


async def test_work_promised_without_a_task_waits_for_a_message_of_the_agent_s(
    rig: Rig, eventually: Eventually
) -> None:
    ada = await rig.agent(url=URL)
    rig.link.answers = [InProgress(None)]
    sent = (await rig.send(ada)).message
    await eventually(lambda: len(rig.link.carried) == 1)
    assert (await rig.message(sent.id)).status == "leased"
    cancelled = await rig.cancellation.cancel_message(rig.admin, sent.id, "enough")
    assert cancelled.status == "cancelled"
    await eventually(lambda: not rig.dispatcher.is_carrying(sent.id, 1))


async def test_a_cancelled_message_ends_at_once_and_its_agent_is_told(
    rig: Rig, eventually: Eventually
) -> None:
    ada = await rig.agent(url=URL)
    rig.link.answers = [[task("working")]]
    sent = (await rig.send(ada, dialect="1.0")).message

    async def begun() -> bool:
        return (await rig.message(sent.id)).task_id == "t1"

    await eventually(begun)
    message = await rig.cancellation.cancel_message(rig.admin, sent.id, None)
    assert message.status == "cancelled"
    assert (await kept(rig, ada, "t1")).state == "canceled"
    await eventually(lambda: rig.link.stopped == ["t1"])


async def test_a_reader_whose_lease_is_gone_writes_nothing(rig: Rig, eventually: Eventually) -> None:
    ada = await rig.agent(url=URL)
    rig.link.free.clear()
    rig.link.answers = [[task("submitted"), status("completed")]]
    sent = (await rig.send(ada, dialect="1.0")).message
    await eventually(lambda: len(rig.link.carried) == 1)
    await rig.storage.write(lambda tx: tx.mailbox.release(sent.id, 1, rig.clock.now()))
    rig.link.free.set()
    await eventually(lambda: not rig.dispatcher.is_carrying(sent.id, 1))
    assert await rig.storage.read(lambda tx: tx.tasks.named(ada.id, "", "t1")) is None


async def test_a_follow_up_of_a_renamed_task_reaches_the_agent_under_the_agent_s_name(
    rig: Rig, eventually: Eventually
) -> None:
    ada = await rig.agent(url=URL)
    rig.link.free.clear()
    rig.link.answers = [[task("submitted"), status("input-required")], [task("working"), status("completed")]]
    sent = (await rig.send(ada, dialect="1.0")).message
    await eventually(lambda: len(rig.link.carried) == 1)
    await rig.delivery.show(sent.id)
    rig.link.free.set()
    await ended(rig, sent.id)
    waits = await kept(rig, ada, sent.id)
    second = await ended(rig, (await rig.send(ada, dialect="1.0", continues=waits)).message.id)
    assert rig.link.carried[1].task_id == "t1"
    assert (second.status, (await kept(rig, ada, sent.id)).state) == ("answered", "completed")


async def test_a_follow_up_answered_in_one_piece_is_told_in_the_same_commit(rig: Rig) -> None:
    ada = await rig.agent(url=URL)
    rig.link.answers = [
        Completed(task("input-required").payload, None, "input-required", "t1"),
        Completed(task("completed").payload, None, "completed", "t1"),
    ]
    await ended(rig, (await rig.send(ada, dialect="1.0")).message.id)
    waits = await kept(rig, ada, "t1")
    await ended(rig, (await rig.send(ada, dialect="1.0", continues=waits)).message.id)
    after = await kept(rig, ada, "t1")
    assert (after.state, after.last_seq) == ("completed", 2)


def question(words: str = "which?") -> AgentEvent:
    """A task that waits, the same each time."""
    said = {"messageId": "q", "role": "ROLE_AGENT", "parts": [{"text": words}]}
    body = {"id": "t1", "contextId": "c1", "status": {"state": wire("input-required"), "message": said}}
    return AgentEvent("task", json.dumps({"task": body}).encode(), "1.0", "t1", "c1", "input-required")


@pytest.mark.parametrize("streams", [True, False])
async def test_the_same_question_again_is_one_more_event(rig: Rig, streams: bool) -> None:
    ada = await rig.agent(url=URL)
    answered = Completed(question().payload, None, "input-required", "t1")
    rig.link.answers = [[question()], [question()]] if streams else [answered, answered]
    await ended(rig, (await rig.send(ada, dialect="1.0")).message.id)
    waits = await kept(rig, ada, "t1")
    second = await ended(rig, (await rig.send(ada, dialect="1.0", continues=waits)).message.id)
    assert (second.status, second.task_state, second.attempts) == ("answered", "input-required", 1)
    events = await log(rig, ada, "t1")
    assert [(event.kind, event.message_id == second.id) for event in events] == [
        ("task", False),
        ("status", True),
    ]


async def test_a_question_that_was_told_before_a_crash_is_not_told_twice(
    rig: Rig, eventually: Eventually
) -> None:
    ada = await rig.agent(url=URL)
    await settled_as(rig, ada, question())
    waits = await kept(rig, ada, "t1")
    rig.link.free.clear()
    sent = (await rig.send(ada, dialect="1.0", continues=waits)).message
    await eventually(lambda: len(rig.link.carried) == 2)
    # The question is written, and the process dies before the message is settled.
    await rig.storage.write(
        lambda tx: TaskRecorder(sent, 1_000_000).record(tx, [question()], rig.clock.now())
    )
    rig.link.answers = [[question()]]
    rig.link.free.set()
    await ended(rig, sent.id)
    assert [event.kind for event in await log(rig, ada, "t1")] == ["task", "status"]


async def test_an_old_question_shown_before_the_work_is_not_told(rig: Rig) -> None:
    ada = await rig.agent(url=URL)
    await settled_as(rig, ada, question())
    waits = await kept(rig, ada, "t1")
    rig.link.in_one_piece = True
    rig.link.answers = [[question("an older one"), chunk("a"), status("completed")]]
    await ended(rig, (await rig.send(ada, dialect="1.0", continues=waits)).message.id)
    assert [event.kind for event in await log(rig, ada, "t1")] == ["task", "artifact", "status"]


# What agents do wrong, and what time and crashes do


async def settled_as(rig: Rig, target: Workspace, *said: AgentEvent) -> Message:
    """Let the agent say this, and then nothing about its task when it is asked."""
    rig.link.answers = [list(said)]
    return await ended(rig, (await rig.send(target, dialect="1.0")).message.id)


@pytest.mark.parametrize(
    "payload",
    [
        b'{"statusUpdate":{"taskId":"t1","contextId":"c1","status":{"state":"TASK_STATE_UNSPECIFIED"}}}',
        b'{"statusUpdate":{"taskId":"t1","status":{"state":"TASK_STATE_WORKING"},"metadata":{"n":1e9999}}}',
        b'{"statusUpdate":' + b"[" * 300 + b"]" * 300 + b"}",
    ],
)
async def test_an_event_that_makes_no_sense_keeps_no_message_from_its_end(rig: Rig, payload: bytes) -> None:
    ada = await rig.agent(url=URL)
    odd = AgentEvent("status", payload, "1.0", "t1", "c1", "working")
    message = await settled_as(rig, ada, task("working"), odd, status("completed", said="done"))
    assert (message.status, message.task_state) == ("answered", "completed")
    assert (await kept(rig, ada, "t1")).state == "completed"


async def test_a_stream_that_begins_in_the_middle_of_an_artifact_fails_and_says_so(rig: Rig) -> None:
    ada = await rig.agent(url=URL)
    message = await settled_as(rig, ada, chunk("b", append=True), status("completed"))
    assert message.error is not None
    assert "append-to-unknown-artifact" in message.error["message"]


async def test_an_agent_with_nothing_left_to_stream_is_asked_for_its_task(rig: Rig) -> None:
    ada = await rig.agent(url=URL)
    over = Completed(error=b'{"code":-32004,"message":"the task is over"}')
    rig.link.answers = [[task("working")], over]
    rig.link.looks = [task("completed")]
    message = await ended(rig, (await rig.send(ada, dialect="1.0")).message.id)
    assert (message.status, message.task_state) == ("answered", "completed")


async def test_a_message_whose_task_ended_meanwhile_ends_too(rig: Rig, eventually: Eventually) -> None:
    ada = await rig.agent(url=URL)
    await settled_as(rig, ada, task("submitted"), status("input-required"))
    waits = await kept(rig, ada, "t1")
    rig.link.free.clear()
    rig.link.answers = [[task("working"), status("completed")]]
    sent = (await rig.send(ada, dialect="1.0", continues=waits)).message
    await eventually(lambda: len(rig.link.carried) == 2)
    over = task_log.status_event(waits, "failed", rig.clock.now(), sent.id)
    await rig.storage.write(lambda tx: task_log.append(tx, waits.key, None, [over], rig.clock.now()))
    rig.link.free.set()
    message = await ended(rig, sent.id)
    assert message.error is not None
    assert message.error["code"] == "invalid-agent-response"


async def test_nothing_is_accepted_for_a_task_that_has_just_ended(rig: Rig) -> None:
    ada = await rig.agent(url=URL)
    await settled_as(rig, ada, task("submitted"), status("input-required"))
    waits = await kept(rig, ada, "t1")
    await rig.cancellation.cancel_task(rig.admin, waits)
    with pytest.raises(A2AError) as refused:
        await rig.send(ada, dialect="1.0", continues=waits)
    assert refused.value.code == -32004


async def test_a_bare_answer_that_comes_again_after_a_crash_is_taken(
    rig: Rig, eventually: Eventually
) -> None:
    ada = await rig.agent(url=URL)
    payload = b'{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"x"}]}}'
    said = AgentEvent("message", payload, "1.0")
    rig.link.free.clear()
    sent = (await rig.send(ada, dialect="1.0")).message
    await eventually(lambda: len(rig.link.carried) == 1)
    # The answer is written, and the process dies before the message is settled.
    await rig.storage.write(lambda tx: TaskRecorder(sent, 1_000_000).record(tx, [said], rig.clock.now()))
    rig.link.answers = [[said]]
    rig.link.free.set()
    message = await ended(rig, sent.id)
    assert (message.status, message.result) == ("answered", payload)
    assert [event.seq for event in await log(rig, ada, sent.id)] == [1]


async def test_an_answered_task_that_is_still_heard_is_not_asked_after_by_another(rig: Rig) -> None:
    ada = await rig.agent(url=URL)
    heard = await settled_as(rig, ada, task("submitted"), status("auth-required"))
    assert heard.task_state == "auth-required"
    waits = await kept(rig, ada, "t1")
    follower = TaskFollower(rig.storage, rig.clock, rig.link, timedelta(hours=1), lambda _: None)
    rig.clock.advance(1)
    # The reader tells a chunk while the follower's older answer is under way.
    rig.link.looks = [task("working", artifacts=[{"artifactId": "out", "parts": [{"text": "a"}]}])]
    event = task_log.event_of("artifact", json.loads(chunk("a").payload)["artifactUpdate"], heard.id)

    async def late(dispatch: Delivery, task_id: str) -> AgentEvent | DeliveryFailed:
        await rig.storage.write(
            lambda tx: task_log.append(tx, waits.key, waits.reader, [event], rig.clock.now())
        )
        return rig.link.looks.pop(0)

    rig.link.look = late
    await rig.storage.write(lambda tx: tx.tasks.change(waits.key, look_at=rig.clock.now()))
    await follower.look()
    assert [one.kind for one in await log(rig, ada, "t1")] == ["task", "status", "artifact"]


async def test_a_follower_that_told_something_is_the_only_reader(rig: Rig) -> None:
    ada = await rig.agent(url=URL)
    await settled_as(rig, ada, task("submitted"), status("input-required"))
    waits = await kept(rig, ada, "t1")
    follower = TaskFollower(rig.storage, rig.clock, rig.link, timedelta(hours=1), lambda _: None)
    rig.link.looks = [task("working")]
    rig.clock.advance(1)
    await follower.look()
    again = task_log.status_event(waits, "working", rig.clock.now(), waits.message_id)

    def late(tx: Transaction) -> None:
        task_log.append(tx, waits.key, waits.reader, [again], rig.clock.now())

    with pytest.raises(task_log.LeaseLost):
        await rig.storage.write(late)


async def test_an_agent_is_told_to_stop_however_often_the_end_of_its_message_is_rung(
    rig: Rig, eventually: Eventually
) -> None:
    ada = await rig.agent(url=URL)
    rig.link.answers = [[task("working")]]
    sent = (await rig.send(ada, dialect="1.0")).message

    async def begun() -> bool:
        return (await rig.message(sent.id)).task_id == "t1"

    await eventually(begun)
    await rig.cancellation.cancel_message(rig.admin, sent.id, None)
    while rig.dispatcher.is_carrying(sent.id, 1):
        # As a ring does that comes back from the bus.
        rig.dispatcher.drop(sent.id)
        await asyncio.sleep(0)

    async def told() -> bool:
        return rig.link.stopped == ["t1"]

    await eventually(told)


async def test_an_agent_that_owns_its_sessions_and_is_busy_is_not_queued_for(rig: Rig) -> None:
    ada = await rig.changed(await rig.agent(url=URL), capabilities={"session": True})
    rig.link.answers = [DeliveryFailed("peer-busy", "the agent is busy (HTTP 503)", True, agent_status=503)]
    message = await ended(rig, (await rig.send(ada)).message.id)
    assert message.error is not None
    assert (message.status, message.attempts, message.error["code"]) == ("failed", 1, "peer-busy")
    assert message.error["native_session"] is True
    assert message.error["retry_after"] == 30


@pytest.mark.parametrize(
    ("trouble", "status_then"),
    [
        (DeliveryFailed("peer-unreachable", "it broke", True, delivery_confirmed=True), "failed"),
        (DeliveryFailed("invalid-agent-response", "HTTP 500", True, agent_status=500), "failed"),
        (DeliveryFailed("peer-unreachable", "it is away", True), "accepted"),
        (DeliveryFailed("peer-busy", "HTTP 503", True, agent_status=503), "accepted"),
    ],
)
async def test_an_agent_that_owns_its_retries_gets_nothing_twice_that_it_took(
    rig: Rig, eventually: Eventually, trouble: DeliveryFailed, status_then: str
) -> None:
    ada = await rig.changed(await rig.agent(url=URL), capabilities={"retry": True})
    rig.link.answers = [trouble]
    sent = (await rig.send(ada)).message

    async def given_back() -> bool:
        return (await rig.message(sent.id)).status != "leased"

    await eventually(given_back)
    assert (await rig.message(sent.id)).status == status_then


@pytest.mark.parametrize("answer", ["task", "message"])
async def test_one_answer_to_the_next_message_ends_the_task_that_it_continues(rig: Rig, answer: str) -> None:
    ada = await rig.agent(url=URL)
    rig.link.answers = [Completed(task("input-required").payload, None, "input-required", "t1")]
    await ended(rig, (await rig.send(ada, dialect="1.0")).message.id)
    waits = await kept(rig, ada, "t1")
    bare = b'{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"x"}]}}'
    whole = Completed(task("completed").payload, None, "completed", "t1")
    rig.link.answers = [whole if answer == "task" else Completed(bare)]
    second = await ended(rig, (await rig.send(ada, dialect="1.0", continues=waits)).message.id)
    assert second.status == "answered"
    known = await kept(rig, ada, "t1")
    assert (known.state, known.last_seq, known.message_id) == ("completed", 2, second.id)


async def test_a_task_without_end_is_ended(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_recorder, "MOST_EVENTS", 3)
    ada = await rig.agent(url=URL)
    rig.link.answers = [[task("working"), *(status("working", said=str(n)) for n in range(5))]]
    message = await ended(rig, (await rig.send(ada, dialect="1.0")).message.id)
    assert message.error is not None
    assert "at most 3 events" in message.error["message"]
    assert (await kept(rig, ada, "t1")).state == "failed"


async def test_what_was_in_order_is_told_before_what_was_not_fails_the_task(rig: Rig) -> None:
    ada = await rig.agent(url=URL)
    rig.link.in_one_piece = True
    rig.link.answers = [[task("working"), chunk("never began", append=True)]]
    message = await ended(rig, (await rig.send(ada, dialect="1.0")).message.id)
    assert message.status == "failed"
    assert [event.kind for event in await log(rig, ada, "t1")] == ["task", "status"]
    assert (await kept(rig, ada, "t1")).state == "failed"


async def test_a_renamed_task_has_no_other_name_anywhere_in_it(rig: Rig, eventually: Eventually) -> None:
    ada = await rig.agent(url=URL)
    rig.link.free.clear()
    words: dict[str, Any] = {
        "messageId": "a",
        "role": "ROLE_AGENT",
        "taskId": "t1",
        "contextId": "c1",
        "parts": [],
    }
    body: dict[str, Any] = {
        "id": "t1",
        "contextId": "c1",
        "history": [words],
        "status": {"state": wire("completed"), "message": words},
    }
    rig.link.answers = [Completed(json.dumps({"task": body}).encode(), None, "completed", "t1")]
    sent = (await rig.send(ada, dialect="1.0")).message
    await eventually(lambda: len(rig.link.carried) == 1)
    await rig.delivery.show(sent.id)
    rig.link.free.set()
    message = await ended(rig, sent.id)
    assert b'"t1"' not in (message.result or b"")
    for event in await log(rig, ada, sent.id):
        assert b'"t1"' not in event.payload
