"""A message ends even if its worker is broken, and its sender learns why."""

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from molecule_agent import Fail, InboundMessage, InboxDelivery, PollDelivery, RemoteAgentClient
from molecule_platform.domain import messages
from molecule_wire import times
from molecule_wire.a2a import text
from tests.rows import each_row
from tests.spec import streams
from tests.spec.platforms import Platform, Start

ASYNC = {"Prefer": "respond-async"}


class Worker:
    """A worker of an agent, over plain HTTP: what it does wrong no SDK would do for it."""

    def __init__(self, platform: Platform, client: RemoteAgentClient) -> None:
        self.platform, self.workspace_id, self.token = platform, client.workspace_id, client.load_token()
        self.inbox = f"/workspaces/{client.workspace_id}/inbox"

    def take(self, wait: float = 0) -> dict[str, Any] | None:
        body = {"wait": wait, "worker": "w"}
        found = self.platform.ok("POST", f"{self.inbox}/lease", token=self.token, json=body)["messages"]
        return found[0] if found else None

    def call(self, item: dict[str, Any], verb: str, **body: Any) -> Any:
        given = {"lease_token": item["lease"]["token"], **body}
        path = f"{self.inbox}/{item['message_id']}/{verb}"
        return self.platform.call("POST", path, token=self.token, json=given)

    def give_back(self, item: dict[str, Any]) -> dict[str, Any]:
        answer = self.call(item, "release")
        assert answer.status_code == 200, answer.text
        return answer.json()


def sent_to(platform: Platform, client: RemoteAgentClient, words: str = "hello") -> str:
    return platform.send(client.workspace_id, words, headers=ASYNC).json()["message_id"]


def outcome(platform: Platform, message_id: str) -> dict[str, Any]:
    return platform.ok("GET", f"/messages/{message_id}?wait=20")


# Releases without an outcome


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is given back may be taken at once, however often; the pauses have a test of their own."""
    monkeypatch.setattr(messages, "RELEASES_WITHOUT_PAUSE", 1000)


@pytest.mark.both_engines
@pytest.mark.usefixtures("no_pauses")
def test_a_message_that_is_only_taken_and_given_back_ends_after_twenty_leases_and_its_sender_is_told(
    patient: Platform,
) -> None:
    worker, told = Worker(patient, patient.join("a")), list[Any]()
    waiting = threading.Thread(target=lambda: told.append(patient.send(worker.workspace_id, "hello")))
    waiting.start()
    leases, item = 0, worker.take(wait=20)
    assert item is not None
    message_id = item["message_id"]
    while item is not None:
        leases += 1
        stands = worker.give_back(item)
        assert (stands["releases"], stands["status"]) == (leases, "accepted" if leases < 20 else "failed")
        item = worker.take()
    assert leases == 20
    waiting.join(20)
    assert (told[0].status_code, told[0].json()["code"]) == (502, "released-too-often")
    assert told[0].json()["error"]["message"] == (
        "the agent took the message 20 times and gave it back each time without an outcome"
    )
    row = patient.ok("GET", f"/messages/{message_id}")
    assert (row["status"], row["dead_letter"], row["attempts"]) == ("failed", True, 0)
    assert streams.steps(patient, message_id).count("leased") == 20
    dead = patient.ok("GET", f"{worker.inbox}?status=dead")["messages"]
    assert [one["error"]["code"] for one in dead] == ["released-too-often"]


def test_each_release_after_the_third_is_followed_by_a_longer_pause_also_across_a_restart(
    restarting: Start,
) -> None:
    platform = restarting(MESSAGE_MAX_RELEASES=5)
    client = platform.join("a")
    worker, message_id, pauses = Worker(platform, client), sent_to(platform, client), list[timedelta]()
    for number in range(1, 5):
        item = worker.take()
        assert item is not None
        stands = worker.give_back(item)
        assert stands["releases"] == number
        pauses.append(times.parse_time(stands["next_attempt_at"]) - datetime.now(UTC))
    assert all(pause <= timedelta() for pause in pauses[:3])
    assert pauses[3] > timedelta(seconds=1)
    assert worker.take() is None
    platform.stop()
    again = restarting(MESSAGE_MAX_RELEASES=5)
    worker.platform = again
    item = worker.take(wait=20)
    assert item is not None
    assert worker.give_back(item) == {"status": "failed", "releases": 5, "next_attempt_at": None}
    assert outcome(again, message_id)["error"]["code"] == "released-too-often"


@pytest.mark.both_engines
@pytest.mark.usefixtures("no_pauses")
def test_a_dead_letter_that_is_delivered_again_may_be_given_back_as_often_as_before(
    configured: Start,
) -> None:
    platform = configured(MESSAGE_MAX_RELEASES=2)
    client = platform.join("a")
    worker, message_id = Worker(platform, client), sent_to(platform, client)
    for _ in range(2):
        for status in ("accepted", "failed"):
            item = worker.take()
            assert item is not None
            assert worker.give_back(item)["status"] == status
        platform.ok("POST", f"{worker.inbox}/{message_id}/redeliver")
    item = worker.take()
    assert item is not None
    assert worker.call(item, "answer", text="at last").status_code == 200
    assert outcome(platform, message_id)["status"] == "answered"


def test_workers_that_are_stopped_leave_their_messages_to_the_next_one_at_once(platform: Platform) -> None:
    client = platform.join("a")
    first, second = sent_to(platform, client, "first"), sent_to(platform, client, "second")
    for _ in range(3):
        delivery = InboxDelivery(client, wait=5)

        def stopping(message: InboundMessage, _client: RemoteAgentClient) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            delivery.run_once(stopping)
        delivery.stop()
    delivery = InboxDelivery(client, wait=0)
    assert delivery.run_once(lambda message, _client: f"re: {message.text}") == 2
    delivery.stop()
    assert [outcome(platform, one)["status"] for one in (first, second)] == ["answered"] * 2


# What handlers return and raise


class Described:
    """An object of the author's own."""


