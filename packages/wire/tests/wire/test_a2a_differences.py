"""A reader that lost its stream goes on from a snapshot as if it had not."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from molecule_wire.a2a import differences, tasks

STATES = ["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_COMPLETED"]


def _part(text: str) -> dict[str, Any]:
    return {"text": text}


def _message(said: list[Any]) -> dict[str, Any]:
    return {"messageId": "m", "role": "ROLE_AGENT", "parts": said}


parts: st.SearchStrategy[list[Any]] = st.lists(st.builds(_part, st.text(max_size=3)), min_size=1, max_size=3)
messages: st.SearchStrategy[Any] = st.none() | st.builds(_message, parts)


@st.composite
def snapshots(draw: st.DrawFn) -> dict[str, Any]:
    status: dict[str, Any] = {"state": draw(st.sampled_from(STATES))}
    said = draw(messages)
    if said is not None:
        status["message"] = said
    names = draw(st.lists(st.sampled_from("abc"), unique=True))
    artifacts = [{"artifactId": name, "parts": draw(parts)} for name in names]
    return {"id": "t", "contextId": "c", "status": status, "artifacts": artifacts}


def said_of(task: dict[str, Any]) -> tuple[Any, ...]:
    artifacts = {artifact["artifactId"]: artifact["parts"] for artifact in task.get("artifacts", [])}
    return task["status"]["state"], task["status"].get("message"), artifacts


@given(known=snapshots(), later=snapshots())
def test_the_difference_makes_the_known_task_into_the_snapshot(
    known: dict[str, Any], later: dict[str, Any]
) -> None:
    known["status"]["state"] = "TASK_STATE_WORKING"
    folded: Any = known
    for event in differences.difference(known, later):
        folded = tasks.fold(folded, event)
    state, message, artifacts = said_of(folded)
    assert (state, message) == said_of(later)[:2]
    assert artifacts | said_of(later)[2] == artifacts


@given(task=snapshots())
def test_the_same_task_again_says_nothing_new(task: dict[str, Any]) -> None:
    assert differences.difference(task, task) == []


@given(task=snapshots())
def test_a_status_that_was_said_again_is_told_again(task: dict[str, Any]) -> None:
    update = {"taskId": "t", "contextId": "c", "status": task["status"]}
    assert differences.difference(task, task, again=True) == [{"statusUpdate": update}]


def _chunk(number: int, append: bool) -> dict[str, Any]:
    artifact = {"artifactId": "a", "parts": [_part(str(number))]}
    return {"artifactUpdate": {"taskId": "t", "contextId": "c", "artifact": artifact, "append": append}}


def _status(number: int) -> dict[str, Any]:
    said = {"state": "TASK_STATE_WORKING", "message": _message([_part(str(number))])}
    return {"statusUpdate": {"taskId": "t", "contextId": "c", "status": said}}


@given(kinds=st.lists(st.sampled_from(["chunk", "status"]), max_size=8), data=st.data())
def test_events_that_a_snapshot_shows_already_are_found_and_no_others(
    kinds: list[str], data: st.DataObject
) -> None:
    log: list[Any] = [{"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_SUBMITTED"}}}]
    log.append(_chunk(0, append=False))
    log += [_chunk(n, append=True) if kind == "chunk" else _status(n) for n, kind in enumerate(kinds, 1)]
    subscribed = data.draw(st.integers(2, len(log)))
    read = data.draw(st.integers(subscribed, len(log)))
    snapshot: Any = None
    for event in log[:read]:
        snapshot = tasks.fold(snapshot, event)
    assert list(differences.unseen(snapshot, log[subscribed:])) == log[read:]


def test_a_new_artifact_is_in_a_snapshot_only_as_a_whole() -> None:
    status = {"state": "TASK_STATE_WORKING"}
    artifacts: list[Any] = [{"artifactId": "a", "parts": [_part("0"), _part("1")]}]
    snapshot: dict[str, Any] = {"id": "t", "contextId": "c", "status": status, "artifacts": artifacts}
    again = [_chunk(1, append=False)]
    assert differences.unseen(snapshot, again) == again
    assert differences.unseen(snapshot, [_chunk(0, append=False), _chunk(1, append=True)]) == []


def test_an_artifact_that_grew_is_told_by_what_was_added() -> None:
    known: dict[str, Any] = {
        "id": "t",
        "contextId": "c",
        "status": {"state": "TASK_STATE_WORKING"},
        "artifacts": [{"artifactId": "a", "parts": [{"text": "one"}]}],
    }
    grown: dict[str, Any] = {
        **known,
        "artifacts": [{"artifactId": "a", "parts": [{"text": "one"}, {"text": "two"}]}],
    }
    found: list[Any] = list(differences.difference(known, grown))
    (event,) = found
    assert event["artifactUpdate"] == {
        "taskId": "t",
        "contextId": "c",
        "artifact": {"artifactId": "a", "parts": [{"text": "two"}]},
        "append": True,
    }


def test_what_the_user_said_meanwhile_is_told_with_the_whole_task() -> None:
    said: list[Any] = [{"messageId": name, "role": "ROLE_USER", "parts": [_part(name)]} for name in "xy"]
    artifacts: list[Any] = [{"artifactId": name, "parts": [_part(name)]} for name in "ab"]
    known: dict[str, Any] = {
        "id": "t",
        "contextId": "c",
        "status": {"state": "TASK_STATE_INPUT_REQUIRED"},
        "history": said[:1],
        "artifacts": artifacts[:1],
    }
    done = {"state": "TASK_STATE_COMPLETED"}
    later: dict[str, Any] = {**known, "status": done, "history": said, "artifacts": artifacts[1:]}
    found: list[Any] = list(differences.difference(known, later))
    (event,) = found
    assert event == {"task": {**later, "artifacts": artifacts}}
    assert tasks.fold(known, event) == event["task"]
    assert differences.difference({**later, "artifacts": artifacts}, later) == []
