"""Conversion between A2A 1.0 and 0.3."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_wire import JSON, JSONObject
from molecule_wire.a2a import convert, operations

Golden = Callable[[str], list[dict[str, Any]]]

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SCALARS: st.SearchStrategy[JSON] = st.none() | st.booleans() | st.integers() | TEXT
OBJECTS: st.SearchStrategy[JSONObject] = st.dictionaries(TEXT, SCALARS, max_size=3)
LISTS: st.SearchStrategy[list[JSON]] = st.lists(SCALARS, max_size=3)
NOT_OBJECTS: st.SearchStrategy[JSON] = SCALARS | LISTS
UNKNOWN: st.SearchStrategy[JSONObject] = st.dictionaries(TEXT.map("x-{}".format), SCALARS, max_size=2)
STATES = [
    "input-required", "auth-required", "submitted", "working", "completed", "failed", "canceled", "rejected",
    "unknown",
]  # fmt: skip
SETTLED = {"input-required", "auth-required", "completed", "failed", "canceled", "rejected"}


def _is_settled(update: dict[str, Any]) -> bool:
    return update["status"]["state"] in SETTLED


def _compat_data(value: JSON, metadata: JSONObject) -> JSONObject:
    return {"kind": "data", "data": {"value": value}, "metadata": {**metadata, "data_part_compat": True}}


def shape(
    required: dict[str, st.SearchStrategy[Any]], optional: dict[str, st.SearchStrategy[Any]] | None = None
) -> st.SearchStrategy[JSONObject]:
    """Objects with these members and some that no dialect knows."""
    known = st.fixed_dictionaries(required, optional=optional or {})
    return st.tuples(known, UNKNOWN).map(lambda pair: {**pair[1], **pair[0]})


FILES = st.sampled_from(["bytes", "uri"]).flatmap(
    lambda name: shape({name: TEXT}, {"mimeType": st.none() | TEXT, "name": TEXT})
)
COMPAT_DATA = st.builds(_compat_data, NOT_OBJECTS, UNKNOWN)
PARTS: st.SearchStrategy[JSONObject] = st.one_of(
    shape({"kind": st.just("text"), "text": TEXT}, {"metadata": OBJECTS, "mediaType": TEXT}),
    shape({"kind": st.just("file"), "file": FILES}, {"metadata": OBJECTS}),
    shape({"kind": st.just("data"), "data": OBJECTS}, {"metadata": OBJECTS}),
    COMPAT_DATA,
)
MESSAGES = shape(
    {
        "kind": st.just("message"),
        "messageId": TEXT,
        "role": st.sampled_from(["user", "agent"]),
        "parts": st.lists(PARTS, max_size=3),
    },
    {"contextId": TEXT, "taskId": TEXT, "metadata": OBJECTS, "referenceTaskIds": st.lists(TEXT, max_size=2)},
)
STATUSES = shape({"state": st.sampled_from(STATES)}, {"message": MESSAGES, "timestamp": TEXT})
ARTIFACTS = shape(
    {"artifactId": TEXT, "parts": st.lists(PARTS, max_size=2)}, {"name": TEXT, "metadata": OBJECTS}
)
TASKS = shape(
    {"kind": st.just("task"), "id": TEXT, "status": STATUSES},
    {
        "contextId": TEXT,
        "artifacts": st.lists(ARTIFACTS, max_size=2),
        "history": st.lists(MESSAGES, max_size=2),
        "metadata": OBJECTS,
    },
)
STATUS_UPDATES = shape(
    {"kind": st.just("status-update"), "taskId": TEXT, "contextId": TEXT, "status": STATUSES},
    {"metadata": OBJECTS},
).map(lambda update: {**update, "final": _is_settled(update)})
ARTIFACT_UPDATES = shape(
    {"kind": st.just("artifact-update"), "taskId": TEXT, "contextId": TEXT, "artifact": ARTIFACTS},
    {"append": st.booleans(), "lastChunk": st.booleans(), "metadata": OBJECTS},
)
PUSH_CONFIGS = shape(
    {"url": TEXT},
    {"token": TEXT, "authentication": shape({"schemes": st.lists(TEXT, max_size=2)}, {"credentials": TEXT})},
)
SEND_PARAMS = shape(
    {"message": MESSAGES},
    {
        "metadata": OBJECTS,
        "configuration": shape(
            {},
            {
                "blocking": st.booleans(),
                "pushNotificationConfig": PUSH_CONFIGS,
                "historyLength": st.integers(),
                "acceptedOutputModes": st.lists(TEXT, max_size=2),
            },
        ),
    },
)


def _converted(converter: convert.Converter, kind: str, shape: JSONObject) -> JSON:
    edits: dict[str, Callable[[JSONObject], JSON]] = {
        "part": converter.part,
        "message": converter.message,
        "task": converter.task,
        "event": converter.event,
        "send params": lambda params: converter.params(operations.SEND, params),
    }
    return edits[kind](shape)


@pytest.mark.parametrize(
    ("converter", "source", "target"),
    [
        (convert.FROM_0_3, "0.3", "1.0"),
        (convert.TO_0_3, "1.0", "0.3"),
        (convert.FROM_0_3_REST, "0.3-rest", "1.0"),
        (convert.TO_0_3_REST, "1.0", "0.3-rest"),
    ],
)
def test_golden_objects_convert_exactly(
    golden: Golden, converter: convert.Converter, source: str, target: str
) -> None:
    for case in golden("dialects"):
        given_shape = copy.deepcopy(case[source])
        assert _converted(converter, case["object"], case[source]) == case[target], case["name"]
        assert case[source] == given_shape, f"{case['name']}: the given object was changed"


@given(st.one_of(TASKS, MESSAGES, STATUS_UPDATES, ARTIFACT_UPDATES))
def test_any_0_3_event_comes_back_from_1_0_as_it_was(event: JSONObject) -> None:
    assert convert.TO_0_3.event(convert.FROM_0_3.event(event)) == event


@given(st.one_of(TASKS, MESSAGES, STATUS_UPDATES, ARTIFACT_UPDATES))
def test_any_1_0_event_comes_back_from_0_3_rest_as_it_was(event: JSONObject) -> None:
    current = convert.FROM_0_3.event(event)
    assert convert.FROM_0_3_REST.event(convert.TO_0_3_REST.event(current)) == current


@given(SEND_PARAMS)
def test_any_0_3_params_come_back_from_1_0_as_they_were(params: JSONObject) -> None:
    current = convert.FROM_0_3.params(operations.STREAM, params)
    assert convert.TO_0_3.params(operations.STREAM, current) == params
    assert convert.FROM_0_3_REST.params(
        operations.SEND, convert.TO_0_3_REST.params(operations.SEND, current)
    ) == convert.FROM_0_3.params(operations.SEND, params)


@given(OBJECTS)
def test_objects_of_another_shape_pass_as_they_are(holder: JSONObject) -> None:
    for converter in (convert.FROM_0_3, convert.TO_0_3, convert.FROM_0_3_REST, convert.TO_0_3_REST):
        assert converter.event(holder) == holder
        assert converter.status(holder) == holder
        assert converter.params(operations.SEND, holder) == holder


def test_parts_written_with_type_and_parts_of_1_0_are_read_in_0_3_messages() -> None:
    assert convert.FROM_0_3.part({"type": "text", "text": "a"}) == {"text": "a"}
    assert convert.FROM_0_3.part({"type": "file", "file": {"uri": "u"}}) == {"url": "u"}
    assert convert.FROM_0_3.part({"file": {"fileWithBytes": "b"}}) == {"raw": "b"}
    assert convert.FROM_0_3.part({"url": "u"}) == {"url": "u"}
    assert convert.TO_0_3.part({"type": "text", "text": "a"}) == {"kind": "text", "text": "a"}


@pytest.mark.parametrize(
    "part",
    [
        {"kind": "text"},
        {"kind": "file", "file": {"name": "n"}},
        {"kind": "file", "file": "f"},
        {"kind": "hologram", "rays": 3},
    ],
)
def test_parts_without_content_pass_as_they_are(part: JSONObject) -> None:
    for converter in (convert.FROM_0_3, convert.TO_0_3, convert.FROM_0_3_REST, convert.TO_0_3_REST):
        assert converter.part(part) == part


def test_data_that_only_looks_wrapped_stays() -> None:
    wrapped: JSONObject = {"value": {"a": 1}}
    part: JSONObject = {"kind": "data", "data": wrapped, "metadata": {"data_part_compat": True}}
    assert convert.FROM_0_3.part(part) == {"data": wrapped, "metadata": {"data_part_compat": True}}
    assert convert.TO_0_3.part(convert.FROM_0_3.part(part)) == part


@pytest.mark.parametrize(
    ("bare", "name"),
    [
        ({"id": "t", "status": {"state": "working"}}, "task"),
        ({"taskId": "t", "status": {"state": "working"}}, "statusUpdate"),
        ({"taskId": "t", "artifact": {"artifactId": "a", "parts": []}}, "artifactUpdate"),
        ({"role": "agent", "parts": []}, "message"),
    ],
)
def test_a_0_3_event_that_forgot_its_kind_is_understood(bare: JSONObject, name: str) -> None:
    assert list(convert.FROM_0_3.event(bare)) == [name]


@pytest.mark.parametrize(
    "authentication", [{"schemes": ["Basic", "Bearer"]}, {"credentials": "c"}, None, "x"]
)
def test_a_push_config_without_one_scheme_keeps_what_it_has(authentication: JSON) -> None:
    configuration: JSONObject = {"pushNotificationConfig": {"url": "u", "authentication": authentication}}
    current = convert.FROM_0_3.params(operations.SEND, {"configuration": configuration})
    renamed = configuration["pushNotificationConfig"]
    assert current == {"configuration": {"taskPushNotificationConfig": renamed}}
    assert convert.TO_0_3.params(operations.SEND, current) == {"configuration": configuration}


def test_results_convert_by_operation() -> None:
    task: JSONObject = {"id": "t", "status": {"state": "TASK_STATE_WORKING"}}
    old: JSONObject = {"kind": "task", "id": "t", "status": {"state": "working"}}
    for operation in (operations.GET, operations.CANCEL):
        assert convert.TO_0_3.result(operation, task) == old
    for operation in (operations.SEND, operations.STREAM, operations.SUBSCRIBE):
        assert convert.TO_0_3.result(operation, {"task": task}) == old
    assert convert.TO_0_3.result(operations.EXTENDED_CARD, {"name": "x"}) == {"name": "x"}
    assert convert.TO_0_3.result(None, "plain") == "plain"
    assert convert.TO_0_3.params(operations.GET, {"id": "t"}) == {"id": "t"}


def test_the_converter_between_two_dialects_is_found() -> None:
    assert convert.between("1.0", "0.3") is convert.TO_0_3
    assert convert.between("0.3", "1.0") is convert.FROM_0_3
    assert convert.between("1.0", "1.0") is None
