"""A cancel reaches an agent whose first word is still awaited: by any name it may know, or once it speaks."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from molecule_platform.domain.messages import Message, MessageOutcome
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.agents import AgentEvent, Completed, DeliveryFailed, InProgress
from molecule_platform.services.dispatch.cancel_notifier import LISTEN_SECONDS
from molecule_platform.services.dispatch.dispatcher import Dispatcher
from molecule_platform.services.messaging.messages import settlement

if TYPE_CHECKING:
    from packages.platform.tests.conftest import Eventually
    from packages.platform.tests.services.conftest import Rig

URL = "http://agent/a2a"
STATES = {"working": "TASK_STATE_WORKING", "completed": "TASK_STATE_COMPLETED"}
MESSAGE = b'{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"x"}]}}'


def task(state: str, task_id: str = "t1") -> AgentEvent:
    body = {"id": task_id, "contextId": "c1", "status": {"state": STATES[state]}}
    return AgentEvent("task", json.dumps({"task": body}).encode(), "1.0", task_id, "c1", state)


def waiting(state: str) -> Completed:
    told = {
        "id": "t1",
        "contextId": "c1",
        "status": {"state": f"TASK_STATE_{state.upper().replace('-', '_')}"},
    }
    return Completed(json.dumps({"task": told}).encode(), None, state, "t1")


async def handed_over(rig: Rig, target: Workspace, eventually: Eventually, **more: Any) -> Message:
    """A message whose agent has it and says nothing."""
    rig.link.free.clear()
    before = len(rig.link.carried)
    sent = (await rig.send(target, dialect="1.0", **more)).message
    await eventually(lambda: len(rig.link.carried) == before + 1)
    return sent


async def called_off(rig: Rig, message: Message) -> None:
    ended = await rig.cancellation.cancel_message(rig.admin, message.id, None)
    assert ended.status == "cancelled"


def listeners(dispatcher: Dispatcher) -> int:
    return len(dispatcher._attempt.cancel_notifier._listeners)


async def speaks(rig: Rig, eventually: Eventually, word: Any) -> None:
    """Let the agent say its first word, and wait until everybody has done what follows."""
    rig.link.answers = [word]
    rig.link.free.set()
    await eventually(lambda: listeners(rig.dispatcher) == 0)
    await eventually(lambda: not rig.dispatcher._attempt.cancel_notifier._aside)


async def a2a_agent(rig: Rig) -> Workspace:
    """An agent that says which A2A it speaks."""
    return await rig.changed(await rig.agent(url=URL), protocols=["1.0"])


@pytest.mark.parametrize(
    "word",
    [[task("working")], waiting("input-required"), InProgress("t1")],
    ids=["a task that works", "a task that waits", "accepted under a name"],
)
async def test_the_first_word_that_names_an_open_task_has_it_cancelled(
    rig: Rig, eventually: Eventually, word: Any
) -> None:
    ada = await rig.agent(url=URL)
    sent = await handed_over(rig, ada, eventually)
    await called_off(rig, sent)
    assert rig.link.stopped == []
    await speaks(rig, eventually, word)
    assert rig.link.stopped == ["t1"]
    assert await rig.storage.read(lambda tx: tx.tasks.named(ada.id, "", "t1")) is None
    assert (await rig.message(sent.id)).status == "cancelled"


@pytest.mark.parametrize(
    "word",
    [
        [task("completed")],
        [task("working"), task("completed")],
        [AgentEvent("message", MESSAGE, "1.0")],
        Completed(MESSAGE),
        waiting("completed"),
        Completed(error=b'{"code":-32603,"message":"no"}'),
        DeliveryFailed("peer-unreachable", "it broke", True, delivery_confirmed=True),
        InProgress(None),
    ],
)
async def test_an_agent_that_is_done_or_names_nothing_is_left_alone(
    rig: Rig, eventually: Eventually, word: Any
) -> None:
    ada = await rig.agent(url=URL)
    rig.link.in_one_piece = True
    sent = await handed_over(rig, ada, eventually)
    await called_off(rig, sent)
    await speaks(rig, eventually, word)
    assert rig.link.stopped == []
    assert (await rig.message(sent.id)).status == "cancelled"
    assert rig.log.said == []


async def test_an_agent_that_never_speaks_is_hung_up_on(rig: Rig, eventually: Eventually) -> None:
    await rig.dispatcher.stop()
    dispatcher = rig.new_courier("two", listen_seconds=0.2)
    ada = await rig.agent(url=URL)
    rig.link.free.clear()
    sent = (await rig.send(ada)).message
    dispatcher.wake(ada.id)
    await eventually(lambda: len(rig.link.carried) == 1)
    assert rig.link.hung_up == 0
    await called_off(rig, sent)
    await eventually(lambda: rig.link.hung_up == 1)
    await eventually(lambda: listeners(dispatcher) == 0)
    assert rig.link.stopped == []
    await dispatcher.stop()


async def test_a_listener_takes_no_place_of_the_agent_s(rig: Rig, eventually: Eventually) -> None:
    ada = await rig.agent(url=URL, max_concurrent_tasks=1)
    await called_off(rig, await handed_over(rig, ada, eventually))
    await eventually(lambda: listeners(rig.dispatcher) == 1)
    await handed_over(rig, ada, eventually)
    assert listeners(rig.dispatcher) == 1


async def test_no_more_is_listened_to_than_may_be(rig: Rig, eventually: Eventually) -> None:
    ada = await rig.agent(url=URL)
    rig.dispatcher._attempt.cancel_notifier._most_listeners = 1
    await called_off(rig, await handed_over(rig, ada, eventually))
    second = await handed_over(rig, ada, eventually)
    await called_off(rig, second)
    await eventually(lambda: not rig.dispatcher.is_carrying(second.id, 1))
    assert listeners(rig.dispatcher) == 1


async def test_stopping_hangs_up_at_once(rig: Rig, eventually: Eventually) -> None:
    ada = await rig.agent(url=URL)
    await called_off(rig, await handed_over(rig, ada, eventually))
    await eventually(lambda: listeners(rig.dispatcher) == 1)
    await asyncio.wait_for(rig.dispatcher.stop(), LISTEN_SECONDS / 2)
    assert listeners(rig.dispatcher) == 0
    assert rig.link.stopped == []


async def test_an_agent_of_a2a_is_told_by_the_id_of_the_message_meanwhile(
    rig: Rig, eventually: Eventually
) -> None:
    ada = await a2a_agent(rig)
    sent = await handed_over(rig, ada, eventually)
    await called_off(rig, sent)
    await eventually(lambda: rig.link.stopped == [sent.id])
    await speaks(rig, eventually, [task("working")])
    assert rig.link.stopped == [sent.id, "t1"]


@pytest.mark.parametrize(
    ("url", "protocols", "told"),
    [
        (URL, [], False),
        (URL, ["0.3.0"], True),
        ("http://agent/a2a/inbound", ["0.3.0"], False),
        ("http://agent/a2a/inbound", ["0.3", "1.0"], True),
    ],
)
async def test_only_an_agent_that_takes_a_cancel_for_one_is_told_by_the_id_of_the_message(
    rig: Rig, eventually: Eventually, url: str, protocols: list[str], told: bool
) -> None:
    ada = await rig.changed(await rig.agent(url=url), protocols=protocols)
    sent = await handed_over(rig, ada, eventually)
    await called_off(rig, sent)
    await eventually(lambda: not rig.dispatcher._attempt.cancel_notifier._aside)
    assert rig.link.stopped == ([sent.id] if told else [])


async def test_an_agent_that_took_the_work_without_a_name_is_told_by_the_id_of_the_message(
    rig: Rig, eventually: Eventually
) -> None:
    ada = await a2a_agent(rig)
    rig.link.answers = [InProgress(None)]
    sent = (await rig.send(ada)).message
    await eventually(lambda: len(rig.link.carried) == 1)
    await called_off(rig, sent)
    await eventually(lambda: rig.link.stopped == [sent.id])


async def test_the_next_message_of_a_task_is_called_off_by_the_agent_s_name_at_once(
    rig: Rig, eventually: Eventually
) -> None:
    ada = await rig.agent(url=URL)
    rig.link.answers = [waiting("input-required")]
    await rig.delivery.outcome((await rig.send(ada, dialect="1.0")).message.id, 30)
    waits = await rig.storage.read(lambda tx: tx.tasks.named(ada.id, "", "t1"))
    second = await handed_over(rig, ada, eventually, continues=waits)
    await called_off(rig, second)
    await eventually(lambda: rig.link.stopped == ["t1"])


async def test_the_deadline_is_told_like_a_cancel(rig: Rig, eventually: Eventually) -> None:
    ada = await rig.agent(url=URL)
    sent = await handed_over(rig, ada, eventually, timeout_seconds=10)
    rig.clock.advance(11)
    await rig.sweeps.leases()
    assert (await rig.message(sent.id)).status == "expired"
    await eventually(lambda: listeners(rig.dispatcher) == 1)
    await speaks(rig, eventually, [task("working")])
    assert rig.link.stopped == ["t1"]


async def test_who_has_answered_another_way_is_not_told_to_stop(rig: Rig, eventually: Eventually) -> None:
    ada = await a2a_agent(rig)
    sent = await handed_over(rig, ada, eventually)
    answer = MessageOutcome("answered", MESSAGE, "completed")
    await rig.storage.write(lambda tx: settlement.settle(tx, sent.id, answer, rig.clock.now()))
    await eventually(lambda: listeners(rig.dispatcher) == 1)
    await speaks(rig, eventually, [task("working")])
    assert rig.link.stopped == []


async def test_a_word_that_comes_before_the_ring_finds_its_lease_gone_and_is_stopped_too(
    rig: Rig, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = await rig.agent(url=URL)
    sent = await handed_over(rig, ada, eventually)
    # As on a replica that another one has not told yet.
    monkeypatch.setattr(rig.dispatcher, "drop", str)
    await called_off(rig, sent)
    await speaks(rig, eventually, [task("working")])
    await eventually(lambda: rig.link.stopped == ["t1"])


async def test_a_message_that_is_only_given_back_stops_no_agent(rig: Rig, eventually: Eventually) -> None:
    ada = await a2a_agent(rig)
    sent = await handed_over(rig, ada, eventually)
    await rig.storage.write(lambda tx: tx.mailbox.release(sent.id, 1, rig.clock.now()))
    rig.link.answers = [[task("working")]]
    rig.link.free.set()
    await eventually(lambda: not rig.dispatcher.is_carrying(sent.id, 1))
    await eventually(lambda: not rig.dispatcher._attempt.cancel_notifier._aside)
    assert rig.link.stopped == []
