"""How long to wait before sending again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_wire.calls import Request, RetryPolicy, a2a, delegations, registry, retry, workspaces

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


def test_a_date_to_come_back_at_is_read_by_the_clock_of_whoever_named_it() -> None:
    header, there = "Thu, 01 Jan 2026 01:00:07 GMT", "Thu, 01 Jan 2026 01:00:00 GMT"
    assert retry.wait_before(POLICY, 1, header, there, now=NOW, chance=0.0) == 7.0
    assert retry.wait_before(POLICY, 1, header, "rubbish", now=NOW, chance=0.0) == 30.0


REPEATABLE = (
    workspaces.state("me"),
    workspaces.choose_model("me", "m"),
    Request("DELETE", "/x"),
    delegations.delegate("me", "peer", "task", idempotency_key="k"),
    a2a.send("me", "peer", "hi", rpc_id="r", message_id="m"),
    a2a.get_task("me", "peer", "t", rpc_id="r"),
)
NOT_REPEATABLE = (
    registry.register("me", "", {}, recovery_secret="spent by the first"),
    registry.heartbeat("me"),
    workspaces.change("me", {"role": "x"}),
    a2a.answer("me", "peer", "hi", rpc_id="r", message_id="m", in_reply_to="row"),
)


def test_only_a_call_that_bears_it_is_sent_again() -> None:
    resilient = RetryPolicy.resilient()
    for status in (429, 503, None):
        assert all(retry.may_repeat(resilient, request, 1, status) for request in REPEATABLE)
        assert not any(retry.may_repeat(resilient, request, 1, status) for request in NOT_REPEATABLE)


@pytest.mark.parametrize("status", [200, 400, 401, 404, 409, 500])
def test_an_answer_that_a_repeat_would_not_change_stands(status: int) -> None:
    assert not retry.may_repeat(RetryPolicy.resilient(), REPEATABLE[0], 1, status)


def test_a_request_is_repeated_as_often_as_the_policy_says_and_for_the_outcomes_it_names() -> None:
    request = REPEATABLE[0]
    assert [retry.may_repeat(POLICY, request, n, 429) for n in (1, 3, 4)] == [True, True, False]
    assert not retry.may_repeat(POLICY, request, 1, 503)
    assert not retry.may_repeat(POLICY, request, 1, None)
    assert not retry.may_repeat(RetryPolicy(max_retries=0), request, 1, 429)


def test_the_resilient_policy_rides_out_restarts() -> None:
    assert RetryPolicy.resilient().statuses == {429, 502, 503, 504}
    assert RetryPolicy.resilient().connection_errors
    assert POLICY.statuses == {429}
    assert not POLICY.connection_errors
