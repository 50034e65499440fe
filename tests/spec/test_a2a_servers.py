"""One contract for every A2A server: the gateway (an agent that polls), the SDK's server, the asyncio server.

Each is asked in both versions over both bindings; what an agent can say, the words of its message choose.
"""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from molecule_wire.a2a import operations, text
from tests.spec import a2a_servers
from tests.spec.a2a import ASYNC, FRAMINGS, Caller, Frame, Problem
from tests.spec.a2a_servers import Server
from tests.spec.platforms import Share

TALKATIVE = pytest.mark.parametrize("server", ["gateway", "asyncio"], indirect=True)
"""What is given to the SDK's server returns one answer; the others can be told more."""
ON_ASYNCIO = pytest.mark.parametrize("server", ["asyncio"], indirect=True)


@pytest.fixture(scope="module", params=a2a_servers.KINDS)
def server(
    request: pytest.FixtureRequest, share: Share, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """One of the three."""
    with a2a_servers.running(request.param, share, tmp_path_factory.mktemp("org")) as server:
        yield server


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
