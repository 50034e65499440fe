"""One contract for every A2A server: the gateway (an agent that polls), the SDK's server, the asyncio server.

Each is asked in both versions over both bindings; what an agent can say, the words of its message choose.
"""

import asyncio
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
import requests

from molecule_a2a import AgentApp, Turn
from molecule_agent import A2AServer
from molecule_platform.testing import serving
from molecule_wire.a2a import operations, text
from molecule_wire.a2a.operations import Dialect
from tests.spec.a2a import ASYNC, FRAMINGS, Binding, Caller, Frame, Polled, Problem, polled
from tests.spec.platforms import Platform

SECONDS = 30


class Direct(Caller):
    """Somebody who speaks to an agent's own server, without the platform."""

    @property
    def base(self) -> str:
        return ""


@dataclass(frozen=True)
class OwnServer:
    """An agent's own server, asked as a platform is."""

    url: str

    def call(self, method: str, path: str, token: str | None = None, **request: Any) -> requests.Response:
        """One request."""
        return requests.request(method, self.url + (path or "/"), timeout=SECONDS, **request)


@dataclass
class Server:
    """A server under the contract, and what lets its agent end slow work."""

    make: Callable[[Binding, Dialect], Caller]
    let_go: threading.Event

    def caller(self, binding: Binding = "rpc", dialect: Dialect = "1.0") -> Caller:
        return self.make(binding, dialect)


TALKATIVE = pytest.mark.parametrize("server", ["gateway", "asyncio"], indirect=True)
"""What is given to the SDK's server returns one answer; the others can be told more."""
ON_ASYNCIO = pytest.mark.parametrize("server", ["asyncio"], indirect=True)


# What the agents do


def worked_by_sdk(let_go: threading.Event) -> Callable[[dict[str, Any]], Any]:
    def answer(payload: dict[str, Any]) -> str:
        words = payload["message"]
        if words == "slow":
            let_go.wait(SECONDS)
        if words == "fail":
            raise RuntimeError("not for others")
        return f"re: {words}"

    return answer


async def work(turn: Turn, words: str) -> object:
    """What every agent of the contract does."""
    if words == "fail":
        raise RuntimeError("not for others")
    if words == "reject":
        return turn.reject("not my work")
    if words == "ask":
        return turn.ask("which city?")
    if words == "message":
        return turn.answer("only a message")
    if words == "wrong":
        return {"a": "dict"}
    if words == "artifact":
        turn.artifact({"artifactId": "a", "parts": [{"text": "whole"}]})
    if words == "chunks":
        turn.artifact({"artifactId": "a", "parts": [{"text": "one "}]})
        for chunk in ("two ", "three"):
            turn.artifact({"artifactId": "a", "parts": [{"text": chunk}]}, append=True)
    return f"re: {words}"


def worked_on_asyncio(let_go: threading.Event) -> Callable[[Turn], Any]:
    async def answer(turn: Turn) -> object:
        words = text.text_of_message(turn.message)
        if words == "slow":
            await asyncio.to_thread(let_go.wait, SECONDS)
        return await work(turn, words)

    return answer


