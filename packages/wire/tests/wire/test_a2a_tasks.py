"""Task states and folding of events."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_wire import JSONObject
from molecule_wire.a2a import errors, tasks
from tests.rows import each_row

MESSAGE: JSONObject = {"messageId": "m1", "role": "ROLE_AGENT", "parts": [{"text": "hi"}]}


def _task(state: str = "WORKING", **members: Any) -> JSONObject:
    return {"id": "t1", "contextId": "c1", "status": {"state": f"TASK_STATE_{state}"}, **members}


def _status(state: str, **members: Any) -> JSONObject:
    update: JSONObject = {
        "taskId": "t1",
        "contextId": "c1",
        "status": {"state": f"TASK_STATE_{state}"},
        **members,
    }
    return {"statusUpdate": update}


def _chunk(text: str, *, artifact: dict[str, Any] | None = None, **members: Any) -> JSONObject:
    body: JSONObject = {"artifactId": "a1", "parts": [{"text": text}], **(artifact or {})}
    return {"artifactUpdate": {"taskId": "t1", "contextId": "c1", "artifact": body, **members}}


def _folded(*events: JSONObject) -> JSONObject:
    current: JSONObject | None = None
    for event in events:
        current = tasks.fold(current, event)
    assert current is not None
    return current


def _refusal(*events: JSONObject) -> str:
    *before, last = events
    current = _folded(*before) if before else None
    with pytest.raises(tasks.EventRefused) as caught:
        tasks.fold(current, last)
    assert caught.value.code == errors.INVALID_AGENT_RESPONSE.code
    assert caught.value.metadata == {"event_reason": caught.value.event_reason}
    return caught.value.event_reason


def test_states_are_open_interrupted_or_terminal() -> None:
    assert {state.name for state in tasks.TERMINAL} == {"COMPLETED", "FAILED", "CANCELED", "REJECTED"}
    assert {state.name for state in tasks.INTERRUPTED} == {"INPUT_REQUIRED", "AUTH_REQUIRED"}
    assert tasks.TaskState.UNSPECIFIED not in tasks.STATES
    assert all(not tasks.TRANSITIONS[state] for state in tasks.TERMINAL)
    assert all(tasks.TRANSITIONS[state] == tasks.STATES for state in tasks.STATES - tasks.TERMINAL)


@pytest.mark.parametrize(
    ("state", "settled"),
    [
        ("SUBMITTED", False),
        ("WORKING", False),
        ("INPUT_REQUIRED", True),
        ("AUTH_REQUIRED", True),
        ("FAILED", True),
    ],
)
def test_a_task_is_settled_when_it_ends_or_waits_for_its_caller(state: str, settled: bool) -> None:
    assert tasks.is_settled(_task(state)) is settled


def test_a_stream_may_be_one_message() -> None:
    assert _folded({"message": MESSAGE}) == MESSAGE


def test_the_last_status_counts_and_what_was_said_before_is_history() -> None:
    said = {"messageId": "m2", "role": "ROLE_AGENT", "parts": [{"text": "half"}]}
    working = {"state": "TASK_STATE_WORKING", "message": said}
    task = _folded(
        {"task": _task("SUBMITTED", history=[MESSAGE], metadata={"a": 1})},
        _status("WORKING", status=working, metadata={"b": 2}),
        _status("COMPLETED", metadata={"a": 3}),
    )
    assert task == _task("COMPLETED", history=[MESSAGE, said], metadata={"a": 3, "b": 2})


def test_an_interrupted_task_continues() -> None:
    task = _folded({"task": _task("INPUT_REQUIRED")}, _status("WORKING"), _status("AUTH_REQUIRED"))
    assert tasks.state_of(task) is tasks.TaskState.AUTH_REQUIRED


def test_chunks_are_joined_into_one_artifact() -> None:
    task = _folded(
        {"task": _task()},
        _chunk("he", artifact={"name": "greeting", "metadata": {"a": 1}}),
        _chunk("ll", append=True),
        _chunk("o", append=True, lastChunk=True, artifact={"metadata": {"b": 2}}, metadata={"n": 3}),
    )
    artifact = {
        "artifactId": "a1",
        "name": "greeting",
        "parts": [{"text": "he"}, {"text": "ll"}, {"text": "o"}],
        "metadata": {"a": 1, "b": 2},
    }
    assert task == _task(artifacts=[artifact], metadata={"n": 3})


def test_an_artifact_sent_again_replaces_the_first() -> None:
    other = _chunk("x", artifact={"artifactId": "a2"})
    task = _folded({"task": _task(artifacts=["broken"])}, _chunk("one"), other, _chunk("two", append=False))
    assert task["artifacts"] == [
        "broken",
        {"artifactId": "a1", "parts": [{"text": "two"}]},
        {"artifactId": "a2", "parts": [{"text": "x"}]},
    ]


def test_a_new_snapshot_replaces_what_it_holds() -> None:
    task = _folded({"task": _task(history=[MESSAGE])}, {"task": _task("COMPLETED", artifacts=[])})
    assert task == _task("COMPLETED", history=[MESSAGE], artifacts=[])


def test_a_task_without_a_context_takes_events_that_name_one() -> None:
    bare: JSONObject = {"id": "t1", "status": {"state": "TASK_STATE_WORKING"}}
    assert tasks.state_of(_folded({"task": bare}, _status("COMPLETED"))) is tasks.TaskState.COMPLETED


BROKEN_ORDERS: list[tuple[list[JSONObject], str]] = [
    ([{}], "malformed-event"),
    ([{"task": _task(), "message": MESSAGE}], "malformed-event"),
    ([{"task": "t1"}], "malformed-event"),
    ([{"task": {"id": "", "status": {"state": "TASK_STATE_WORKING"}}}], "malformed-event"),
    ([{"task": {"status": {"state": "TASK_STATE_WORKING"}}}], "malformed-event"),
    ([{"task": {"id": "t1"}}], "unknown-state"),
    ([{"task": _task("UNSPECIFIED")}], "unknown-state"),
    ([{"task": _task("DANCING")}], "unknown-state"),
    ([_status("WORKING")], "task-missing"),
    ([_chunk("x")], "task-missing"),
    ([{"message": MESSAGE}, {"message": MESSAGE}], "second-message"),
    ([{"message": MESSAGE}, {"task": _task()}], "event-after-message"),
    ([{"task": _task()}, {"message": MESSAGE}], "message-after-task"),
    ([{"task": _task("COMPLETED")}, _status("COMPLETED")], "event-after-terminal"),
    ([{"task": _task("CANCELED")}, _chunk("x")], "event-after-terminal"),
    ([{"task": _task()}, _status("FAILED"), {"task": _task()}], "event-after-terminal"),
    ([{"task": _task()}, _status("WORKING", taskId="t2")], "foreign-task"),
    ([{"task": _task()}, {"task": {**_task(), "id": "t2"}}], "foreign-task"),
    ([{"task": _task()}, _chunk("x", contextId="c2")], "foreign-context"),
    ([{"task": _task()}, _status("DANCING")], "unknown-state"),
    ([{"task": _task()}, _chunk("x", append=True)], "append-to-unknown-artifact"),
    ([{"task": _task()}, _chunk("x", artifact={"artifactId": None})], "malformed-event"),
    ([{"task": _task()}, {"artifactUpdate": {"taskId": "t1"}}], "malformed-event"),
]


@each_row(("events", "reason"), BROKEN_ORDERS)
def test_a_broken_order_of_events_is_refused_by_name(events: list[JSONObject], reason: str) -> None:
    assert _refusal(*events) == reason


EVENTS = st.one_of(
    st.sampled_from([state.name for state in tasks.TaskState]).map(_status),
    st.sampled_from([state.name for state in tasks.TaskState]).map(lambda state: {"task": _task(state)}),
    st.builds(_chunk, st.text(max_size=3), append=st.booleans()),
    st.just({"message": MESSAGE}),
)


@given(st.lists(EVENTS, max_size=8))
def test_folding_never_leaves_a_terminal_state_nor_changes_what_it_was_given(
    events: list[JSONObject],
) -> None:
    current: JSONObject | None = None
    for event in events:
        before = copy.deepcopy((current, event))
        ended = current is not None and ("status" not in current or tasks.state_of(current) in tasks.TERMINAL)
        try:
            folded = tasks.fold(current, event)
        except tasks.EventRefused:
            folded = current
        else:
            assert not ended
        assert (current, event) == before
        current = folded
