"""The push link against real agents that misbehave in every way an agent can."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_platform.agents import event_parser, request_body, response_parser
from molecule_platform.agents.client import HttpAgentClient
from molecule_platform.domain.messages import Message
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.egress import guard
from molecule_platform.egress.connector import Outbound
from molecule_platform.ports.agents import (
    AgentEvent,
    Completed,
    Delivery,
    DeliveryFailed,
    InProgress,
    ResponseTooLarge,
)
from molecule_platform.testing import servers
from molecule_wire.a2a import text
from molecule_wire.a2a.tasks import EventRefused

if TYPE_CHECKING:
    from packages.platform.tests.conftest import FakeClock, MakeMessage, MakeWorkspace
    from packages.platform.tests.web.conftest import MisbehavingAgent

Outcome = Completed | InProgress | DeliveryFailed
Deliver = Callable[..., Awaitable[Outcome]]
MOST_BYTES = 10_000
NEW_CARD = {"supportedInterfaces": [{"protocolVersion": "1.0", "url": "x"}]}
NEW_HI = {"message": {"messageId": "a1", "role": "ROLE_AGENT", "parts": [{"text": "hi"}]}}


def asserted(message: Message, to: Workspace, now: datetime) -> str:
    return f"asserted:{message.caller}"


@pytest.fixture
def told() -> list[AgentEvent]:
    """What the agent said, in order."""
    return []


@pytest.fixture
async def deliver(
    agent: MisbehavingAgent,
    clock: FakeClock,
    make_message: MakeMessage,
    make_workspace: MakeWorkspace,
    told: list[AgentEvent],
) -> AsyncIterator[Deliver]:
    """Hand a message to the agent once."""
    outbound = Outbound(guard.agent_policy(("loopback",)))
    link = HttpAgentClient(outbound, MOST_BYTES, clock.now, asserted)

    async def tell(said: Sequence[AgentEvent]) -> None:
        told.extend(said)

    async def once(
        *,
        url: str | None = None,
        secret: str | None = None,
        seconds: float = 5.0,
        target: Any = None,
        **message: Any,
    ) -> Outcome:
        to: Workspace = make_workspace(url=url or agent.url, delivery_mode="push", **(target or {}))
        what: Message = make_message(attempts=1, **message)
        return await link.deliver(Delivery(to, what, secret, seconds), tell)

    yield once
    await outbound.close()


def said(answer: Outcome) -> str:
    assert isinstance(answer, Completed)
    assert answer.result is not None
    return text.text_of(json.loads(answer.result))


# Answers in all their forms


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            {
                "jsonrpc": "2.0",
                "id": 1,
                "result": {"kind": "message", "parts": [{"kind": "text", "text": "hi"}]},
            },
            "hi",
        ),
        ({"status": "ok", "result": "four"}, "four"),
        ({"status": "ok", "result": {"text": "four"}}, "four"),
        ({"result": {"reply": "four"}}, "four"),
        ({"result": {"parts": [{"type": "text", "text": "a"}, {"text": "b"}]}}, "a\nb"),
        ({"reply": "four"}, "four"),
        ("four", "four"),
        (b"plain words", "plain words"),
        (b"", ""),
    ],
)
async def test_an_answer_s_words_are_found_whatever_form_they_have(
    agent: MisbehavingAgent, deliver: Deliver, body: Any, words: str
) -> None:
    agent.will_say(200, body)
    assert said(await deliver()) == words


async def test_no_content_is_an_answer_without_words(agent: MisbehavingAgent, deliver: Deliver) -> None:
    agent.answers.append(b"HTTP/1.1 204 X\r\nConnection: close\r\n\r\n")
    answer = await deliver()
    assert isinstance(answer, Completed)
    assert said(answer) == ""


@pytest.mark.parametrize("body", [b"", b"null", b"{}", b"[]", b'""', b'{"result":null}', b'{"result":{}}'])
async def test_an_answer_of_nothing_is_a_message_with_one_empty_part(
    agent: MisbehavingAgent, deliver: Deliver, body: bytes
) -> None:
    agent.will_say(200, body)
    answer = await deliver(dialect="1.0", target={"agent_card": NEW_CARD})
    assert isinstance(answer, Completed)
    assert json.loads(answer.result or b"")["message"]["parts"] == [{"text": ""}]


async def test_a_task_keeps_its_state_and_the_agent_s_own_id(
    agent: MisbehavingAgent, deliver: Deliver
) -> None:
    task = {"kind": "task", "id": "t9", "contextId": "c", "status": {"state": "input-required"}, "extra": [1]}
    agent.will_say(200, {"jsonrpc": "2.0", "id": 1, "result": task})
    answer = await deliver()
    assert isinstance(answer, Completed)
    assert (answer.task_state, answer.agent_task_id) == ("input-required", "t9")
    assert json.loads(answer.result or b"") == task


@pytest.mark.parametrize("state", ["submitted", "working"])
async def test_work_that_is_only_begun_never_completes_a_message(
    agent: MisbehavingAgent, deliver: Deliver, told: list[AgentEvent], state: str
) -> None:
    agent.will_say(
        200, {"result": {"kind": "task", "id": "t9", "contextId": "c", "status": {"state": state}}}
    )
    assert await deliver() == InProgress("t9")
    assert [(one.kind, one.task_id, one.state) for one in told] == [("task", "t9", state)]


@pytest.mark.parametrize("status", [200, 400, 500, 503])
async def test_an_agent_s_json_rpc_error_is_its_answer_at_any_status(
    agent: MisbehavingAgent, deliver: Deliver, status: int
) -> None:
    error = {"code": -32602, "message": "no such city", "data": [{"x": 1}]}
    agent.will_say(status, {"jsonrpc": "2.0", "id": 1, "error": error})
    answer = await deliver()
    assert isinstance(answer, Completed)
    assert json.loads(answer.error or b"") == error


# Trouble


@pytest.mark.parametrize(
    ("status", "code", "retryable", "confirmed"),
    [
        (500, "invalid-agent-response", True, False),
        (502, "invalid-agent-response", True, False),
        (404, "invalid-agent-response", False, True),
        (401, "invalid-agent-response", False, False),
        (302, "invalid-agent-response", False, True),
        (503, "peer-busy", True, False),
        (429, "peer-busy", True, False),
    ],
)
async def test_an_http_error_is_tried_again_exactly_when_that_may_help(
    agent: MisbehavingAgent, deliver: Deliver, status: int, code: str, retryable: bool, confirmed: bool
) -> None:
    agent.will_say(status, b"<html>trouble</html>", f"Location: http://127.0.0.1:{agent.port}/elsewhere")
    answer = await deliver()
    assert isinstance(answer, DeliveryFailed)
    assert (answer.code, answer.retryable, answer.agent_status) == (code, retryable, status)
    assert answer.delivery_confirmed is confirmed
    assert [request.path for request in agent.received] == ["/a2a"]


async def test_an_agent_that_failed_may_ask_for_the_message_again(
    agent: MisbehavingAgent, deliver: Deliver
) -> None:
    agent.will_say(503, {"error": "x", "code": "agent-busy", "redeliver": True}, "Retry-After: 1")
    answer = await deliver()
    assert isinstance(answer, DeliveryFailed)
    assert (answer.code, answer.retryable, answer.retry_after) == ("peer-unavailable", True, 1.0)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7.0), ("9999", 300.0), ("soon", None), ("-1", None), ("\u00b2", None), ("1.5", None)],
)
async def test_a_busy_agent_may_say_when_to_come_back(
    agent: MisbehavingAgent, deliver: Deliver, header: str, seconds: float | None
) -> None:
    raw = f"HTTP/1.1 503 X\r\nRetry-After: {header}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    agent.answers.append(raw.encode("latin-1"))
    answer = await deliver()
    assert isinstance(answer, DeliveryFailed)
    assert answer.retry_after == seconds


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"this is no HTTP\r\n\r\n",
        b"HTTP/1.1 200 X\r\nContent-Length: 100\r\n\r\n{half",
        b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 X\r\nContent-Length: -5\r\n\r\n",
    ],
)
async def test_an_answer_that_breaks_off_or_is_no_http_is_tried_again(
    agent: MisbehavingAgent, deliver: Deliver, raw: bytes
) -> None:
    agent.answers.append(raw)
    answer = await deliver()
    assert isinstance(answer, DeliveryFailed)
    assert (answer.code, answer.retryable) == ("invalid-agent-response", True)
    assert answer.delivery_confirmed


async def test_a_connection_that_is_reset_or_refused_is_tried_again(
    agent: MisbehavingAgent, deliver: Deliver
) -> None:
    agent.resets = True
    nobody = f"http://127.0.0.1:{servers.free_port()}/"
    for url, code in ((agent.url, "invalid-agent-response"), (nobody, "peer-unreachable")):
        answer = await deliver(url=url)
        assert isinstance(answer, DeliveryFailed)
        assert (answer.code, answer.retryable) == (code, True)


async def test_an_agent_that_says_nothing_is_waited_for_just_so_long(
    agent: MisbehavingAgent, deliver: Deliver
) -> None:
    agent.silent = True
    answer = await deliver(seconds=0.1)
    assert isinstance(answer, DeliveryFailed)
    assert answer.retryable
    assert "in time" in answer.sentence


@pytest.mark.parametrize("size", [MOST_BYTES, MOST_BYTES + 1])
async def test_an_answer_over_the_limit_is_not_taken(
    agent: MisbehavingAgent, deliver: Deliver, size: int
) -> None:
    agent.will_say(200, b"x" * size)
    answer = await deliver()
    if size <= MOST_BYTES:
        assert said(answer) == "x" * size
        return
    assert isinstance(answer, DeliveryFailed)
    assert (answer.code, answer.retryable, answer.delivery_confirmed) == (
        "invalid-agent-response",
        False,
        True,
    )


@pytest.mark.parametrize("url", ["http://10.0.0.1/", "http://169.254.169.254/latest", "file:///etc/passwd"])
async def test_an_address_that_the_guard_refuses_is_never_called(deliver: Deliver, url: str) -> None:
    answer = await deliver(url=url)
    assert isinstance(answer, DeliveryFailed)
    assert (answer.code, answer.retryable) == ("unsafe-url", False)


# Streams


def stream(*states: str) -> bytes:
    """The frames of a task that goes through these states."""
    events = [
        {"kind": "status-update", "taskId": "t9", "contextId": "c", "status": {"state": state}}
        for state in states
    ]
    frames = "".join(f"data: {json.dumps({'jsonrpc': '2.0', 'id': 1, 'result': one})}\n\n" for one in events)
    return b"HTTP/1.1 200 X\r\nContent-Type: text/event-stream\r\n\r\n" + frames.encode()


async def test_a_stream_is_told_as_it_comes_and_its_last_state_is_the_answer(
    agent: MisbehavingAgent, deliver: Deliver, told: list[AgentEvent]
) -> None:
    agent.answers.append(stream("working", "completed"))
    answer = await deliver()
    assert isinstance(answer, Completed)
    assert answer.task_state == "completed"
    assert [one.state for one in told] == ["working", "completed"]


async def test_what_comes_after_the_end_is_not_heard_however_the_bytes_are_cut(
    agent: MisbehavingAgent, deliver: Deliver, told: list[AgentEvent]
) -> None:
    agent.answers.append(stream("working", "completed", "working"))
    assert await deliver() == Completed(task_state="completed")
    assert [one.state for one in told] == ["working", "completed"]


@pytest.fixture
async def follow(
    agent: MisbehavingAgent,
    clock: FakeClock,
    make_message: MakeMessage,
    make_workspace: MakeWorkspace,
    told: list[AgentEvent],
) -> AsyncIterator[Deliver]:
    """Subscribe to a task of the agent's."""
    outbound = Outbound(guard.agent_policy(("loopback",)))
    link = HttpAgentClient(outbound, MOST_BYTES, clock.now, asserted)

    async def tell(said: Sequence[AgentEvent]) -> None:
        told.extend(said)

    async def once() -> Outcome:
        card = {"capabilities": {"streaming": True}}
        to = make_workspace(url=agent.url, delivery_mode="push", agent_card=card)
        return await link.follow(Delivery(to, make_message(), None, 5.0), "t9", tell)

    yield once
    await outbound.close()