class Worker:
    """The agent behind the gateway: takes messages from its inbox, one after the other."""

    def __init__(self, agent: Polled, let_go: threading.Event) -> None:
        self._agent = agent
        self._let_go = let_go
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(SECONDS)

    def _run(self) -> None:
        base = f"/workspaces/{self._agent.id}/inbox"
        while not self._stopped.is_set():
            taken = self._agent.platform.ok("POST", f"{base}/lease", self._agent.token, json={"wait": 1})
            for item in taken["messages"]:
                self._work(item)

    def _work(self, item: dict[str, Any]) -> None:
        words = item["text"]
        if words == "slow":
            self._let_go.wait(SECONDS)
        if words in ("artifact", "chunks"):
            self._artifact(item, ["whole"] if words == "artifact" else ["one ", "two ", "three"])
        if words == "fail":
            return self._post(item, "fail", {"error": "RuntimeError (ref 1)", "retryable": False})
        answers: dict[str, dict[str, Any]] = {
            "reject": {"text": "not my work", "state": "rejected"},
            "ask": {"text": "which city?", "state": "input-required"},
        }
        return self._post(item, "answer", answers.get(words, {"text": f"re: {words}"}))

    def _artifact(self, item: dict[str, Any], chunks: list[str]) -> None:
        for place, chunk in enumerate(chunks):
            artifact = {"artifactId": "a", "parts": [{"text": chunk}], "append": place > 0}
            self._post(item, "progress", {"artifact": artifact})

    def _post(self, item: dict[str, Any], verb: str, body: dict[str, Any]) -> None:
        path = f"/workspaces/{self._agent.id}/inbox/{item['message_id']}/{verb}"
        told = {"lease_token": item["lease"]["token"], **body}
        answer = self._agent.platform.call("POST", path, self._agent.token, json=told)
        # What was called off while it ran is nobody's any more.
        assert answer.status_code in (200, 409), answer.text


# The servers


@contextmanager
def gateway(platform: Platform, let_go: threading.Event) -> Generator[Server]:
    agent = polled(platform)
    worker = Worker(agent, let_go)
    yield Server(lambda binding, dialect: agent.caller(binding, dialect), let_go)
    let_go.set()
    worker.stop()


@contextmanager
def sdk(let_go: threading.Event) -> Generator[Server]:
    with A2AServer("agent-1", "/a2a/inbound", worked_by_sdk(let_go), host="127.0.0.1") as server:
        own = OwnServer(f"http://127.0.0.1:{server.port}")
        yield Server(lambda binding, dialect: Direct(own, "", binding, dialect), let_go)  # type: ignore[arg-type]
        let_go.set()


@contextmanager
def on_asyncio(let_go: threading.Event) -> Generator[Server]:
    app = AgentApp(worked_on_asyncio(let_go), {"name": "async"}, url="http://127.0.0.1/")
    with serving.serving(app) as url:
        own = OwnServer(url)
        yield Server(lambda binding, dialect: Direct(own, "", binding, dialect), let_go)  # type: ignore[arg-type]
        let_go.set()


