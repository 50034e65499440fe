"""Reading, writing and splicing JSON."""

import contextlib
import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_wire import JSON, jsontext

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES: st.SearchStrategy[JSON] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=10,
)


@given(VALUES)
def test_what_is_written_is_read_back(value: JSON) -> None:
    assert jsontext.decode(jsontext.encode(value)) == value


@given(st.binary())
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    with contextlib.suppress(jsontext.NotJSON):
        assert jsontext.decode(body) == json.loads(body)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "line 1"),
        (b"{,}", "line 1, column 2"),
        (b'{"a":NaN}', "number"),
        (b"[1e999]", "number"),
        (b"1" * 5000, "number"),
        (b'"\xff"', "UTF-8"),
        (b'["\\ud800"]', "surrogate"),
        (b"[" * 100_000, "deep"),
        (b"[" * 257 + b"]" * 257, "deep"),
    ],
)
def test_bad_text_is_refused_with_a_sentence(body: bytes, sentence: str) -> None:
    with pytest.raises(jsontext.NotJSON, match=sentence):
        jsontext.decode(body)


def test_escaped_surrogate_pairs_and_wide_texts_are_fine() -> None:
    assert jsontext.decode(b'"\\ud83d\\ude00"') == "\U0001f600"
    assert jsontext.decode(b"[" + b"{}," * 300 + b"[]]") == [*[{} for _ in range(300)], []]
    assert jsontext.decode(b"[" * 256 + b"]" * 256)
    assert jsontext.decode(b'["' + b"[" * 300 + b'"]') == ["[" * 300]


def test_integers_keep_all_digits() -> None:
    assert jsontext.decode(b"9007199254740993") == 9007199254740993
    assert sys.get_int_max_str_digits() == 4300


def test_members_are_set_without_touching_other_bytes() -> None:
    body = b' { "b" : 1.50 , "a":{"x":\t[ 1 ] } }\n'
    assert jsontext.set_members(body, ("a",), {"x": 2, "y": 3}) == b' { "b" : 1.50 , "a":{"y":3,"x":\t2 } }\n'
    assert jsontext.set_members(body, (), {"b": None, "a": []}) == b' { "b" : null , "a":[] }\n'
    assert jsontext.set_members(b"{ }", (), {"é": "ü"}) == '{"é":"ü" }'.encode()


def test_of_repeated_members_the_last_one_is_set() -> None:
    body = jsontext.set_members(b'{"a":{"x":1},"a":{"x":2}}', ("a",), {"x": 3})
    assert body == b'{"a":{"x":1},"a":{"x":3}}'


@given(st.dictionaries(TEXT, VALUES), st.dictionaries(TEXT, VALUES), st.sampled_from([None, 0, 2]))
def test_set_members_does_what_update_does(
    before: dict[str, JSON], members: dict[str, JSON], indent: int | None
) -> None:
    body = json.dumps({"params": before}, indent=indent).encode()
    spliced = jsontext.decode(jsontext.set_members(body, ("params",), members))
    assert spliced == {"params": {**before, **members}}
