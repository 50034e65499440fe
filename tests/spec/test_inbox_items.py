"""What a worker is told of a message, and may say: the sender's own names arrive, and a Message stays one."""

import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from molecule_agent import InboundMessage
from molecule_wire.calls import inbox
from tests.spec.a2a import ASYNC, FRAMINGS, PLATFORM_PATH, Binding, Polled, polled
from tests.spec.platforms import Platform
from tests.spec.sdk_agents import processes

SECONDS = 30
TONE = "https://example.org/ext/tone"
ANSWER = {
    "messageId": "mine",
    "role": "ROLE_AGENT",
    "parts": [{"text": "hello"}, {"data": {"n": 1}}],
    "extensions": [TONE],
    "metadata": {TONE: "warm"},
}
EVERY_FRAMING = pytest.mark.parametrize(("binding", "dialect"), [*FRAMINGS, *PLATFORM_PATH])


@pytest.fixture
def agent(patient: Platform) -> Polled:
    return polled(patient)


def answer(agent: Polled, item: dict[str, Any], **body: Any) -> Any:
    path = f"/workspaces/{agent.id}/inbox/{item['message_id']}/answer"
    given = {"lease_token": item["lease"]["token"], **body}
    return agent.platform.call("POST", path, agent.token, json=given)


@EVERY_FRAMING
def test_an_item_carries_the_sender_s_own_id_extensions_and_references(
    agent: Polled, binding: Binding, dialect: Any
) -> None:
    caller = agent.caller(binding, dialect)
    named = {"extensions": [TONE], "referenceTaskIds": ["t1", "t2"]}
    headers = {"A2A-Extensions": f"{TONE}, https://example.org/ext/other"}
    caller.send(caller.message("x", "my-own-id", **named), headers=headers, **ASYNC)
    [peeked] = agent.platform.ok("GET", f"/workspaces/{agent.id}/inbox", agent.token)["messages"]
    leased = agent.lease()
    for item in (peeked, leased):
        assert item["client_message_id"] == "my-own-id" != item["message_id"]
        assert item["extensions"] == [TONE, "https://example.org/ext/other"]
        assert item["reference_task_ids"] == ["t1", "t2"]


def test_an_item_of_a_sender_who_names_nothing_has_empty_lists(agent: Polled) -> None:
    agent.platform.send(agent.id, "x", headers={"Prefer": "respond-async"})
    item = agent.lease()
    assert (item["extensions"], item["reference_task_ids"]) == ([], [])
    assert item["client_message_id"]


def test_the_sdk_reads_them(patient: Platform) -> None:
    client = patient.join("worker")
    agent = Polled(patient, client.workspace_id, client.load_token() or "")
    caller = agent.caller()
    caller.send(caller.message("x", "own", extensions=[TONE], referenceTaskIds=["t1"]), **ASYNC)
    request = inbox.lease(client.workspace_id, limit=1, wait=20, lease=60, worker="w")
    [message] = client._perform(request, inbox.read_leased).messages
    assert isinstance(message, InboundMessage)
    assert (message.client_message_id, message.extensions) == ("own", [TONE])
    assert message.reference_task_ids == ["t1"]


@EVERY_FRAMING
def test_a_message_stays_a_message_for_a_sender_who_waits(
    agent: Polled, binding: Binding, dialect: Any
) -> None:
    caller = agent.caller(binding, dialect)
    with ThreadPoolExecutor() as senders:
        sent = senders.submit(caller.send, caller.message(contextId="c1"))
        assert answer(agent, agent.lease(), message=ANSWER).status_code == 200
        told = sent.result(SECONDS)
    assert told == {"message": {**ANSWER, "contextId": "c1"}}


@EVERY_FRAMING
def test_whoever_was_told_of_the_task_reads_the_message_there(
    agent: Polled, binding: Binding, dialect: Any
) -> None:
    caller = agent.caller(binding, dialect)
    task = caller.send(caller.message(), **ASYNC)["task"]
    answer(agent, agent.lease(), message=ANSWER)
    ended = caller.get(task["id"])
    assert ended["status"]["state"] == "TASK_STATE_COMPLETED"
    named = {"taskId": task["id"], "contextId": task["contextId"]}
    assert ended["status"]["message"] == {**ANSWER, **named}


