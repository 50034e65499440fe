"""Rate limits: nobody gets more than the limit, everybody gets what is theirs, the figures are true."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_platform.domain.errors import ApiError
from molecule_platform.web.pipeline.rate_limits import MAX_BUCKETS, RateLimit, RateLimiter


class Time:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def limits(time: Time, per_minute: int = 600, anonymous: int = 60, replicas: int = 1) -> RateLimiter:
    return RateLimiter(per_minute, anonymous, lambda: replicas, time)


def is_let_in(limited: RateLimiter, key: str = "user:ann", known: bool = True, cost: float = 1) -> bool:
    budget = limited.take(key, known=known, cost=cost)
    assert budget is not None
    return budget.retry_after is None


def test_a_burst_of_a_quarter_is_let_in_and_then_the_steady_rate() -> None:
    time = Time()
    limited = limits(time)
    assert sum(is_let_in(limited) for _ in range(200)) == 150
    time.now += 1
    assert sum(is_let_in(limited) for _ in range(20)) == 10


@given(st.lists(st.floats(min_value=0, max_value=30), min_size=1, max_size=200), st.integers(1, 5000))
def test_never_more_than_the_burst_and_the_rate_whatever_the_pauses(
    pauses: list[float], per_minute: int
) -> None:
    time = Time()
    limited = limits(time, per_minute)
    began, passed = time.now, 0
    for pause in pauses:
        time.now += pause
        passed += is_let_in(limited)
    allowed = max(per_minute / 4, 1) + (time.now - began) * max(per_minute, 1) / 60
    assert passed <= allowed + 1


@given(st.integers(1, 10_000), st.integers(1, 6), st.floats(1, 5))
def test_who_waits_as_long_as_told_is_let_in(per_minute: int, replicas: int, cost: float) -> None:
    time = Time()
    limited = limits(time, per_minute, replicas=replicas)
    for _ in range(3000):
        budget = limited.take("user:ann", known=True, cost=cost)
        assert budget is not None
        if budget.retry_after is not None:
            time.now += budget.retry_after
            assert is_let_in(limited, cost=cost)
            return


def test_one_caller_does_not_spend_what_is_another_s() -> None:
    limited = limits(Time(), 60)
    while is_let_in(limited, "user:ann"):
        pass
    assert is_let_in(limited, "user:bob")


def test_each_of_three_replicas_gives_a_third_and_says_so() -> None:
    budget = limits(Time(), 600, replicas=3).take("user:ann", known=True)
    assert budget is not None
    assert (budget.limit, budget.remaining) == (200, 49)


def test_a_share_is_never_less_than_one() -> None:
    assert is_let_in(limits(Time(), 1, replicas=50))


def test_zero_means_no_limit_for_that_kind_of_caller_alone() -> None:
    limited = limits(Time(), 0, 60)
    assert limited.take("user:ann", known=True) is None
    assert limited.take("address 10.0.0.1", known=False) is not None


def test_a_route_s_own_rate_replaces_the_general_one() -> None:
    limited = limits(Time())
    own = RateLimit(10, 3600, 10)
    passed = [limited.take("mint ann", known=True, own=own) for _ in range(12)]
    assert [budget is not None and budget.retry_after is None for budget in passed] == [True] * 10 + [
        False
    ] * 2
    refused = passed[-1]
    assert refused is not None
    assert refused.retry_after == 360


def test_a_refusal_says_when_to_come_back_as_a_whole_number() -> None:
    limited = limits(Time(), 4)
    assert is_let_in(limited)
    budget = limited.take("user:ann", known=True)
    assert budget is not None
    with pytest.raises(ApiError) as refused:
        budget.check()
    assert (refused.value.code, refused.value.extras["retry_after"]) == ("rate-limited", 15)


def test_strangers_without_number_do_not_fill_the_memory() -> None:
    limited = limits(Time())
    for number in range(MAX_BUCKETS + 10):
        limited.take(f"address {number}", known=False)
    assert len(limited._buckets) <= MAX_BUCKETS  # pyright: ignore[reportPrivateUsage]
