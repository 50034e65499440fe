"""Leasing from the inbox: nothing is lost, nothing is settled by a stranger, nothing is hammered."""

import logging
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
import requests

from molecule_agent import Fail, InboundDelivery, InboundMessage, InboxDelivery, RemoteAgentClient, errors
from molecule_agent import inbox as inbox_module
from molecule_agent import leases as leases_module

if TYPE_CHECKING:
    from .conftest import Answer, FastClock, MakeClient, ScriptedPlatform, WaitFor  # noqa: TID252 - types only

ME = "/workspaces/3f1c2d4e-5a6b-4c7d-8e9f-0a1b2c3d4e5f"
LEASE = ("POST", f"{ME}/inbox/lease")


def settle(verb: str, message_id: str = "m1") -> tuple[str, str]:
    return "POST", f"{ME}/inbox/{message_id}/{verb}"


def item(number: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "id": f"row-{number}",
        "message_id": f"m{number}",
        "kind": "message",
        "data": {"source": "canvas_user", "text": f"text {number}"},
        "lease": {
            "token": f"lease-{number}",
            "epoch": 1,
            "expires_at": "2026-05-02T10:16:30.123Z",
            "attempt": 1,
        },
        **more,
    }


def leased(*items: dict[str, Any]) -> dict[str, Any]:
    return {"messages": list(items), "pending": 0, "leased": len(items), "dead": 0}


@pytest.fixture
def inbox(platform: "ScriptedPlatform", answer: "type[Answer]") -> "ScriptedPlatform":
    """A platform whose inbox settles whatever it is told."""
    platform.on(*LEASE, answer(200, leased(item())), answer(200, leased()))
    for number in range(1, 4):
        for verb in ("answer", "ack", "fail", "release"):
            platform.ok(*settle(verb, f"m{number}"), {"status": "answered"})
        platform.ok(
            *settle("extend", f"m{number}"),
            {"expires_at": "2026-05-02T10:17:30.123Z", "cancel_requested": False},
        )
    return platform


@pytest.fixture
def delivery(client: RemoteAgentClient) -> InboxDelivery:
    return InboxDelivery(client, wait=0.0)