def will_show(agent: MisbehavingAgent, state: str) -> None:
    task = {"kind": "task", "id": "t9", "contextId": "c", "status": {"state": state}}
    agent.will_say(200, {"jsonrpc": "2.0", "id": 1, "result": task})


async def test_the_task_of_a_0_3_agent_is_read_after_the_subscription_and_before_the_end(
    agent: MisbehavingAgent, follow: Deliver, told: list[AgentEvent]
) -> None:
    agent.answers.append(stream("completed"))
    will_show(agent, "working")
    will_show(agent, "completed")
    assert await follow() == Completed(task_state="completed")
    methods = [one.json["method"] for one in agent.received]
    assert methods == ["tasks/resubscribe", "tasks/get", "tasks/get"]
    assert [(one.kind, one.state) for one in told] == [("task", "working"), ("task", "completed")]


async def test_an_end_that_the_task_does_not_confirm_is_told_as_it_came(
    agent: MisbehavingAgent, follow: Deliver, told: list[AgentEvent]
) -> None:
    agent.answers.append(stream("completed"))
    will_show(agent, "working")
    will_show(agent, "working")
    assert await follow() == Completed(task_state="completed")
    assert [(one.kind, one.state) for one in told] == [("task", "working"), ("status", "completed")]


async def test_a_question_in_the_task_of_a_subscriber_is_told_without_waiting_for_more(
    agent: MisbehavingAgent, follow: Deliver, told: list[AgentEvent]
) -> None:
    agent.answers.append(stream())
    will_show(agent, "input-required")
    assert await follow() == Completed(task_state="input-required")
    assert [(one.kind, one.state) for one in told] == [("task", "input-required")]