@pytest.fixture(scope="module", params=["gateway", "sdk", "asyncio"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One of the three."""
    let_go = threading.Event()
    if request.param == "gateway":
        share = request.getfixturevalue("share")
        with (
            share("sqlite", MOLECULE_A2A_HOLD_SECONDS=30).new_org(tmp_path_factory.mktemp("org")) as platform,
            gateway(platform, let_go) as running,
        ):
            yield running
        return
    with sdk(let_go) if request.param == "sdk" else on_asyncio(let_go) as running:
        yield running


@pytest.fixture(params=FRAMINGS, ids=lambda framing: "-".join(framing))
def caller(request: pytest.FixtureRequest, server: Server) -> Caller:
    """Somebody in each version, over each binding."""
    return server.caller(*request.param)


def state_of(task: dict[str, Any]) -> str:
    return task["status"]["state"].removeprefix("TASK_STATE_")


def words_of(status: dict[str, Any]) -> str:
    return text.text_of_message(status["message"])


def numbers(frames: list[Frame]) -> list[int | None]:
    return [frame.id for frame in frames]


# The contract


def test_a_send_is_answered_with_its_task_which_can_be_read_again(caller: Caller) -> None:
    task = caller.send(caller.message("hello"))["task"]
    assert (state_of(task), words_of(task["status"])) == ("COMPLETED", "re: hello")
    assert caller.get(task["id"]) == task
    assert text.text_of_message(task["history"][0]) == "hello"


def test_a_stream_tells_the_task_and_its_updates_numbered_from_one(caller: Caller) -> None:
    frames = caller.stream(caller.message("hello"))
    assert numbers(frames) == list(range(1, len(frames) + 1))
    assert frames[0].kind == "task"
    last = frames[-1].event["statusUpdate"]["status"]
    assert (last["state"], words_of(last)) == ("TASK_STATE_COMPLETED", "re: hello")


def test_a_failure_is_an_outcome_without_the_words_of_the_exception(caller: Caller) -> None:
    task = caller.send(caller.message("fail"))["task"]
    assert state_of(task) == "FAILED"
    assert "RuntimeError" in words_of(task["status"])
    assert "not for others" not in str(task)


def test_what_runs_is_joined_cancelled_and_cannot_be_cancelled_twice(server: Server, caller: Caller) -> None:
    server.let_go.clear()
    task_id = caller.send(caller.message("slow"), **ASYNC)["task"]["id"]
    with caller.subscribing(task_id) as frames:
        assert next(frames).event["task"]["id"] == task_id
        assert state_of(caller.cancel(task_id)) == "CANCELED"
        assert state_of(list(frames)[-1].event["statusUpdate"]) == "CANCELED"
    with pytest.raises(Problem) as refused:
        caller.cancel(task_id)
    assert refused.value.reason == "TASK_NOT_CANCELABLE"
    server.let_go.set()


def test_a_stream_goes_on_after_the_last_event_that_was_seen(caller: Caller) -> None:
    frames = caller.stream(caller.message("hello"))
    task_id = frames[0].event["task"]["id"]
    whole = [(frame.id, frame.event) for frame in frames]
    for seen in range(1, len(frames)):
        shown, *rest = caller.subscribe(task_id, seen)
        assert shown.event["task"]["metadata"] == {"molecule.resumedAfter": seen}
        assert [(frame.id, frame.event) for frame in rest] == whole[seen:]
    for wrong in (len(frames) + 1, "x", "-1"):
        with pytest.raises(Problem) as refused:
            caller.subscribe(task_id, wrong)
        assert refused.value.reason == "INVALID_PARAMS"


def test_tasks_are_listed_page_by_page_and_no_token_can_be_made_up(server: Server) -> None:
    for binding in ("rpc", "rest"):
        caller = server.caller(binding)
        made = [caller.send(caller.message(f"{n}"))["task"]["id"] for n in range(3)]
        first = caller.list(pageSize=2)
        second = caller.list(pageSize=2, pageToken=first["nextPageToken"])
        assert [task["id"] for task in [*first["tasks"], *second["tasks"]]][:3] == made[::-1]
        for token in ("AAAA", "é", first["nextPageToken"][:-4] + "AAAA"):
            with pytest.raises(Problem) as refused:
                caller.list(pageToken=token)
            assert refused.value.reason == "INVALID_PARAMS"


def test_what_is_unknown_or_wrong_is_an_error_of_the_protocol(caller: Caller) -> None:
    for operation in (operations.GET, operations.CANCEL):
        with pytest.raises(Problem) as refused:
            caller.result(operation, {"id": "nobody"})
        assert refused.value.reason == "TASK_NOT_FOUND"
    with pytest.raises(Problem) as refused:
        caller.send({"messageId": "m", "role": "ROLE_USER", "parts": []})
    assert refused.value.reason == "INVALID_PARAMS"
    with pytest.raises(Problem) as refused:
        caller.send(caller.message("more", taskId="nobody"))
    assert refused.value.reason == "TASK_NOT_FOUND"


def test_joining_an_unknown_task_is_an_error_that_each_client_reads(caller: Caller) -> None:
    with pytest.raises(Problem) as refused:
        caller.subscribe("nobody")
    assert refused.value.reason == "TASK_NOT_FOUND"
    media = caller.ask(operations.SUBSCRIBE, {"id": "nobody"}, stream=True).headers["Content-Type"]
    is_old_rpc = (caller.binding, caller.dialect) == ("rpc", "0.3")
    assert media == ("text/event-stream" if is_old_rpc else "application/json")


def test_a_request_without_an_id_is_judged_by_its_method_and_params_first(server: Server) -> None:
    caller = server.caller()

    def code(**envelope: Any) -> int:
        body = {"jsonrpc": "2.0", **envelope}
        answer = caller.platform.call("POST", caller.base, json=body, headers={"A2A-Version": "1.0"})
        return answer.json()["error"]["code"]

    assert code(method="NoSuchMethod", params={}) == -32601
    assert code(method="GetTask", params={}) == -32602
    assert code(method="GetTask", params={"id": "nobody"}) == -32600


def test_a_repeated_key_finds_the_first_task_and_another_message_is_refused(caller: Caller) -> None:
    key = {"Idempotency-Key": f"k-{uuid4()}"}
    message = caller.message("hello")
    first = caller.send(message, headers=key)["task"]
    assert caller.send(message, headers=key)["task"]["id"] == first["id"]
    with pytest.raises(Problem) as refused:
        caller.send(caller.message("other"), headers=key)
    assert refused.value.status == 409


# What an agent can say


@TALKATIVE
def test_a_question_is_answered_by_the_next_message_of_the_task(caller: Caller) -> None:
    task = caller.send(caller.message("ask"))["task"]
    assert (state_of(task), words_of(task["status"])) == ("INPUT_REQUIRED", "which city?")
    done = caller.send(caller.message("Paris", taskId=task["id"], contextId=task["contextId"]))["task"]
    assert (done["id"], state_of(done), words_of(done["status"])) == (task["id"], "COMPLETED", "re: Paris")
    said = [text.text_of_message(message) for message in caller.get(task["id"])["history"]]
    assert said == ["ask", "which city?", "Paris"]
    with pytest.raises(Problem) as refused:
        caller.send(caller.message("more", taskId=task["id"]))
    assert refused.value.reason == "UNSUPPORTED_OPERATION"


@TALKATIVE
def test_the_same_question_twice_is_told_twice(caller: Caller) -> None:
    task = caller.send(caller.message("ask"))["task"]
    again = caller.stream(caller.message("ask", taskId=task["id"], contextId=task["contextId"]))
    last = again[-1].event["statusUpdate"]["status"]
    assert (last["state"], words_of(last)) == ("TASK_STATE_INPUT_REQUIRED", "which city?")


@TALKATIVE
@pytest.mark.parametrize("words", ["artifact", "chunks"])
def test_artifacts_come_whole_and_in_pieces(caller: Caller, words: str) -> None:
    task = caller.send(caller.message(words))["task"]
    [artifact] = task["artifacts"]
    told = "".join(part["text"] for part in artifact["parts"])
    assert told == {"artifact": "whole", "chunks": "one two three"}[words]
    frames = caller.stream(caller.message(words))
    updates = [frame.event["artifactUpdate"] for frame in frames if frame.kind == "artifactUpdate"]
    assert "".join(part["text"] for one in updates for part in one["artifact"]["parts"]) == told
    assert numbers(frames) == list(range(1, len(frames) + 1))


@TALKATIVE
def test_a_rejection_is_an_outcome_of_its_own(caller: Caller) -> None:
    task = caller.send(caller.message("reject"))["task"]
    assert (state_of(task), words_of(task["status"])) == ("REJECTED", "not my work")


@ON_ASYNCIO
def test_a_message_stays_a_message(caller: Caller) -> None:
    message = caller.send(caller.message("message"))["message"]
    assert text.text_of_message(message) == "only a message"


@ON_ASYNCIO
def test_a_wrong_type_is_a_failure_that_names_the_handler_and_the_type(caller: Caller) -> None:
    task = caller.send(caller.message("wrong"))["task"]
    assert state_of(task) == "FAILED"
    assert "answer" in words_of(task["status"])
    assert "dict" in words_of(task["status"])