@pytest.fixture
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever keeps leases looks at them many times a second."""
    monkeypatch.setattr(leases_module, "TICK", 0.02)


@pytest.fixture
def timeless(make_client: "MakeClient", clock: "FastClock") -> RemoteAgentClient:
    """A client for whom time passes only when the test says so, or when it sleeps."""
    made = make_client(clock=clock)
    made.save_token("token-of-the-agent")
    return made


def echo(message: InboundMessage, client: RemoteAgentClient) -> str:
    return f"you said {message.text}"


def test_a_leased_message_is_handled_and_answered_under_its_lease(
    inbox: "ScriptedPlatform", client: RemoteAgentClient
) -> None:
    delivery = InboxDelivery(client, wait=0.0, lease=30.0, limit=3)
    assert isinstance(delivery, InboundDelivery)
    assert delivery.run_once(echo) == 1
    request = inbox.requests(*LEASE)[0].json
    assert request.pop("worker")
    assert request == {"limit": 3, "wait": 0.0, "lease": 30.0}
    assert inbox.requests(*settle("answer"))[0].json == {"lease_token": "lease-1", "text": "you said text 1"}
    assert delivery.run_once(echo) == 0


@pytest.mark.parametrize("result", [None, " "])
def test_a_message_without_an_answer_is_acknowledged(
    result: str | None, inbox: "ScriptedPlatform", delivery: InboxDelivery
) -> None:
    delivery.run_once(lambda message, client: result)
    assert inbox.requests(*settle("ack"))[0].json == {"lease_token": "lease-1"}


def test_a_peers_answer_is_acknowledged_whatever_the_handler_says(
    inbox: "ScriptedPlatform", delivery: InboxDelivery, answer: "type[Answer]"
) -> None:
    inbox.on(*LEASE, answer(200, leased(item(kind="reply"))))
    delivery.run_once(echo)
    assert inbox.requests(*settle("answer")) == []
    assert len(inbox.requests(*settle("ack"))) == 1


def test_what_the_agent_said_itself_is_acknowledged_unseen(
    inbox: "ScriptedPlatform", delivery: InboxDelivery, answer: "type[Answer]"
) -> None:
    inbox.on(*LEASE, answer(200, leased(item(method="notify"))))
    assert delivery.run_once(echo) == 0
    assert len(inbox.requests(*settle("ack"))) == 1


def test_a_handler_that_raises_gives_the_message_back_without_telling_its_secrets(
    inbox: "ScriptedPlatform", delivery: InboxDelivery, caplog: pytest.LogCaptureFixture
) -> None:
    def handler(message: InboundMessage, client: RemoteAgentClient) -> str:
        raise RuntimeError("the password is hunter2")

    assert delivery.run_once(handler) == 1
    body = inbox.requests(*settle("fail"))[0].json
    reference = body["error"].partition("ref ")[2].rstrip(")")
    assert body == {"lease_token": "lease-1", "error": f"RuntimeError (ref {reference})", "retryable": True}
    assert reference in caplog.text


@pytest.mark.parametrize(
    ("result", "kind"),
    [
        ({"text": "hi"}, "dict"),
        (4, "int"),
        (True, "bool"),
        (b"hi", "bytes"),
        (["hi"], "list"),
        (object(), "object"),
    ],
)
def test_a_result_that_is_no_answer_ends_the_message_and_names_the_handler_and_the_type(
    result: Any,
    kind: str,
    inbox: "ScriptedPlatform",
    delivery: InboxDelivery,
    answer: "type[Answer]",
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Agent:
        def reply(self, message: InboundMessage, client: RemoteAgentClient) -> Any:
            return result

    class AsyncAgent:
        async def reply(self, message: InboundMessage, client: RemoteAgentClient) -> Any:
            return result

    for agent, name in ((Agent(), "Agent.reply"), (AsyncAgent(), "AsyncAgent.reply")):
        inbox.on(*LEASE, answer(200, leased(item())))
        assert delivery.run_once(agent.reply) == 1
        body = inbox.requests(*settle("fail"))[-1].json
        assert (body["lease_token"], body["retryable"]) == ("lease-1", False)
        assert body["error"].endswith(
            f"{name} returned a value of type {kind}, where only str, Answer or None can be sent"
        )
        assert body["error"] in caplog.text
    assert inbox.requests(*settle("release")) == inbox.requests(*settle("ack")) == []


@pytest.mark.parametrize(
    ("failure", "body"),
    [
        (Fail("no such customer"), {"error": "no such customer", "retryable": False}),
        (Fail("the shop is closed", retry=True), {"error": "the shop is closed", "retryable": True}),
        (
            Fail("come back later", retry=True, delay=90),
            {"error": "come back later", "retryable": True, "delay_seconds": 90},
        ),
        (Fail(""), {"error": "the agent could not handle the message", "retryable": False}),
    ],
)
def test_a_handler_may_say_itself_how_a_message_fails(
    failure: Fail,
    body: dict[str, Any],
    inbox: "ScriptedPlatform",
    delivery: InboxDelivery,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def handler(message: InboundMessage, client: RemoteAgentClient) -> str:
        raise failure

    assert delivery.run_once(handler) == 1
    assert inbox.requests(*settle("fail"))[0].json == {"lease_token": "lease-1", **body}
    assert body["error"] in caplog.text


@pytest.mark.parametrize("status", [400, 413, 422])
def test_an_answer_that_the_platform_cannot_take_is_a_failure_of_the_message(
    status: int,
    inbox: "ScriptedPlatform",
    delivery: InboxDelivery,
    answer: "type[Answer]",
    caplog: pytest.LogCaptureFixture,
) -> None:
    inbox.on(*settle("answer"), answer(status, {"error": "at most 16 MiB", "code": "payload-too-large"}))
    assert delivery.run_once(echo) == 1
    assert inbox.requests(*settle("fail"))[0].json == {
        "lease_token": "lease-1",
        "error": "the platform refused the agent's answer: at most 16 MiB",
        "retryable": False,
    }
    assert len(inbox.requests(*settle("answer"))) == 1
    assert "the answer to m1 was refused" in caplog.text


def test_an_outcome_that_the_platform_never_takes_is_dropped(
    inbox: "ScriptedPlatform",
    delivery: InboxDelivery,
    answer: "type[Answer]",
    caplog: pytest.LogCaptureFixture,
) -> None:
    for verb in ("answer", "fail"):
        inbox.on(*settle(verb), answer(400, {"error": "no", "code": "invalid-request"}))
    assert delivery.run_once(echo) == 1
    assert [len(inbox.requests(*settle(verb))) for verb in ("answer", "fail")] == [1, 1]
    assert "the result of m1 is dropped" in caplog.text


@pytest.mark.usefixtures("quick_looks")
def test_leases_are_renewed_at_half_their_length_while_the_handler_works(
    inbox: "ScriptedPlatform",
    timeless: RemoteAgentClient,
    clock: "FastClock",
    answer: "type[Answer]",
    wait_for: "WaitFor",
) -> None:
    inbox.on(*LEASE, answer(200, leased(item(1), item(2))))
    renewed = [settle("extend", "m1"), settle("extend", "m2")]

    def times() -> list[int]:
        return [len(inbox.requests(*route)) for route in renewed]

    def slow(message: InboundMessage, client: RemoteAgentClient) -> str:
        for time_ in (1, 2) if message.message_id == "m1" else ():
            clock.now += 14
            time.sleep(0.1)
            assert times() == [time_ - 1] * 2
            clock.now += 1
            wait_for(lambda time_=time_: times() == [time_] * 2)
        return "done"

    assert InboxDelivery(timeless, wait=0.0, lease=30.0).run_once(slow) == 2
    assert times() == [2, 2]
    assert inbox.requests(*renewed[0])[0].json == {"lease_token": "lease-1", "seconds": 30.0}
    assert len(inbox.requests(*settle("answer", "m2"))) == 1


@pytest.mark.usefixtures("quick_looks")
def test_a_cancel_of_the_sender_reaches_the_handler(
    inbox: "ScriptedPlatform", timeless: RemoteAgentClient, clock: "FastClock"
) -> None:
    inbox.ok(*settle("extend"), {"expires_at": "2026-05-02T10:17:30.123Z", "cancel_requested": True})

    def watching(message: InboundMessage, client: RemoteAgentClient) -> str:
        clock.now += 15
        assert message.cancelled.wait(30)
        return "stopped"

    assert InboxDelivery(timeless, wait=0.0, lease=30.0).run_once(watching) == 1
    assert inbox.requests(*settle("answer"))[0].json["text"] == "stopped"


@pytest.mark.usefixtures("quick_looks")
def test_the_result_of_a_message_whose_lease_was_lost_is_dropped(
    inbox: "ScriptedPlatform",
    timeless: RemoteAgentClient,
    clock: "FastClock",
    answer: "type[Answer]",
    caplog: pytest.LogCaptureFixture,
) -> None:
    inbox.on(*LEASE, answer(200, leased(item(1), item(2))))
    lost = answer(409, {"error": "it is gone", "code": "lease-lost", "status": "leased"})
    inbox.on(*settle("extend", "m1"), lost)
    inbox.on(*settle("extend", "m2"), lost)
    handled: list[str] = []

    def slow(message: InboundMessage, client: RemoteAgentClient) -> str:
        handled.append(message.text)
        clock.now += 15
        assert message.cancelled.wait(30)
        clock.now += 15  # the lease of the other is over as well
        return "too late"

    InboxDelivery(timeless, wait=0.0, lease=30.0).run_once(slow)
    assert handled == ["text 1"]
    assert "the result of m1 is dropped: its lease is lost" in caplog.text
    assert "the lease of m2 ended before its turn came" in caplog.text
    assert inbox.requests(*settle("answer", "m1")) == inbox.requests(*settle("answer", "m2")) == []


def test_an_answer_that_had_arrived_is_not_taken_for_lost(
    inbox: "ScriptedPlatform",
    timeless: RemoteAgentClient,
    answer: "type[Answer]",
    caplog: pytest.LogCaptureFixture,
) -> None:
    gone, done = answer(drop=True), answer(200, {"status": "answered"})
    inbox.on(*settle("answer"), *[gone] * 6, done)  # the seventh try comes when the lease is over
    inbox.on(*settle("extend"), gone)
    assert InboxDelivery(timeless, wait=0.0, lease=10.0).run_once(echo) == 1
    assert "dropped" not in caplog.text


def test_a_lease_lost_while_answering_drops_the_result(
    inbox: "ScriptedPlatform",
    delivery: InboxDelivery,
    answer: "type[Answer]",
    caplog: pytest.LogCaptureFixture,
) -> None:
    inbox.on(*settle("answer"), answer(409, {"error": "it is gone", "code": "lease-lost"}))
    assert delivery.run_once(echo) == 1
    assert "the result of m1 is dropped: 409 lease-lost" in caplog.text
    assert len(inbox.requests(*settle("answer"))) == 1


def test_an_answer_survives_a_restart_of_the_platform(
    inbox: "ScriptedPlatform", delivery: InboxDelivery, answer: "type[Answer]"
) -> None:
    gone, away = answer(drop=True), answer(503, {"error": "starting", "code": "platform-unavailable"})
    inbox.on(*settle("answer"), gone, gone, away, answer(200, {"status": "answered"}))
    handled: list[str] = []

    def once(message: InboundMessage, client: RemoteAgentClient) -> str:
        handled.append(message.text)
        return "done"

    assert delivery.run_once(once) == 1
    answers = inbox.requests(*settle("answer"))
    assert [seen.json for seen in answers] == [{"lease_token": "lease-1", "text": "done"}] * 4
    assert handled == ["text 1"]


@pytest.mark.usefixtures("quick_looks")
def test_when_the_platform_stays_away_the_result_is_dropped_with_the_lease(
    inbox: "ScriptedPlatform",
    timeless: RemoteAgentClient,
    answer: "type[Answer]",
    caplog: pytest.LogCaptureFixture,
) -> None:
    inbox.on(*settle("answer"), answer(drop=True))
    inbox.on(*settle("extend"), answer(drop=True))
    assert InboxDelivery(timeless, wait=0.0, lease=30.0).run_once(echo) == 1
    assert "the result of m1 is dropped: its lease is lost" in caplog.text


def test_a_token_that_died_while_answering_is_replaced_and_the_answer_sent(
    inbox: "ScriptedPlatform", client: RemoteAgentClient, answer: "type[Answer]"
) -> None:
    def check(seen: Any) -> "Answer":
        fresh = seen.headers["authorization"] == "Bearer minted"
        return answer(200, {}) if fresh else answer(401, {"error": "no", "code": "token-expired"})

    inbox.on(*settle("answer"), check)
    inbox.ok("POST", "/registry/register", {"auth_token": "minted"})
    client._store.save_recovery("secret")
    InboxDelivery(client, wait=0.0).run_once(echo)
    assert inbox.requests(*settle("answer"))[-1].headers["authorization"] == "Bearer minted"


def test_messages_of_one_context_stay_in_order_and_others_run_beside_them(
    inbox: "ScriptedPlatform", client: RemoteAgentClient, answer: "type[Answer]"
) -> None:
    first, second = item(1, context_id="a"), item(2, context_id="a")
    inbox.on(*LEASE, answer(200, leased(first, second, item(3, context_id="b"))))
    order: list[str] = []
    together = threading.Barrier(2, timeout=30)

    def handler(message: InboundMessage, client: RemoteAgentClient) -> None:
        if message.message_id != "m2":
            together.wait()  # m1 and m3 meet only if they run at the same time
        order.append(message.message_id)

    assert InboxDelivery(client, wait=0.0, concurrency=2).run_once(handler) == 3
    assert order.index("m1") < order.index("m2")


def test_a_platform_without_an_inbox_is_polled_instead(
    platform: "ScriptedPlatform", delivery: InboxDelivery, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [{"id": "row-1", "data": {"source": "canvas_user", "text": "hi"}}]
    platform.ok("GET", f"{ME}/activity", rows)
    platform.ok("POST", f"{ME}/notify", {})
    assert delivery.run_once(echo) == 1
    assert delivery.interval == 5.0
    assert delivery.run_once(echo) == 0
    assert len(platform.requests(*LEASE)) == 1
    assert "no inbox to lease from" in caplog.text
    delivery.stop()
    assert delivery.run_once(echo) == 0


def test_an_unknown_workspace_is_no_reason_to_poll(
    platform: "ScriptedPlatform", delivery: InboxDelivery, answer: "type[Answer]"
) -> None:
    platform.on(*LEASE, answer(404, {"error": "no", "code": "workspace-not-found"}))
    with pytest.raises(errors.NotFoundError):
        delivery.run_once(echo)


def test_a_platform_that_is_away_or_does_not_hold_requests_is_asked_less_often(
    inbox: "ScriptedPlatform", client: RemoteAgentClient, answer: "type[Answer]"
) -> None:
    inbox.on(*LEASE, *[answer(drop=True)] * 5, answer(200, leased()))
    delivery = InboxDelivery(client, wait=10.0)
    assert delivery.interval == 0.05
    intervals: list[float] = []
    for _ in range(5):
        with pytest.raises(requests.ConnectionError):
            delivery.run_once(echo)
        intervals.append(delivery.interval)
    assert intervals == [0.5, 1.0, 2.0, 4.0, 5.0]
    delivery.run_once(echo)
    assert delivery.interval == 0.05
    delivery.run_once(echo)
    assert delivery.interval == 1.0


def test_stop_lets_the_running_handler_finish_and_gives_the_rest_back(
    inbox: "ScriptedPlatform", client: RemoteAgentClient, answer: "type[Answer]", wait_for: "WaitFor"
) -> None:
    inbox.on(*LEASE, answer(200, leased(item(1), item(2))))
    delivery = InboxDelivery(client, wait=0.0)
    running, may_end = threading.Event(), threading.Event()

    def handler(message: InboundMessage, client: RemoteAgentClient) -> str:
        running.set()
        assert may_end.wait(30)
        return "done"

    worker = threading.Thread(target=delivery.run_once, args=(handler,))
    worker.start()
    assert running.wait(30)
    stopper = threading.Thread(target=delivery.stop)
    stopper.start()
    wait_for(delivery._stopped.is_set)
    may_end.set()
    stopper.join(30)
    worker.join(30)
    assert len(inbox.requests(*settle("answer", "m1"))) == 1
    assert inbox.requests(*settle("release", "m2"))[0].json == {"lease_token": "lease-2"}
    assert delivery.run_once(echo) == 0


def test_stop_does_not_wait_for_ever_for_a_handler(
    inbox: "ScriptedPlatform",
    client: RemoteAgentClient,
    answer: "type[Answer]",
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inbox_module, "DRAIN_SECONDS", 0.1)
    inbox.on(*LEASE, answer(200, leased(item(1), item(2))))
    delivery = InboxDelivery(client, wait=0.0)
    running, may_end = threading.Event(), threading.Event()

    def handler(message: InboundMessage, client: RemoteAgentClient) -> str:
        running.set()
        assert may_end.wait(30)
        return "done"

    worker = threading.Thread(target=delivery.run_once, args=(handler,))
    worker.start()
    assert running.wait(30)
    delivery.stop()
    assert len(inbox.requests(*settle("release", "m2"))) == 1
    may_end.set()
    worker.join(30)
    assert len(inbox.requests(*settle("release", "m2"))) == 1


def test_stop_from_inside_a_handler_returns_at_once(
    inbox: "ScriptedPlatform", client: RemoteAgentClient, answer: "type[Answer]"
) -> None:
    inbox.on(*LEASE, answer(200, leased(item(1), item(2))))
    delivery = InboxDelivery(client, wait=0.0)

    def handler(message: InboundMessage, client: RemoteAgentClient) -> str:
        delivery.stop()
        return "last"

    assert delivery.run_once(handler) == 1
    assert len(inbox.requests(*settle("release", "m2"))) == 1


@pytest.mark.usefixtures("quick_looks")
def test_the_heart_beats_on_while_a_handler_takes_its_time(
    inbox: "ScriptedPlatform", make_client: "MakeClient", wait_for: "WaitFor"
) -> None:
    inbox.ok("POST", "/registry/heartbeat", {})
    inbox.ok("GET", f"{ME}/state", {"status": "paused", "paused": True})
    client = make_client(heartbeat_interval=0.1, state_poll_interval=0.1)

    def slow(message: InboundMessage, client: RemoteAgentClient) -> None:
        wait_for(lambda: len(inbox.requests("POST", "/registry/heartbeat")) >= 3)

    assert client.run_agent_loop(slow, InboxDelivery(client, wait=0.0)) == "paused"


def test_a_message_that_could_not_be_released_is_left_to_its_lease(
    inbox: "ScriptedPlatform",
    client: RemoteAgentClient,
    answer: "type[Answer]",
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    inbox.on(*settle("release"), answer(drop=True))
    delivery = InboxDelivery(client, wait=0.0)

    def interrupted(message: InboundMessage, client: RemoteAgentClient) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        delivery.run_once(interrupted)
    assert "m1 could not be released" in caplog.text


@pytest.mark.parametrize(
    "options", [{"wait": 61}, {"wait": -1}, {"lease": 5}, {"lease": 4000}, {"limit": 0}, {"concurrency": 0}]
)
def test_settings_outside_the_platforms_limits_are_refused(
    options: dict[str, Any], client: RemoteAgentClient
) -> None:
    with pytest.raises(errors.ConfigurationError, match="must be between"):
        InboxDelivery(client, **options)