async def test_a_gap_that_the_agent_does_not_close_is_marked_once(
    agent: MisbehavingAgent, follow: Deliver, told: list[AgentEvent]
) -> None:
    agent.answers.append(stream("working", "completed"))
    error = {"code": -32004, "message": "tasks are not shown here"}
    agent.will_say(200, {"jsonrpc": "2.0", "id": 1, "error": error})
    assert await follow() == Completed(task_state="completed")
    metadata = [json.loads(one.payload).get("metadata") for one in told]
    assert metadata == [{"molecule.gap": True}, None]


EVENT = {"taskId": "t9", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}


def test_members_that_are_null_are_none() -> None:
    odd = json.dumps({"task": None, "statusUpdate": EVENT, "artifactUpdate": None}).encode()
    said = event_parser.read(odd, "1.0")
    assert json.loads(said.payload) == {"statusUpdate": EVENT}


@pytest.mark.parametrize(
    "payload",
    [
        b'{"artifactUpdate":{"taskId":"t9"}}',
        b'{"statusUpdate":{"taskId":"t9","status":{"state":"TASK_STATE_WORKING"},"metadata":{"a":"\xe9"}}}',
        json.dumps({"statusUpdate": EVENT | {"contextId": "c" * 5000}}).encode(),
        b'{"task":null}',
    ],
)
def test_an_event_that_could_not_be_told_on_is_refused(payload: bytes) -> None:
    with pytest.raises(EventRefused):
        event_parser.read(payload, "1.0")