@pytest.mark.parametrize("way", [InboxDelivery, PollDelivery])
@each_row("result", [{"text": "hi"}, 4, 2.5, False, b"hi", ["hi"], Described()])
def test_a_handler_s_wrong_type_fails_its_message_at_once_and_names_handler_and_type(
    platform: Platform, way: Any, caplog: pytest.LogCaptureFixture, result: Any
) -> None:
    client = platform.join("a")

    def reply(message: InboundMessage, _client: RemoteAgentClient) -> Any:
        return result

    message_id = sent_to(platform, client)
    delivery = way(client, wait=5)
    assert delivery.run_once(reply) == 1
    delivery.stop()
    row = platform.ok("GET", f"/messages/{message_id}")
    assert (row["status"], row["dead_letter"], row["error"]["retryable"]) == ("failed", True, False)
    kind = type(result).__name__
    sentence = f"reply returned a value of type {kind}, where only str, Answer or None can be sent"
    assert row["error"]["message"].endswith(sentence)
    assert sentence in caplog.text
    assert streams.steps(platform, message_id).count("leased") == 1


def test_a_loop_goes_on_after_a_handler_s_wrong_type(platform: Platform) -> None:
    client = platform.join("a")
    wrong, right = sent_to(platform, client, "wrong"), sent_to(platform, client, "right")
    handled: list[str] = []

    def handler(message: InboundMessage, _client: RemoteAgentClient) -> Any:
        handled.append(message.text)
        if len(handled) == 2:
            client.stop()
        return {"text": "hi"} if message.text == "wrong" else "hi"

    assert client.run_agent_loop(handler, InboxDelivery(client, wait=5)) == "stopped"
    assert sorted(handled) == ["right", "wrong"]
    assert (outcome(platform, wrong)["status"], outcome(platform, right)["status"]) == ("failed", "answered")


@pytest.mark.parametrize("way", [InboxDelivery, PollDelivery])
def test_a_failure_without_retry_ends_the_message_at_once_with_the_handler_s_own_words(
    platform: Platform, way: Any
) -> None:
    client = platform.join("a")
    message_id = sent_to(platform, client)

    def refuse(message: InboundMessage, _client: RemoteAgentClient) -> str:
        raise Fail("there is no customer 17", retry=False)

    delivery = way(client, wait=5)
    assert delivery.run_once(refuse) == 1
    delivery.stop()
    row = outcome(platform, message_id)
    assert (row["status"], row["dead_letter"], row["attempts"]) == ("failed", True, 1)
    assert row["error"]["message"] == "there is no customer 17"


@pytest.mark.usefixtures("prompt_retries")
def test_a_failure_with_retry_is_tried_again_and_its_words_are_what_the_sender_learns_in_the_end(
    configured: Start,
) -> None:
    platform = configured(MESSAGE_MAX_ATTEMPTS=3)
    client = platform.join("a")
    message_id = sent_to(platform, client)
    attempts: list[int] = []

    def fail(message: InboundMessage, _client: RemoteAgentClient) -> str:
        assert message.lease is not None
        attempts.append(message.lease.attempt)
        raise Fail(f"the shop was closed {len(attempts)} times", retry=True)

    delivery = InboxDelivery(client, wait=5)
    while platform.ok("GET", f"/messages/{message_id}")["status"] == "accepted":
        delivery.run_once(fail)
    delivery.stop()
    assert attempts == [1, 2, 3]
    row = outcome(platform, message_id)
    assert (row["dead_letter"], row["error"]["message"]) == (True, "the shop was closed 3 times")


