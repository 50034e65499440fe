"""Reading answers: which are valid, which are understood all the same, and which are refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from molecule_platform.agents import event_parser, response_parser
from molecule_platform.ports.agents import AgentEvent, Completed, DeliveryFailed, InProgress
from molecule_wire.a2a import text
from molecule_wire.a2a.operations import Dialect
from molecule_wire.a2a.tasks import EventRefused
from tests.rows import each_row

if TYPE_CHECKING:
    from packages.platform.tests.conftest import MakeMessage

SAID = {"messageId": "a", "role": "ROLE_AGENT", "parts": [{"text": "hi"}]}
OLD_SAID = {"kind": "message", "messageId": "a", "role": "agent", "parts": [{"kind": "text", "text": "hi"}]}
DONE = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}
OLD_DONE = {"kind": "task", "id": "t", "contextId": "c", "status": {"state": "completed"}}


def without(holder: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in holder.items() if name not in names}


def state(told: Any, task: dict[str, Any] = DONE) -> dict[str, Any]:
    return {**task, "status": {"state": told}}


INVALID: list[tuple[Any, Dialect]] = [
    ({"task": without(DONE, "id")}, "1.0"),
    ({"task": {**DONE, "id": ""}}, "1.0"),
    ({"task": {**DONE, "id": 5}}, "1.0"),
    ({"task": {**DONE, "id": "x" * 600}}, "1.0"),
    ({"task": without(DONE, "status")}, "1.0"),
    ({"task": {**DONE, "status": "completed"}}, "1.0"),
    ({"task": {**DONE, "status": {}}}, "1.0"),
    ({"task": state("TASK_STATE_UNSPECIFIED")}, "1.0"),
    ({"task": state("TASK_STATE_DREAMING")}, "1.0"),
    ({"task": state("completed")}, "1.0"),
    ({"task": state(None)}, "1.0"),
    ({"task": {**DONE, "artifacts": {"a": 1}}}, "1.0"),
    ({"task": {**DONE, "artifacts": [{"parts": []}]}}, "1.0"),
    ({"task": {**DONE, "history": "long"}}, "1.0"),
    ({"task": DONE, "message": SAID}, "1.0"),
    ({"task": {}}, "1.0"),
    ({"message": without(SAID, "messageId")}, "1.0"),
    ({"message": {**SAID, "messageId": ""}}, "1.0"),
    ({"message": without(SAID, "role")}, "1.0"),
    ({"message": without(SAID, "parts")}, "1.0"),
    ({"message": {**SAID, "parts": []}}, "1.0"),
    ({"message": {**SAID, "parts": [{}]}}, "1.0"),
    ({"message": {}}, "1.0"),
    (state("TASK_STATE_UNSPECIFIED"), "1.0"),
    (without(DONE, "id"), "1.0"),
    ({**DONE, "status": {}}, "1.0"),
    (without(OLD_DONE, "id"), "0.3"),
    (without(OLD_DONE, "status"), "0.3"),
    ({**OLD_DONE, "status": {}}, "0.3"),
    (state("unknown", OLD_DONE), "0.3"),
    (state("dreaming", OLD_DONE), "0.3"),
    ({**OLD_DONE, "artifacts": "none"}, "0.3"),
    ({"task": without(DONE, "id")}, "0.3"),
    (without(OLD_DONE, "kind", "id"), "0.3"),
]


def read(
    make_message: MakeMessage, result: Any, asked: Dialect, callers: str = "1.0", status: int = 200
) -> Completed | InProgress | DeliveryFailed | AgentEvent:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode()
    return response_parser.read(status, {}, body, make_message(dialect=callers), asked)


@each_row(("result", "asked"), INVALID)
def test_an_answer_that_is_meant_for_a2a_and_is_not_valid_is_refused(
    make_message: MakeMessage, result: Any, asked: Dialect
) -> None:
    answer = read(make_message, result, asked)
    assert isinstance(answer, DeliveryFailed), answer
    assert (answer.code, answer.retryable, answer.delivery_confirmed) == (
        "invalid-agent-response",
        False,
        True,
    )


def test_a_promise_that_names_no_valid_task_is_refused(make_message: MakeMessage) -> None:
    answer = read(make_message, {"task": {**DONE, "id": ""}}, "1.0", status=202)
    assert isinstance(answer, DeliveryFailed)
    assert "malformed-event" in answer.sentence


@each_row("callers", ["1.0", "0.3"])
@each_row("asked", ["1.0", "0.3"])
@each_row("result", [{"task": DONE}, OLD_DONE, DONE, without(OLD_DONE, "kind"), {**DONE, "kind": "task"}])
def test_a_task_is_known_by_its_shape_and_told_in_the_caller_s_dialect(
    make_message: MakeMessage, result: Any, asked: Dialect, callers: str
) -> None:
    answer = read(make_message, result, asked, callers)
    assert isinstance(answer, Completed)
    assert (answer.task_state, answer.agent_task_id) == ("completed", "t")
    told = json.loads(answer.result or b"")
    if callers == "1.0":
        assert told["task"]["status"] == DONE["status"]
    else:
        assert told == OLD_DONE


@each_row("callers", ["1.0", "0.3"])
@each_row(
    ("result", "asked"),
    [
        ({"message": SAID}, "1.0"),
        ({"message": SAID}, "0.3"),
        (OLD_SAID, "0.3"),
        (OLD_SAID, "1.0"),
        (without(OLD_SAID, "messageId"), "0.3"),
        (without(OLD_SAID, "kind", "role"), "0.3"),
        ({"parts": [{"type": "text", "text": "hi"}], "status": "ok"}, "0.3"),
        ({"kind": "message", "text": "hi"}, "0.3"),
        ({"message": {"parts": [{"text": "hi"}]}}, "0.3"),
        ({"message": {"text": "hi"}}, "0.3"),
        ({"message": "hi"}, "1.0"),
        ("hi", "1.0"),
        ({"reply": "hi", "status": {"code": 3}}, "0.3"),
        ({"status": {"message": {"parts": [{"text": "hi"}]}}}, "0.3"),
        ({"artifacts": [{"parts": [{"text": "hi"}]}]}, "0.3"),
    ],
)
def test_a_message_however_sloppy_is_told_whole_in_the_caller_s_dialect(
    make_message: MakeMessage, result: Any, asked: Dialect, callers: str
) -> None:
    answer = read(make_message, result, asked, callers)
    assert isinstance(answer, Completed)
    assert answer.task_state == "completed"
    told = json.loads(answer.result or b"")
    said = told["message"] if callers == "1.0" else told
    assert said["messageId"]
    if callers == "1.0":
        assert (said["role"], said["parts"]) == ("ROLE_AGENT", [{"text": "hi"}])
    else:
        assert (said["kind"], said["role"]) == ("message", "agent")
        assert text.text_of_message(said) == "hi"


@pytest.mark.parametrize("result", [{"status": "ok"}, {"id": 7, "status": {"code": 3}}, {"status": "queued"}])
def test_plain_json_with_a_status_of_its_own_is_data(make_message: MakeMessage, result: Any) -> None:
    answer = read(make_message, result, "0.3")
    assert isinstance(answer, Completed)
    assert json.loads(answer.result or b"")["message"]["parts"] == [{"data": result}]
    assert read(make_message, result, "0.3", status=202) == InProgress(None)


@pytest.mark.parametrize("told", ["TASK_STATE_UNSPECIFIED", "TASK_STATE_DREAMING", "working", ""])
def test_an_event_in_no_state_is_refused(told: str) -> None:
    update = {"taskId": "t", "contextId": "c", "status": {"state": told}}
    with pytest.raises(EventRefused) as refused:
        event_parser.read(json.dumps({"statusUpdate": update}).encode(), "1.0")
    assert refused.value.event_reason == "unknown-state"
    old = {**update, "kind": "status-update", "status": {"state": "unknown"}}
    with pytest.raises(EventRefused):
        event_parser.read(json.dumps(old).encode(), "0.3")


@pytest.mark.parametrize("name", ["messageId", "role", "parts"])
def test_a_message_of_a_stream_is_whole(name: str) -> None:
    assert event_parser.read(json.dumps({"message": SAID}).encode(), "1.0").kind == "message"
    with pytest.raises(EventRefused) as refused:
        event_parser.read(json.dumps({"message": without(SAID, name)}).encode(), "1.0")
    assert refused.value.event_reason == "malformed-event"


@pytest.mark.parametrize(
    "odd",
    [
        b'{"a":NaN}',
        b'{"a":1e999}',
        b'"\\ud800"',
        b'"\xff"',
        b"\xef\xbb\xbf{}",
        b"[" * 300 + b"]" * 300,
        b'{"a":' + b"1" * 5000 + b"}",
    ],
)
def test_no_answer_is_read_that_is_no_strict_json(make_message: MakeMessage, odd: bytes) -> None:
    media = {"content-type": "application/json"}
    answer = response_parser.read(200, media, odd, make_message(dialect="1.0"), "1.0")
    assert isinstance(answer, DeliveryFailed)
    assert answer.sentence.startswith("the agent's answer cannot be read: ")


@pytest.mark.parametrize("blank", [b"", b" \r\n"])
def test_nothing_at_all_is_a_message_without_words(make_message: MakeMessage, blank: bytes) -> None:
    answer = response_parser.read(200, {}, blank, make_message(dialect="1.0"), "1.0")
    assert isinstance(answer, Completed)
    assert json.loads(answer.result or b"")["message"]["parts"] == [{"text": ""}]


def test_numbers_of_any_length_pass_as_they_came(make_message: MakeMessage) -> None:
    digits = 12345678901234567890123456789
    answer = read(make_message, {"kind": "message", **OLD_SAID, "metadata": {"n": digits}}, "0.3")
    assert isinstance(answer, Completed)
    assert str(digits).encode() in (answer.result or b"")
