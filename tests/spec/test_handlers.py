"""Handlers as authors write them: every form, in every way in which a message comes."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, cast

import pytest

from molecule_agent import Answer, Fail, HistoryItem, InboundMessage, NeedInput, RemoteAgentClient, Sender
from tests.rows import each_row
from tests.spec.platforms import Engine, Platform
from tests.spec.sdk_handlers import WAYS, Caller, Way, grown, serving

pytestmark = pytest.mark.usefixtures("prompt_retries")


@pytest.fixture(params=["sqlite"])
def engine(request: pytest.FixtureRequest) -> Engine:
    """The wire is the same on both engines."""
    return request.param


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Way:
    return request.param


@pytest.fixture(params=["inbox", "push"])
def streaming_way(request: pytest.FixtureRequest) -> Way:
    return request.param


def of_message(message: InboundMessage) -> str:
    return f"re: {message.text}"


def of_both(message: InboundMessage, client: RemoteAgentClient) -> str:
    return f"re: {message.text}" if client.workspace_id else ""


async def of_coroutine(message: InboundMessage) -> str:
    await asyncio.sleep(0)
    return f"re: {message.text}"


def of_generator(message: InboundMessage) -> Iterator[str]:
    yield "re: "
    yield ""
    yield from message.text


async def of_async_generator(message: InboundMessage, _client: RemoteAgentClient) -> AsyncIterator[str]:
    yield "re: "
    await asyncio.sleep(0)
    yield message.text


def of_answer(message: InboundMessage) -> Answer:
    return Answer(f"re: {message.text}")


async def of_parts(message: InboundMessage) -> Answer:
    return Answer(parts=[{"kind": "text", "text": f"re: {message.text}"}, {"data": {"a": 1}}])


def of_artifacts(message: InboundMessage) -> Answer:
    return Answer(artifacts=[{"name": "answer.txt", "parts": [{"text": f"re: {message.text}"}]}])


def of_iterator(message: InboundMessage) -> Iterator[str]:
    return iter((f"re: {message.text}",))


def test_each_form_of_a_handler_gives_the_same_answer(platform: Platform, way: Way) -> None:
    forms: list[Callable[..., Any]] = [
        of_message,
        of_both,
        of_coroutine,
        of_generator,
        of_async_generator,
        of_answer,
        of_parts,
        of_artifacts,
        of_iterator,
    ]

    def handler(message: InboundMessage, client: RemoteAgentClient) -> Any:
        form = forms[int(message.text)]
        return form(message, client) if form in (of_both, of_async_generator) else form(message)

    client = platform.join("agent")
    caller = Caller(platform, client.workspace_id)
    with serving(client, way, handler):
        for number, form in enumerate(forms):
            row = caller.send(str(number))
            told = (getattr(form, "__name__", ""), row["status"], row["task_state"], row["text"])
            assert told == (told[0], "answered", "completed", f"re: {number}")


def test_a_handler_may_take_the_message_alone(platform: Platform, way: Way) -> None:
    client = platform.join("agent")
    with serving(client, way, of_message):
        assert Caller(platform, client.workspace_id).send("hi")["text"] == "re: hi"


def test_parts_and_artifacts_reach_the_sender(platform: Platform, way: Way) -> None:
    def handler(message: InboundMessage) -> Answer:
        chart = {"name": "chart", "parts": [{"data": {"x": [1]}}]}
        return Answer("see the chart", parts=[{"data": {"rows": 2}}], artifacts=[chart])

    client = platform.join("agent")
    with serving(client, way, handler):
        row = Caller(platform, client.workspace_id).send("draw")
    task = row["result"]
    said = [part.get("text") or part.get("data") for part in task["status"]["message"]["parts"]]
    assert said == ["see the chart", {"rows": 2}]
    assert [artifact["name"] for artifact in task["artifacts"]] == ["chart"]


def test_nothing_returned_is_no_answer(platform: Platform, way: Way) -> None:
    client = platform.join("agent")
    with serving(client, way, lambda message: None):
        row = Caller(platform, client.workspace_id).send("hi")
    assert (row["status"], row["task_state"], row["text"]) == ("answered", "completed", "")


def test_a_question_back_is_answered_by_the_next_message_of_the_task(platform: Platform, way: Way) -> None:
    got: list[InboundMessage] = []

    def weather(message: InboundMessage) -> str:
        got.append(message)
        if message.text == "weather?":
            raise NeedInput("which city?")
        return f"{message.text}: sun"

    client = platform.join("agent")
    caller = Caller(platform, client.workspace_id)
    with serving(client, way, weather):
        asked = caller.send("weather?")
        assert (asked["task_state"], asked["text"]) == ("input-required", "which city?")
        answer = caller.send("Rome", taskId=asked["result"]["id"], contextId=asked["context_id"])
    assert (answer["task_state"], answer["text"]) == ("completed", "Rome: sun"), str(answer["error"])
    assert got[0].context_id == got[1].context_id
    assert got[0].task_id == got[1].task_id


def test_a_failure_ends_the_message_with_the_words_of_the_handler(platform: Platform, way: Way) -> None:
    def handler(message: InboundMessage) -> str:
        raise Fail("there is no customer 17")

    client = platform.join("agent")
    with serving(client, way, handler):
        row = Caller(platform, client.workspace_id).send("17?")
    assert row["task_state"] == "failed"
    assert "there is no customer 17" in str(row["error"] or row["text"])


def test_a_failure_that_asks_for_it_is_tried_again(platform: Platform, streaming_way: Way) -> None:
    attempts: list[str] = []

    def handler(message: InboundMessage) -> str:
        attempts.append(message.text)
        if len(attempts) == 1:
            raise Fail("closed", retry=True)
        return "open"

    client = platform.join("agent")
    with serving(client, streaming_way, handler):
        row = Caller(platform, client.workspace_id).send("hi")
    assert (row["text"], attempts) == ("open", ["hi", "hi"])


def returns(said: Any) -> Any:
    def said_to(message: InboundMessage) -> Any:
        return said

    return said_to


def yields(*pieces: Any) -> Any:
    def pieces_of(message: InboundMessage) -> Iterator[Any]:
        yield from pieces

    return pieces_of


@each_row(
    ("handler", "sentence"),
    [
        (returns(4), "returned a value of type int, where only str, Answer or None can be sent"),
        (returns({"text": "hi"}), "returned a value of type dict, where only str"),
        (returns(b"hi"), "returned a value of type bytes, where only str"),
        (yields("a", 4), "yielded a value of type int, where only str can be sent"),
        (yields(b"a"), "yielded a value of type bytes, where only str can be sent"),
        (returns(Answer(parts=[{"words": "hi"}])), "returned an Answer that cannot be sent: parts[0]"),
        (
            returns(Answer(artifacts=cast("Any", ["hi"]))),
            "returned an Answer that cannot be sent: artifacts[0]",
        ),
    ],
)
def test_what_is_no_answer_fails_its_message_and_the_sentence_names_handler_and_type(
    platform: Platform, way: Way, handler: Any, sentence: str
) -> None:
    client = platform.join("agent")
    with serving(client, way, handler):
        row = Caller(platform, client.workspace_id).send("hi")
    assert (row["task_state"], row["attempts"]) == ("failed", 1)
    told = str(row["error"] or row["text"])
    assert sentence in told
    assert "the handler " in told


# Streams


def test_the_pieces_of_a_generator_are_read_while_it_makes_them(
    platform: Platform, streaming_way: Way
) -> None:
    read = [threading.Event() for _ in range(3)]

    def count(message: InboundMessage) -> Iterator[str]:
        for number, last in enumerate(read):
            yield f"{number} "
            assert last.wait(20), "nobody has read the piece before"

    client = platform.join("agent")
    events: list[dict[str, Any]] = []
    with serving(client, streaming_way, count):
        for event in Caller(platform, client.workspace_id).stream("count"):
            events.append(event)
            for number, passed in enumerate(read):
                if f"{number} " in grown(events):
                    passed.set()
    assert grown(events) == "0 1 2 "
    status = events[-1]["statusUpdate"]["status"]
    assert status["state"] == "TASK_STATE_COMPLETED"
    assert status["message"]["parts"] == [{"text": "0 1 2 "}]


def test_a_generator_that_raises_midway_keeps_its_pieces_and_fails_its_message_at_once(
    platform: Platform, streaming_way: Way
) -> None:
    calls: list[str] = []

    def breaks(message: InboundMessage) -> Iterator[str]:
        calls.append(message.text)
        yield "once upon "
        yield "a time"
        raise OSError("the model's own secret")

    client = platform.join("agent")
    with serving(client, streaming_way, breaks):
        events = list(Caller(platform, client.workspace_id).stream("story"))
    assert grown(events) == "once upon a time"
    status = events[-1]["statusUpdate"]["status"]
    assert status["state"] == "TASK_STATE_FAILED"
    assert "OSError (ref " in str(status)
    assert "secret" not in str(events)
    assert calls == ["story"]


def test_ten_thousand_pieces_are_sent_together_and_whole(platform: Platform, streaming_way: Way) -> None:
    def words(message: InboundMessage) -> Iterator[str]:
        for number in range(10_000):
            yield f"{number} "

    client = platform.join("agent")
    with serving(client, streaming_way, words):
        events = list(Caller(platform, client.workspace_id).stream("many"))
    whole = "".join(f"{number} " for number in range(10_000))
    assert grown(events) == whole
    assert events[-1]["statusUpdate"]["status"]["message"]["parts"] == [{"text": whole}]
    assert len(events) < 60


def test_an_endless_generator_is_ended_with_a_sentence(
    platform: Platform, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    from molecule_wire import answers

    monkeypatch.setattr(answers, "MAX_STREAMED_CHARACTERS", 100_000)
    closed = threading.Event()

    def endless(message: InboundMessage) -> Iterator[str]:
        try:
            while True:
                yield "and so on " * 100
        finally:
            closed.set()

    client = platform.join("agent")
    with serving(client, way, endless):
        row = Caller(platform, client.workspace_id).send("go")
    assert row["task_state"] == "failed"
    assert "yielded more than 100000 characters" in str(row["error"] or row["text"])
    assert closed.is_set()


# Cancelling


def test_a_cancel_closes_a_generator_and_sets_the_event(platform: Platform, streaming_way: Way) -> None:
    ended: list[Any] = []

    def counts(message: InboundMessage) -> Iterator[str]:
        try:
            while True:
                yield "tick "
                time.sleep(0.02)
        finally:
            ended.append(message.cancelled.is_set())

    _cancelled_midway(platform, streaming_way, counts)
    assert ended == [True]


def test_a_cancel_reaches_an_async_generator_as_an_exception(platform: Platform, streaming_way: Way) -> None:
    ended: list[str] = []

    async def counts(message: InboundMessage) -> AsyncIterator[str]:
        try:
            while True:
                yield "tick "
                await asyncio.sleep(0.02)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    _cancelled_midway(platform, streaming_way, counts)
    assert ended == ["cancelled"]


def test_a_handler_that_swallows_the_cancel_changes_nothing_for_the_sender(
    platform: Platform, streaming_way: Way
) -> None:
    async def stubborn(message: InboundMessage) -> AsyncIterator[str]:
        while not message.cancelled.is_set():
            yield "tick "
            try:
                await asyncio.sleep(0.02)
            except asyncio.CancelledError:
                continue
        yield "never mind"

    _cancelled_midway(platform, streaming_way, stubborn)


def _cancelled_midway(platform: Platform, way: Way, handler: Any) -> None:
    client = platform.join("agent")
    with serving(client, way, handler):
        task_id, event = "", dict[str, Any]()
        for event in Caller(platform, client.workspace_id).stream("count"):
            if "artifactUpdate" in event and not task_id:
                task_id = event["artifactUpdate"]["taskId"]
                path = f"/agents/{client.workspace_id}/tasks/{task_id}:cancel"
                platform.ok("POST", path, headers={"A2A-Version": "1.0"}, json={})
        last = event["statusUpdate"]["status"]["state"]
        assert last == "TASK_STATE_CANCELED"
    whole = platform.ok(
        "GET", f"/agents/{client.workspace_id}/tasks/{task_id}", headers={"A2A-Version": "1.0"}
    )
    assert whole["status"]["state"] == "TASK_STATE_CANCELED"
    assert "tick" in str(whole["artifacts"])


# The conversation


def test_a_handler_knows_who_asks_and_what_was_said_before(platform: Platform, way: Way) -> None:
    seen: list[tuple[Sender, list[HistoryItem]]] = []

    def handler(message: InboundMessage) -> str:
        seen.append((message.sender, list(message.history)))
        return f"re: {message.text}"

    client, peer = platform.join("agent"), platform.join("peer")
    caller = Caller(platform, client.workspace_id)
    with serving(client, way, handler):
        caller.send("first", contextId="talk")
        caller.send("second", contextId="talk")
        assert peer.ask("agent", "from a peer", context="talk") == "re: from a peer"
        assert peer.ask("agent", "again", "talk") == "re: again"
    person = Sender("person", "admin", seen[0][0].name)
    assert [sender for sender, _ in seen] == [person] * 2 + [Sender("agent", peer.workspace_id, "peer")] * 2
    said = [[(item.role, item.text) for item in history] for _, history in seen]
    assert said == [
        [],
        [("user", "first"), ("agent", "re: first")],
        [],
        [("user", "from a peer"), ("agent", "re: from a peer")],
    ]
    assert seen[1][1][0].parts == ({"text": "first"},)


def test_a_context_of_another_organisation_tells_nothing(platform: Platform, way: Way) -> None:
    seen: list[str] = []

    def handler(message: InboundMessage) -> str:
        seen.append(str(message.history))
        return "noted"

    with platform.new_org(platform.homes / "others") as others:
        here, there = platform.join("agent"), others.join("agent")
        with serving(here, way, handler), serving(there, way, handler):
            Caller(platform, here.workspace_id).send("our secret", contextId="shared")
            Caller(others, there.workspace_id).send("what do you know?", contextId="shared")
    assert seen == ["()", "()"]