async def test_half_a_stream_leaves_a_task_to_ask_about(
    agent: MisbehavingAgent, deliver: Deliver, told: list[AgentEvent]
) -> None:
    agent.answers.append(stream("working") + b"data: {half")
    assert await deliver() == InProgress("t9")
    assert [one.state for one in told] == ["working"]


async def test_a_stream_that_said_nothing_is_tried_again(agent: MisbehavingAgent, deliver: Deliver) -> None:
    agent.answers.append(stream())
    answer = await deliver()
    assert isinstance(answer, DeliveryFailed)
    assert (answer.retryable, answer.delivery_confirmed) == (True, True)


async def test_a_frame_over_the_limit_ends_its_stream(agent: MisbehavingAgent, deliver: Deliver) -> None:
    agent.answers.append(stream() + b"data: " + b"x" * (MOST_BYTES + 1))
    with pytest.raises(ResponseTooLarge):
        await deliver()


# What the agent is sent


async def test_the_agent_gets_the_stored_bytes_at_exactly_its_address_with_the_message_s_facts(
    agent: MisbehavingAgent, deliver: Deliver, make_message: MakeMessage, clock: FakeClock
) -> None:
    message = make_message(deadline_at=clock.now() + timedelta(seconds=90))
    await deliver(id=message.id, body=message.body, deadline_at=message.deadline_at)
    [request] = agent.received
    assert (request.path, request.body) == ("/a2a", message.body)
    assert request.headers["content-type"] == "application/json"
    assert request.headers["x-molecule-message-id"] == message.id
    assert request.headers["x-molecule-attempt"] == "1"
    assert request.headers["x-molecule-deadline"] == "2026-05-02T12:01:30.000Z"
    assert request.headers["x-timeout"] == "90"
    assert request.headers["x-molecule-caller"] == f"asserted:{message.caller}"


