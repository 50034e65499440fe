"""Folding many events at once gives what folding them one by one gives."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from molecule_platform.domain import task_folding
from molecule_wire import JSONObject
from molecule_wire.a2a import tasks as machine

TASK: JSONObject = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}

metadata = st.none() | st.just("odd") | st.dictionaries(st.sampled_from("xy"), st.integers(0, 3))
parts = st.none() | st.just("odd") | st.lists(st.integers(0, 9).map(lambda n: {"text": str(n)}), max_size=3)


@st.composite
def chunks(draw: st.DrawFn) -> JSONObject:
    artifact: dict[str, Any] = {"artifactId": draw(st.sampled_from(["a", "b", 7]))}
    for name, values in (("parts", parts), ("metadata", metadata), ("name", st.none() | st.just("n"))):
        value = draw(values)
        artifact |= {} if value is None else {name: value}
    update: dict[str, Any] = {"taskId": draw(st.sampled_from(["t", "t", "t", "u"])), "artifact": artifact}
    update |= {"append": True} if draw(st.booleans()) else {}
    for name, values in (("contextId", st.sampled_from([None, "c", "d"])), ("metadata", metadata)):
        value = draw(values)
        update |= {} if value is None else {name: value}
    return {"artifactUpdate": update}


@st.composite
def others(draw: st.DrawFn) -> JSONObject:
    state = draw(st.sampled_from(["TASK_STATE_WORKING", "TASK_STATE_COMPLETED", "TASK_STATE_UNSPECIFIED"]))
    update: JSONObject = {"taskId": "t", "contextId": "c", "status": {"state": state}}
    return draw(st.sampled_from([{"statusUpdate": update}, {"task": TASK}, {"artifactUpdate": 1}, {}]))


@given(st.none() | st.just(TASK), st.lists(chunks() | chunks() | chunks() | others(), max_size=30))
def test_all_at_once_is_one_after_the_other(current: JSONObject | None, events: list[JSONObject]) -> None:
    expected = copy.deepcopy(current)
    for event in copy.deepcopy(events):
        try:
            expected = machine.fold(expected, event)
        except machine.EventRefused:
            continue
    assert task_folding.fold_all(current, events) == expected


def test_a_long_stream_of_words_is_folded_in_time_that_grows_with_its_length() -> None:
    def chunk(number: int) -> JSONObject:
        artifact: JSONObject = {"artifactId": "a", "parts": [{"text": str(number)}]}
        return {
            "artifactUpdate": {"taskId": "t", "contextId": "c", "append": number > 0, "artifact": artifact}
        }

    # One by one this would take minutes.
    whole: Any = task_folding.fold_all(TASK, map(chunk, range(100_000)))
    assert len(whole["artifacts"][0]["parts"]) == 100_000