def test_a_failure_may_say_when_to_come_again(platform: Platform) -> None:
    client = platform.join("a")
    message_id = sent_to(platform, client)

    def later(message: InboundMessage, _client: RemoteAgentClient) -> str:
        raise Fail("the shop opens at nine", retry=True, delay=600)

    delivery = InboxDelivery(client, wait=0)
    assert (delivery.run_once(later), delivery.run_once(later)) == (1, 0)
    delivery.stop()
    assert platform.ok("GET", f"/messages/{message_id}")["attempts"] == 1


def test_an_answer_that_the_platform_does_not_take_fails_its_message_and_is_not_asked_for_again(
    configured: Start,
) -> None:
    platform = configured(MOLECULE_A2A_MAX_BODY_BYTES=1_048_576)
    client = platform.join("a")
    message_id = sent_to(platform, client)
    delivery = InboxDelivery(client, wait=5)
    assert delivery.run_once(lambda message, _client: "x" * 2_000_000) == 1
    delivery.stop()
    row = outcome(platform, message_id)
    assert (row["status"], row["dead_letter"]) == ("failed", True)
    assert row["error"]["message"].startswith("the platform refused the agent's answer: ")


# What workers say over the inbox


@pytest.mark.both_engines
@each_row(
    ("verb", "body", "named"),
    [
        ("answer", {}, "exactly one of text, parts, message and task"),
        ("answer", {"text": None}, "exactly one of text, parts, message and task"),
        ("answer", {"text": 4}, "text"),
        ("answer", {"text": {"text": "hi"}}, "text"),
        ("answer", {"text": "hi", "state": "enlightened"}, "state is one of"),
        ("answer", {"text": "hi", "state": 4}, "state"),
        ("answer", {"task": {"id": "t", "status": {"state": "enlightened"}}}, "state is one of"),
        ("answer", {"task": {"id": "t"}}, "state is one of"),
        ("progress", {"state": "enlightened"}, "state is one of"),
        ("progress", {"text": 4}, "text"),
        ("progress", {"artifact": {"artifactId": "a", "parts": [{"text": "b"}], "append": True}}, "artifact"),
        ("progress", {"artifact": {"artifactId": "a", "parts": None}}, "list of parts"),
        ("fail", {"error": 4}, "error"),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_name_and_the_worker_can_still_answer(
    platform: Platform, verb: str, body: dict[str, Any], named: str
) -> None:
    client = platform.join("a")
    worker, message_id = Worker(platform, client), sent_to(platform, client)
    item = worker.take()
    assert item is not None
    refused = worker.call(item, verb, **body)
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid-request")
    assert named in refused.json()["error"]
    assert platform.ok("GET", f"/messages/{message_id}")["status"] == "leased"
    assert worker.call(item, "answer", text="four").status_code == 200
    row = outcome(platform, message_id)
    assert (row["status"], text.text_of(row["result"])) == ("answered", "four")
    assert not row["result"].get("artifacts")


@pytest.mark.both_engines
@each_row(
    ("verb", "body"),
    [
        ("progress", {"text": "one more thing"}),
        ("progress", {"artifact": {"artifactId": "a", "parts": [{"text": "b"}]}}),
        ("answer", {"text": "five"}),
        ("fail", {"error": "on second thoughts"}),
        ("release", {}),
        ("extend", {"seconds": 60}),
    ],
)
def test_what_comes_after_the_end_is_refused_and_changes_nothing_for_the_sender(
    platform: Platform, verb: str, body: dict[str, Any]
) -> None:
    client = platform.join("a")
    worker, message_id = Worker(platform, client), sent_to(platform, client)
    item = worker.take()
    assert item is not None
    assert worker.call(item, "answer", text="four").status_code == 200
    before = platform.ok("GET", f"/messages/{message_id}")
    late = worker.call(item, verb, **body)
    assert (late.status_code, late.json()["code"], late.json()["status"]) == (409, "lease-lost", "answered")
    assert late.json()["error"] == "the message has already ended: answered"
    assert platform.ok("GET", f"/messages/{message_id}") == before