@EVERY_FRAMING
def test_a_stream_that_began_with_a_task_ends_with_it(agent: Polled, binding: Binding, dialect: Any) -> None:
    caller = agent.caller(binding, dialect)
    with caller.streaming(caller.message()) as frames:
        first = next(frames)
        answer(agent, agent.lease(), message=ANSWER)
        last = list(frames)[-1]
    assert first.kind == "task"
    assert last.event["statusUpdate"]["status"]["message"]["parts"] == ANSWER["parts"]
    assert last.event["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize(
    ("more", "state"),
    [
        ({"state": "input-required"}, "TASK_STATE_INPUT_REQUIRED"),
        ({"artifacts": [{"artifactId": "a", "parts": [{"text": "x"}]}]}, "TASK_STATE_COMPLETED"),
    ],
)
def test_what_only_a_task_can_say_makes_it_one(agent: Polled, more: dict[str, Any], state: str) -> None:
    caller = agent.caller()
    with ThreadPoolExecutor() as senders:
        sent = senders.submit(caller.send, caller.message())
        answer(agent, agent.lease(), message=ANSWER, **more)
        task = sent.result(SECONDS)["task"]
    assert (task["status"]["state"], task["status"]["message"]["parts"]) == (state, ANSWER["parts"])


def test_the_next_message_of_a_task_is_answered_by_that_task(agent: Polled) -> None:
    caller = agent.caller()
    task = caller.send(caller.message(), **ASYNC)["task"]
    agent.answer("which one?", "input-required")
    with ThreadPoolExecutor() as senders:
        sent = senders.submit(caller.send, caller.message("this one", taskId=task["id"]))
        answer(agent, agent.lease(), message=ANSWER)
        ended = sent.result(SECONDS)["task"]
    assert (ended["id"], ended["status"]["state"]) == (task["id"], "TASK_STATE_COMPLETED")


def test_the_same_message_again_is_harmless_and_another_one_is_refused(agent: Polled) -> None:
    caller = agent.caller()
    caller.send(caller.message(), **ASYNC)
    item = agent.lease()
    assert [answer(agent, item, message=ANSWER).status_code for _ in range(2)] == [200, 200]
    other = {**ANSWER, "parts": [{"text": "goodbye"}]}
    assert answer(agent, item, message=other).json()["code"] == "lease-lost"


def test_usage_goes_with_the_message(agent: Polled) -> None:
    caller = agent.caller()
    with ThreadPoolExecutor() as senders:
        sent = senders.submit(caller.send, caller.message())
        answer(agent, agent.lease(), message=ANSWER, usage={"input_tokens": 7})
        told = sent.result(SECONDS)["message"]
    assert told["metadata"] == {TONE: "warm", "usage": {"input_tokens": 7}}


@contextmanager
def working(agent: Polled) -> Generator[None]:
    """A worker: `hi` gets a message, `slow` is left until it is cancelled, the rest is repeated."""
    done = threading.Event()

    def work() -> None:
        while not done.is_set():
            path, wish = f"/workspaces/{agent.id}/inbox/lease", {"wait": 1, "limit": 1}
            for item in agent.platform.ok("POST", path, agent.token, json=wish)["messages"]:
                if item["text"] == "hi":
                    answer(agent, item, message={"parts": [{"text": "hello"}]})
                elif item["text"] != "slow":
                    answer(agent, item, text=f"re: {item['text']}")

    worker = threading.Thread(target=work)
    worker.start()
    yield
    done.set()
    worker.join(SECONDS)


@pytest.mark.slow  # each conversation is a process that imports an SDK
@pytest.mark.parametrize("transport", ["JSONRPC", "HTTP+JSON"])
def test_the_client_of_the_0_3_sdk_is_told_a_message(agent: Polled, transport: str) -> None:
    base = f"{agent.platform.url}/agents/{agent.id}/"
    with working(agent):
        told = processes.client_0_3(base, agent.platform.org_token(), transport, "--snapshot")
    [message] = told["message"]
    assert (message["kind"], message["parts"][0]["text"]) == ("message", "hello")
    assert told["unary"][0]["kind"] == "task"