@pytest.mark.parametrize("secret", [None, "hush"])
async def test_only_the_agent_s_own_dispatch_secret_is_ever_sent(
    agent: MisbehavingAgent, deliver: Deliver, secret: str | None
) -> None:
    await deliver(secret=secret)
    [request] = agent.received
    assert request.headers.get("authorization") == (None if secret is None else "Bearer hush")
    assert "cookie" not in request.headers


@pytest.mark.parametrize(
    ("spoken", "card", "protocols", "method", "version"),
    [
        ("1.0", NEW_CARD, None, "SendMessage", "1.0"),
        ("1.0", {"protocolVersion": "1.0"}, None, "SendMessage", "1.0"),
        ("1.0", None, ["1.0"], "SendMessage", "1.0"),
        ("1.0", None, None, "message/send", None),
        ("0.3", NEW_CARD, None, "SendMessage", "1.0"),
        ("0.3", NEW_CARD, ["0.3"], "message/send", None),
        ("0.3", None, None, "message/send", None),
    ],
)
async def test_the_agent_is_spoken_to_in_the_caller_s_dialect_when_it_has_it_else_in_its_own(
    agent: MisbehavingAgent,
    deliver: Deliver,
    spoken: str,
    card: Any,
    protocols: list[str] | None,
    method: str,
    version: str | None,
) -> None:
    await deliver(dialect=spoken, target={"agent_card": card, "protocols": protocols})
    [request] = agent.received
    assert request.json["method"] == method
    assert request.headers.get("a2a-version") == version
    part = request.json["params"]["message"]["parts"][0]
    assert part == ({"text": "hello"} if version else {"kind": "text", "text": "hello"})


@pytest.mark.parametrize(
    ("spoken", "card", "body"),
    [
        (
            "1.0",
            None,
            {
                "result": {
                    "kind": "message",
                    "messageId": "a",
                    "role": "agent",
                    "parts": [{"kind": "text", "text": "hi"}],
                }
            },
        ),
        ("1.0", NEW_CARD, {"jsonrpc": "2.0", "id": 1, "result": NEW_HI}),
    ],
)
async def test_the_answer_is_kept_in_the_caller_s_dialect(
    agent: MisbehavingAgent, deliver: Deliver, spoken: str, card: Any, body: Any
) -> None:
    agent.will_say(200, body)
    answer = await deliver(dialect=spoken, target={"agent_card": card})
    assert isinstance(answer, Completed)
    kept = json.loads(answer.result or b"")
    assert kept["message"]["role"] == "ROLE_AGENT"
    assert kept["message"]["parts"] == [{"text": "hi"}]


