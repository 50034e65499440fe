"""RFC 8785: one value, one text."""

import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_wire import jcs
from tests.rows import each_row

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-jcs.LARGEST_WHOLE, jcs.LARGEST_WHOLE)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=12,
)


def test_members_are_sorted_and_numbers_are_shortest() -> None:
    value: Any = {"b": 1.0, "a": "é", "c": [True, None, 1e21]}
    assert jcs.canonical(value).decode() == '{"a":"é","b":1,"c":[true,null,1e+21]}'


def test_names_are_sorted_by_utf_16_and_not_by_code_point() -> None:
    # The example of RFC 8785, section 3.2.3: an emoji is two surrogates, below U+FB33.
    names = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\x80", "\u00f6"]
    found = list(json.loads(jcs.canonical(dict.fromkeys(names))))
    assert found == ["\r", "1", "\x80", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]


@each_row(
    ("bits", "text"),
    [
        # RFC 8785, appendix B.
        ("0000000000000000", "0"),
        ("8000000000000000", "0"),
        ("0000000000000001", "5e-324"),
        ("8000000000000001", "-5e-324"),
        ("7fefffffffffffff", "1.7976931348623157e+308"),
        ("ffefffffffffffff", "-1.7976931348623157e+308"),
        ("4340000000000000", "9007199254740992"),
        ("c340000000000000", "-9007199254740992"),
        ("4430000000000000", "295147905179352830000"),
        ("44b52d02c7e14af5", "9.999999999999997e+22"),
        ("44b52d02c7e14af6", "1e+23"),
        ("44b52d02c7e14af7", "1.0000000000000001e+23"),
        ("444b1ae4d6e2ef4e", "999999999999999700000"),
        ("444b1ae4d6e2ef4f", "999999999999999900000"),
        ("444b1ae4d6e2ef50", "1e+21"),
        ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
        ("3eb0c6f7a0b5ed8d", "0.000001"),
        ("41b3de4355555553", "333333333.3333332"),
        ("41b3de4355555554", "333333333.33333325"),
        ("becbf647612f3696", "-0.0000033333333333333333"),
    ],
)
def test_numbers_are_written_as_ecmascript_does(bits: str, text: str) -> None:
    [value] = struct.unpack(">d", bytes.fromhex(bits))
    assert jcs.canonical(value).decode() == text


def test_what_must_be_escaped_is_and_nothing_else() -> None:
    said = '\u20ac$\x0f\nA\'B"\\\\"/\x7f\u2028'
    assert jcs.canonical(said).decode() == '"\u20ac$\\u000f\\nA\'B\\"\\\\\\\\\\"/\x7f\u2028"'


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), 2**53 + 1, -(10**400), "\ud800", {"\ud800": 1}]
)
def test_what_json_cannot_say_everywhere_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r".+"):
        jcs.canonical(value)


@given(VALUES)
def test_the_text_reads_back_as_the_same_value_and_is_its_own_canonical_form(value: Any) -> None:
    text = jcs.canonical(value)
    again = json.loads(text, parse_int=_as_ours)
    assert again == value
    assert jcs.canonical(again) == text


def _as_ours(digits: str) -> float:
    """A reader that takes a number for the double it is, as most do."""
    return int(digits) if abs(int(digits)) <= jcs.LARGEST_WHOLE else float(digits)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_whole_double_is_written_like_the_whole_number(value: float) -> None:
    if value.is_integer() and abs(value) <= jcs.LARGEST_WHOLE:
        assert jcs.canonical(value) == jcs.canonical(int(value))
