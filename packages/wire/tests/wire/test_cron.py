"""Cron expressions: what they mean, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_wire.cron import Cron, parse_cron


def test_a_field_is_a_star_a_number_a_range_a_step_or_a_list_of_these() -> None:
    cron = parse_cron("*/20 9-17/4 1,15 jan-mar mon,7")
    assert cron.minutes == {0, 20, 40}
    assert cron.hours == {9, 13, 17}
    assert cron.days == {1, 15}
    assert cron.months == {1, 2, 3}
    assert cron.weekdays == {0, 1}
    assert not cron.every_day
    assert not cron.every_weekday


def test_a_start_with_a_step_runs_to_the_end_of_the_field() -> None:
    assert parse_cron("50/5 * * * *").minutes == {50, 55}


def test_a_star_leaves_the_days_to_the_other_field() -> None:
    cron = parse_cron("0 0 * * 1")
    assert cron.every_day
    assert not cron.every_weekday


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("", "five fields"),
        ("* * * *", "five fields"),
        ("* * * * * *", "five fields"),
        ("@daily", "five fields"),
        ("60 * * * *", "minute: '60'"),
        ("* 24 * * *", "hour: '24'"),
        ("* * 0 * *", "day of month: '0'"),
        ("* * * 13 *", "month: '13'"),
        ("* * * * 8", "day of week: '8'"),
        ("5-1 * * * *", "runs backwards"),
        ("*/0 * * * *", "minute: '0'"),
        ("a * * * *", "minute: 'a'"),
        ("1,,2 * * * *", "minute: ''"),
        ("0 0 31 2 *", "no month of '2' has a day '31'"),
        ("٣ * * * *", "minute"),
    ],
)
def test_what_is_wrong_is_said_with_the_field(text: str, fragment: str) -> None:
    with pytest.raises(ValueError, match=fragment):
        parse_cron(text)


@given(st.one_of(st.text(), st.text("0123456789*/,- jan", max_size=30)))
def test_any_text_is_an_expression_or_a_value_error(text: str) -> None:
    try:
        cron = parse_cron(text)
    except ValueError:
        return
    assert isinstance(cron, Cron)
    assert all(cron[:5])