@pytest.mark.parametrize(
    ("card", "names"),
    [(NEW_CARD, {"a2a-extensions"}), (None, {"a2a-extensions", "x-a2a-extensions"})],
)
async def test_an_agent_finds_the_extensions_under_every_name_that_its_dialect_has(
    agent: MisbehavingAgent, deliver: Deliver, card: Any, names: set[str]
) -> None:
    await deliver(dialect="1.0", target={"agent_card": card}, extensions="https://x.example/a")
    sent = agent.received[0].headers
    assert {name for name in sent if "extensions" in name} == names
    assert {sent[name] for name in names} == {"https://x.example/a"}


@pytest.mark.parametrize("path", ["/a2a/inbound", "/a2a/inbound/", "/a2a/inbound?x=1"])
async def test_an_old_push_server_also_gets_the_old_members(
    agent: MisbehavingAgent, deliver: Deliver, path: str
) -> None:
    await deliver(url=f"http://127.0.0.1:{agent.port}{path}", id="m1", caller="workspace:w1")
    [request] = agent.received
    assert request.path == path
    old = {name: request.json[name] for name in ("task_id", "sender", "message", "idempotency_key")}
    assert old == {"task_id": "m1", "sender": "workspace:w1", "message": "hello", "idempotency_key": "m1"}
    assert request.json["method"] == "message/send"


@pytest.mark.parametrize("path", ["/a2a", "/a2a/inbound"])
@pytest.mark.parametrize(("streams", "method"), [(True, "message/stream"), (False, "message/send")])
async def test_an_agent_is_asked_for_a_stream_exactly_when_its_card_says_that_it_has_one(
    agent: MisbehavingAgent, deliver: Deliver, path: str, streams: bool, method: str
) -> None:
    parts = [{"kind": "text", "text": "hello"}]
    asked = {"message": {"role": "user", "messageId": "m", "parts": parts}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": asked}).encode()
    card = {"agent_card": {"capabilities": {"streaming": streams}}}
    url = f"http://127.0.0.1:{agent.port}{path}"
    await deliver(url=url, target=card, method="message/stream", body=body)
    assert agent.received[0].json["method"] == method


async def test_a_new_server_does_not_get_the_old_members(agent: MisbehavingAgent, deliver: Deliver) -> None:
    await deliver()
    assert set(agent.received[0].json) == {"jsonrpc", "id", "method", "params"}


# Whatever comes

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "result",
                    "error",
                    "kind",
                    "task",
                    "message",
                    "status",
                    "parts",
                    "state",
                    "code",
                    "id",
                    "text",
                ]
            ),
            inner | st.sampled_from(["task", "message", "working", "TASK_STATE_WORKING", "text"]),
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    body=anything.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=20),
    status=st.sampled_from([200, 202, 204, 301, 400, 401, 404, 429, 500, 503]),
    spoken=st.sampled_from(["0.3", "1.0"]),
    dialect=st.sampled_from(["0.3", "1.0"]),
)
def test_no_answer_of_any_shape_breaks_the_reading_of_it(
    make_message: MakeMessage, body: bytes, status: int, spoken: str, dialect: Any
) -> None:
    answer = response_parser.read(status, {"retry-after": "x"}, body, make_message(dialect=spoken), dialect)
    if isinstance(answer, Completed):
        assert (answer.result is None) != (answer.error is None)
        json.loads(answer.result or answer.error or b"")


@given(card=st.dictionaries(st.sampled_from(["protocolVersion", "supportedInterfaces"]), anything))
def test_no_card_of_any_shape_breaks_the_choice_of_a_dialect(
    make_workspace: MakeWorkspace, card: Any
) -> None:
    assert request_body.dialect_of(make_workspace(agent_card=card), "1.0") in ("0.3", "1.0")
