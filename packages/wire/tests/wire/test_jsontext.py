"""Reading, writing and splicing JSON."""

import contextlib
import json
import math
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


@given(VALUES)
def test_what_is_written_is_what_the_standard_library_writes(value: JSON) -> None:
    assert jsontext.encode(value).decode() == json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    assert jsontext.encode_ascii(value).decode() == json.dumps(value, separators=(",", ":"))


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_no_json_is_not_written(number: float) -> None:
    for write in (jsontext.encode, jsontext.encode_ascii):
        with pytest.raises(ValueError, match="not JSON compliant"):
            write([number])


def test_a_value_that_holds_itself_is_refused_and_the_next_one_is_written() -> None:
    endless: list[JSON] = []
    endless.append(endless)
    for _ in range(2):
        with pytest.raises(ValueError, match="holds itself"):
            jsontext.encode(endless)
    assert jsontext.encode([[], []]) == b"[[],[]]"


def test_an_unpaired_surrogate_can_be_written_with_escapes() -> None:
    assert jsontext.encode_ascii("\ud800") == b'"\\ud800"'


@given(st.binary())
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    with contextlib.suppress(jsontext.NotJSON):
        assert jsontext.decode(body) == json.loads(body)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "line 1"),
        (b"{,}", "line 1, column 2"),
        (b"{} \n {}", "Extra data at line 2, column 2"),
        (b" [] x", "Extra data at line 1, column 5"),
        (b"\n x", "Expecting value at line 2, column 2"),
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


@given(VALUES, st.text(" \t\r\n"), st.text(" \t\r\n"))
def test_space_around_a_text_makes_no_difference(value: JSON, before: str, after: str) -> None:
    assert jsontext.decode(before.encode() + jsontext.encode(value) + after.encode()) == value


def test_escaped_surrogate_pairs_and_wide_texts_are_fine() -> None:
    assert jsontext.decode(b'"\\ud83d\\ude00"') == "\U0001f600"
    assert jsontext.decode(b"[" + b"{}," * 300 + b"[]]") == [*[{} for _ in range(300)], []]
    assert jsontext.decode(b"[" * 256 + b"]" * 256)
    assert jsontext.decode(b'["' + b"[" * 300 + b'"]') == ["[" * 300]


