"""How long to wait before sending again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_wire.calls import RetryPolicy, retry

NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z
POLICY = RetryPolicy()


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("3", 3.0),
        ("2.1", 3.0),
        ("-5", 0.0),
        ("99", 30.0),
        ("Thu, 01 Jan 2026 00:00:07 GMT", 7.0),
        ("Thu, 01 Jan 2026 00:00:07 -0000", 7.0),
        ("Wed, 31 Dec 2025 23:59:00 GMT", 0.0),
        ("Thu, 01 Jan 2027 00:00:00 GMT", 30.0),
    ],
)
def test_the_header_decides_when_it_can_be_read(header: str, seconds: float) -> None:
    assert retry.wait_before(POLICY, 1, header, now=NOW, chance=0.0) == seconds


@pytest.mark.parametrize(
    "header", ["", "soon", "nan", "inf", "Thu, 99 Jan 2026", "Thu, 01 Jan 99999 00:00:00 GMT"]
)
def test_without_a_readable_header_the_wait_doubles(header: str) -> None:
    waits = [retry.wait_before(POLICY, n, header, now=NOW, chance=0.5) for n in (1, 2, 3, 9)]
    assert waits == [1.0, 2.0, 4.0, 30.0]


def test_the_wait_is_spread_by_a_quarter_in_both_directions() -> None:
    assert retry.wait_before(POLICY, 1, "", now=NOW, chance=0.0) == 0.75
    assert retry.wait_before(POLICY, 3, "", now=NOW, chance=1.0) == 5.0


@given(st.text(), st.integers(1, 50), st.floats(0, 1))
def test_no_header_makes_the_wait_negative_or_longer_than_the_cap(header: str, n: int, chance: float) -> None:
    assert 0 <= retry.wait_before(POLICY, n, header, now=NOW, chance=chance) <= 30.0


def test_the_resilient_policy_rides_out_restarts() -> None:
    assert RetryPolicy.resilient().statuses == {429, 502, 503, 504}
    assert RetryPolicy.resilient().connection_errors
    assert POLICY.statuses == {429}
    assert not POLICY.connection_errors
