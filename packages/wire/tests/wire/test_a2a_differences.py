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
