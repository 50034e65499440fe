"""Limits of JSON texts are found on their bytes, exactly."""

import json
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_wire import jsonlimits
from molecule_wire.jsonlimits import DEFAULT_LIMITS, JSONLimits, TooMuch

LOUD = st.text(st.sampled_from('a"\\,[]{}: \n\u00e9'), max_size=12)
JSONS = st.recursive(
    LOUD | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(LOUD, inner, max_size=4),
    max_leaves=30,
)


def held(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(cast("dict[str, Any]", value).values())
    return cast("list[Any]", value) if isinstance(value, list) else []


def values(value: Any) -> int:
    return 1 + sum(values(one) for one in held(value))


def depth(value: Any) -> int:
    return 1 + max(map(depth, held(value)), default=0) if isinstance(value, dict | list) else 0


def over(limits: JSONLimits, body: bytes) -> str | None:
    try:
        limits.scan(body)
    except TooMuch as problem:
        return problem.limit
    return None


@given(JSONS, st.sampled_from([None, 1]), st.sampled_from([3, 7, 1000]))
def test_values_and_levels_are_counted_exactly_wherever_the_text_is_cut(
    value: Any, indent: int | None, piece: int
) -> None:
    body = json.dumps(value, indent=indent).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonlimits, "PIECE_BYTES", piece)
        assert over(JSONLimits(values(value), depth(value)), body) is None
        assert over(JSONLimits(values(value) - 1, 1000), body) == "json-values"
        if depth(value):
            assert over(JSONLimits(10_000, depth(value) - 1), body) == "json-depth"


@given(JSONS)
def test_a_text_that_need_not_be_scanned_is_within_the_limits(value: Any) -> None:
    body, limits = json.dumps(value).encode(), JSONLimits(8, 3)
    assert limits.needs_scan(body) or over(limits, body) is None


def test_a_long_text_full_of_commas_and_brackets_is_one_value() -> None:
    assert over(DEFAULT_LIMITS, json.dumps({"text": 'a,[{"\\' * 500_000}).encode()) is None


@pytest.mark.parametrize("body", [b"[" * 10, b"]" * 10, b'{"a": [1, 2', b"", b'"\\', b"not json"])
def test_whether_a_text_is_json_is_left_to_the_decoder(body: bytes) -> None:
    assert over(DEFAULT_LIMITS, body) is None


def test_a_refusal_names_the_limit_and_the_figure() -> None:
    with pytest.raises(TooMuch, match="more than 100000 values"):
        DEFAULT_LIMITS.scan(b"[" + b"0," * 200_000 + b"0]")
    with pytest.raises(TooMuch, match="more than 64 levels"):
        DEFAULT_LIMITS.scan(b"[" * 65 + b"]" * 65)
    with pytest.raises(TooMuch, match="more than 1000 parts in one list"):
        DEFAULT_LIMITS.check_parts(1001)
