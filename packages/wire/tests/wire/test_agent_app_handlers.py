"""Handlers of the asyncio server, as authors write them."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from molecule_a2a import AgentApp, Answer, Fail, NeedInput, Turn
from molecule_wire import answers


async def ask(app: AgentApp, method: str = "SendMessage", **names: str) -> httpx.Response:
    said: Any = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}], **names}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": said}}
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        return await client.post("/", json=body, headers={"A2A-Version": "1.0"}, timeout=20)


def app_of(handler: Any, **options: Any) -> AgentApp:
    return AgentApp(handler, {"name": "a"}, url="http://127.0.0.1/", **options)


async def task_of(handler: Any, **names: str) -> Any:
    return (await ask(app_of(handler), **names)).json()["result"]["task"]


def text_of(task: Any) -> str:
    return "".join(part["text"] for part in task["status"]["message"]["parts"])


def function(turn: Turn) -> str:
    time.sleep(0.01)
    return "hello"


async def coroutine(turn: Turn) -> str:
    return "hello"


def generator(turn: Turn) -> Iterator[str]:
    yield "he"
    yield "llo"


async def async_generator(turn: Turn) -> AsyncIterator[str]:
    yield "he"
    await asyncio.sleep(0)
    yield "llo"


def answer(turn: Turn) -> Answer:
    return Answer("hello")


def parts(turn: Turn) -> list[Any]:
    return [{"text": "hello"}]


def returning_a_coroutine(turn: Turn) -> Any:
    return coroutine(turn)


def with_an_artifact(turn: Turn) -> Answer:
    return Answer("see", artifacts=[{"name": "n", "parts": [{"text": "x"}]}])


class Callable:
    async def __call__(self, turn: Turn) -> str:
        return "hello"


@pytest.mark.parametrize(
    "handler",
    [
        function,
        coroutine,
        generator,
        async_generator,
        answer,
        parts,
        Callable(),
        returning_a_coroutine,
    ],
)
async def test_each_form_gives_the_same_answer(handler: Any) -> None:
    task = await task_of(handler)
    assert (task["status"]["state"], text_of(task)) == ("TASK_STATE_COMPLETED", "hello")
    made = [part["text"] for artifact in task.get("artifacts", []) for part in artifact["parts"]]
    assert "".join(made) in ("", "hello")


async def test_artifacts_of_an_answer_are_told() -> None:
    task = await task_of(with_an_artifact)
    assert [(one["name"], one["artifactId"]) for one in task["artifacts"]] == [("n", "artifact-1")]


async def test_a_question_waits_for_the_next_message_of_the_task() -> None:
    async def weather(turn: Turn) -> str:
        if "taskId" not in turn.message:
            raise NeedInput("which city?")
        return "sun"

    app = app_of(weather)
    asked = (await ask(app)).json()["result"]["task"]
    assert (asked["status"]["state"], text_of(asked)) == ("TASK_STATE_INPUT_REQUIRED", "which city?")
    done = (await ask(app, taskId=asked["id"])).json()["result"]["task"]
    assert (done["status"]["state"], text_of(done)) == ("TASK_STATE_COMPLETED", "sun")


async def test_a_failure_is_told_in_its_words_and_one_that_may_pass_as_busy() -> None:
    def fails(turn: Turn) -> str:
        raise Fail("no customer 17")

    task = await task_of(fails)
    assert (task["status"]["state"], text_of(task)) == ("TASK_STATE_FAILED", "no customer 17")

    async def again(turn: Turn) -> str:
        raise Fail("closed", retry=True)

    assert (await ask(app_of(again))).status_code == 503


def broken(turn: Turn) -> Iterator[str]:
    yield "once upon"
    raise OSError("secret")


def numbers(turn: Turn) -> Iterator[Any]:
    yield "one"
    yield 2


async def endless(turn: Turn) -> AsyncIterator[str]:
    while True:
        yield "and so on"


@pytest.mark.parametrize(
    ("handler", "sentence"),
    [
        (broken, "internal error: OSError (ref "),
        (numbers, "the handler numbers yielded a value of type int, where only str can be sent"),
        (endless, "the handler endless yielded more than 1000 characters"),
    ],
)
async def test_what_goes_wrong_midway_keeps_the_pieces_and_fails(
    handler: Any, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "MAX_STREAMED_CHARACTERS", 1000)
    task = await task_of(handler)
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert sentence in text_of(task)
    assert "secret" not in str(task)
    assert task["artifacts"][0]["parts"]


async def test_pieces_are_told_while_they_are_made_and_together_when_they_are_many() -> None:
    async def many(turn: Turn) -> AsyncIterator[str]:
        for number in range(3000):
            yield f"{number} "
            await asyncio.sleep(0)

    told = (await ask(app_of(many), "SendStreamingMessage")).text
    events = [json.loads(line[6:])["result"] for line in told.splitlines() if line.startswith("data: ")]
    pieces = [event["artifactUpdate"] for event in events if "artifactUpdate" in event]
    assert [piece.get("append", False) for piece in pieces[:2]] == [False, True]
    whole = "".join(part["text"] for piece in pieces for part in piece["artifact"]["parts"])
    assert whole == "".join(f"{number} " for number in range(3000))
    assert len(pieces) < 200


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_a_cancel_ends_a_generator(kind: str) -> None:
    ended, began = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    async def ticks(turn: Turn) -> AsyncIterator[str]:
        try:
            while True:
                yield "tick"
                began.set()
                await asyncio.sleep(0.01)
        finally:
            ended.set()

    def plain_ticks(turn: Turn) -> Iterator[str]:
        try:
            while True:
                yield "tick"
                loop.call_soon_threadsafe(began.set)
                time.sleep(0.01)
        finally:
            loop.call_soon_threadsafe(ended.set)

    turns: list[Turn] = []

    def handler(turn: Turn) -> Any:
        turns.append(turn)
        return ticks(turn) if kind == "async" else plain_ticks(turn)

    asking = asyncio.create_task(ask(app_of(handler)))
    async with asyncio.timeout(10):
        await began.wait()
        turns[0].cancel()
        task = (await asking).json()["result"]["task"]
        assert task["status"]["state"] == "TASK_STATE_CANCELED"
        await ended.wait()
