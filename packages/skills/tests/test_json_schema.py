"""Answers to forms are checked against the author's JSON schema, and nothing of it is left unchecked."""

from typing import Any

import pytest

from molecule_skill.json_schema import check_schema, errors_of

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "pattern": "^[A-Z]"},
        "age": {"type": "integer", "minimum": 0, "exclusiveMaximum": 150},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2, "uniqueItems": True},
        "friend": {"$ref": "#"},
        "either": {"anyOf": [{"type": "null"}, {"const": 1}]},
    },
    "required": ["name"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    "value",
    [
        {"name": "Ada"},
        {"name": "Ada", "age": 36.0, "tags": ["a", "b"], "friend": {"name": "Bob"}, "either": None},
        {"name": "Ada", "either": 1},
    ],
)
def test_values_that_fit(value: Any) -> None:
    assert errors_of(PERSON, value) == []


@pytest.mark.parametrize(
    ("value", "places"),
    [
        ({}, [["name"]]),
        ({"name": ""}, [["name"], ["name"]]),
        ({"name": "ada"}, [["name"]]),
        ({"name": "Ada", "age": True}, [["age"]]),
        ({"name": "Ada", "age": 150}, [["age"]]),
        ({"name": "Ada", "age": 1.5}, [["age"]]),
        ({"name": "Ada", "tags": ["a", "a"]}, [["tags"]]),
        ({"name": "Ada", "tags": ["a", "b", "c"]}, [["tags"], ["tags", 2]]),
        ({"name": "Ada", "other": 1}, [["other"]]),
        ({"name": "Ada", "friend": {"age": -1}}, [["friend", "name"], ["friend", "age"]]),
        ({"name": "Ada", "either": True}, [["either"]]),
    ],
)
def test_values_that_do_not_fit_are_refused_with_their_places(value: Any, places: list[list[Any]]) -> None:
    found = errors_of(PERSON, value)
    assert [error["loc"] for error in found] == places
    assert all(set(error) == {"loc", "msg", "type"} for error in found)


def test_a_value_of_another_type_is_refused_as_a_whole() -> None:
    assert [error["loc"] for error in errors_of(PERSON, "text")] == [[]]


def test_a_schema_with_a_keyword_that_would_not_be_checked_is_refused() -> None:
    check_schema(PERSON)
    with pytest.raises(ValueError, match="patternProperties"):
        check_schema({"type": "object", "properties": {"a": {"patternProperties": {}}}})
    with pytest.raises(ValueError, match="object or a boolean"):
        check_schema({"items": 3})


def test_an_answer_that_is_nested_without_end_is_refused_in_time() -> None:
    deep: Any = {"name": "A"}
    for _ in range(200):
        deep = {"name": "A", "friend": deep}
    assert errors_of(PERSON, deep)[0]["type"] == "depth"