@given(st.lists(st.text(st.characters(categories=["Cs", "Lu"]) | st.sampled_from("\\\n/\U0001f600"))))
def test_a_text_is_read_exactly_when_all_its_surrogates_are_paired(strings: list[str]) -> None:
    body = json.dumps(strings).encode()
    try:
        json.dumps(json.loads(body), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        with pytest.raises(jsontext.NotJSON, match="surrogate"):
            jsontext.decode(body)
    else:
        assert jsontext.decode(body) == json.loads(body)


def test_an_escaped_backslash_begins_no_surrogate() -> None:
    assert jsontext.decode(b'"\\\\ud800"') == "\\ud800"
    assert jsontext.decode(b'"\\uD7FF\\ud83d\\uDE00"') == "\ud7ff\U0001f600"
    for body in (
        b'"\\\\ud83d\\ude00"',
        b'"\\ud83d\\\\ude00"',
        b'"\\ud83d\\ud83d\\ude00"',
        b'"\\ud83d","\\ude00"',
    ):
        with pytest.raises(jsontext.NotJSON, match="surrogate"):
            jsontext.decode(b"[" + body + b"]")


def test_depth_counts_in_the_deepest_place_only() -> None:
    wide = b'{"a":[' + b"[[]]," * 300 + b'"[{"],"b":'
    assert jsontext.decode(wide + b"[" * 255 + b"]" * 255 + b"}")
    with pytest.raises(jsontext.NotJSON, match="deep"):
        jsontext.decode(wide + b"[" * 256 + b"]" * 256 + b"}")


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


@given(
    st.dictionaries(TEXT, VALUES, max_size=4),
    st.dictionaries(TEXT, VALUES, max_size=4),
    st.sampled_from([None, 0, 2]),
)
def test_set_members_does_what_update_does(
    before: dict[str, JSON], members: dict[str, JSON], indent: int | None
) -> None:
    body = json.dumps({"params": before}, indent=indent).encode()
    spliced = jsontext.decode(jsontext.set_members(body, ("params",), members))
    assert spliced == {"params": {**before, **members}}


FRAGMENTS = st.sampled_from(
    [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        " ",
        '"a"',
        '"b"',
        '"\\u0061"',
        '"',
        "\\",
        "\n",
        "1",
        "-",
        "null",
        '"\\ud800"',
    ]
)
OBJECTS = st.recursive(
    st.sampled_from(["{}", "1", "[ ]", '"x"']),
    lambda inner: st.lists(st.tuples(st.sampled_from(['"a"', ' "\\u0061" ', '"b"']), inner)).map(
        lambda members: "{" + ", ".join(f"{name}:{value}" for name, value in members) + "}"
    ),
    max_leaves=12,
)


@given(st.lists(FRAGMENTS).map("".join) | OBJECTS | st.tuples(OBJECTS, FRAGMENTS).map("".join))
def test_locating_reads_and_refuses_what_decoding_does(text: str) -> None:
    body = text.encode()
    try:
        value = jsontext.decode(body)
    except jsontext.NotJSON:
        with pytest.raises(jsontext.NotJSON):
            jsontext.locate(body, ("a", "b"), ("a",))
    else:
        assert jsontext.locate(body, ("a", "b"), ("a",)).value == value


@given(OBJECTS)
def test_every_object_on_the_path_has_a_place_and_nothing_else_has(text: str) -> None:
    located = jsontext.locate(text.encode(), ("a", "b"), ())
    outermost = located.value
    middle = outermost.get("a") if isinstance(outermost, dict) else None
    innermost = middle.get("b") if isinstance(middle, dict) else None
    along: dict[jsontext.Path, JSON] = {(): outermost, ("a",): middle, ("a", "b"): innermost}
    assert set(located.places) == {path for path, value in along.items() if isinstance(value, dict)}


def test_members_of_several_objects_are_set_in_one_go() -> None:
    located = jsontext.locate(b'{ "\\u0061":{"x":1,"x":null , "y":"\\ud83d\\ude00"}}\n', ("a",), ("x",))
    assert located.value == {"a": {"x": None, "y": "\U0001f600"}}
    edits: dict[jsontext.Path, dict[str, JSON]] = {("a",): {"x": 2, "z": 3}, (): {"b": "\u00e9"}}
    expected = b'{"b":"\xc3\xa9", "\\u0061":{"z":3,"x":1,"x":2 , "y":"\\ud83d\\ude00"}}\n'
    assert jsontext.with_members(located, edits) == expected


@pytest.mark.parametrize(
    "body", [b"\xff", b'{"a":1}x', b'{"a":1,}', b'{"a" 1}', b'{"\x01":1}', b'{"\\x":1}', b"{"]
)
def test_what_is_no_json_is_not_located(body: bytes) -> None:
    with pytest.raises(jsontext.NotJSON):
        jsontext.locate(body, (), ())


@pytest.mark.parametrize(
    ("body", "left"),
    [
        (b'{"a":1,"x":{"y":2},"b":3}', b'{"a":1,"b":3}'),
        (b'{"x": 1 , "b" : 3}', b'{"b" : 3}'),
        (b'{"a":1 , "x":[1]  }', b'{"a":1   }'),
        (b'{ "x":null }', b"{  }"),
        (b'{"x":1,"a":2,"x":3}', b'{"a":2}'),
        (b'{"\\u0078":1,"a":2}', b'{"a":2}'),
        (b'{"a":{"x":1}}', b'{"a":{"x":1}}'),
    ],
)
def test_a_member_is_taken_out_and_nothing_else(body: bytes, left: bytes) -> None:
    assert jsontext.without_member(body, (), "x") == left


def test_a_member_is_taken_out_of_an_object_inside() -> None:
    body = b'{"params":{"configuration":{"x":1,"y":2}},"x":3}'
    taken = jsontext.without_member(body, ("params", "configuration"), "x")
    assert taken == b'{"params":{"configuration":{"y":2}},"x":3}'
    assert jsontext.without_member(body, ("params", "nothing"), "x") == body


@pytest.mark.parametrize("text", ['{"a":1,"a":1}', '[{"b":{"a":1,"c":2,"a":3}}]', '{"a":1,"\\u0061":2}'])
def test_a_name_that_stands_twice_in_an_object_is_refused_where_that_matters(text: str) -> None:
    assert jsontext.decode(text.encode()) is not None
    with pytest.raises(jsontext.NotJSON, match="one name twice"):
        jsontext.decode_unique(text.encode())


@pytest.mark.parametrize("text", ['{"a":1,"b":{"a":2}}', "[1.5]", '"x"', "null"])
def test_other_texts_are_read_like_everywhere(text: str) -> None:
    assert jsontext.decode_unique(text.encode()) == jsontext.decode(text.encode())


@pytest.mark.parametrize("text", [b"[" * 10_000, b'"\\ud800"', b"NaN", b"{}{}", b"\xff"])
def test_the_stricter_reader_refuses_what_the_other_refuses(text: bytes) -> None:
    with pytest.raises(jsontext.NotJSON):
        jsontext.decode_unique(text)
