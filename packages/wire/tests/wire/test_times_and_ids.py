"""Times and ids on the wire."""

import threading
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_wire import ids, times


def test_a_time_is_written_in_utc_with_milliseconds() -> None:
    local = datetime(2026, 5, 2, 12, 15, 30, 123999, tzinfo=timezone(timedelta(hours=2)))
    assert times.format_time(local) == "2026-05-02T10:15:30.123Z"
    assert times.format_time(datetime(2026, 1, 1, tzinfo=UTC)) == "2026-01-01T00:00:00.000Z"


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="zone"):
        times.format_time(datetime(2026, 1, 1))  # noqa: DTZ001 - the mistake under test


@pytest.mark.parametrize(
    "text",
    [
        "2026-05-02T10:15:30.123Z",
        "2026-05-02t10:15:30.123z",
        "2026-05-02 12:15:30.123+02:00",
        "2026-05-02T04:45:30.123000999-05:30",
    ],
)
def test_a_time_is_read_with_any_offset(text: str) -> None:
    assert times.parse_time(text) == datetime(2026, 5, 2, 10, 15, 30, 123000, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    ["", "soon", "2026-05-02", "2026-05-02T10:15:30", "2026-13-02T10:15:30Z", "0001-01-01T00:00:00+23:59"],
)
def test_what_is_no_time_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        times.parse_time(text)


@given(st.datetimes(timezones=st.just(UTC)))
def test_times_survive_the_wire(moment: datetime) -> None:
    assert times.parse_time(times.format_time(moment)) == moment.replace(
        microsecond=moment.microsecond // 1000 * 1000
    )


def test_ids_are_version_7_and_grow() -> None:
    made = [ids.uuid7() for _ in range(20_000)]
    assert all(ids.is_uuid(made_id) and made_id[14] == "7" and made_id[19] in "89ab" for made_id in made)
    assert made == sorted(set(made))


def test_ids_made_by_many_threads_differ() -> None:
    made: list[str] = []
    threads = [
        threading.Thread(target=lambda: made.extend(ids.uuid7() for _ in range(500))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 4000


def test_ticks_grow_when_the_clock_steps_back_and_when_a_millisecond_is_full() -> None:
    ticks = ids.Ticks()
    first = ticks.next(1000)
    handed = [ticks.next(900) for _ in range(5000)]
    assert handed == sorted(set(handed))
    assert first < handed[0]
    assert handed[-1][0] > 1000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0190A5C0-0000-7000-8000-000000000000", True),
        ("0190a5c0-0000-7000-8000-000000000000", True),
        ("0190a5c0000070008000000000000000", False),
        ("{0190a5c0-0000-7000-8000-000000000000}", False),
        ("0190a5c0-0000-7000-8000-00000000000g", False),
        ("0190a5c0-0000-7000-8000-000000000000\n", False),
        ("", False),
    ],
)
def test_only_the_usual_form_is_a_uuid(text: str, expected: bool) -> None:
    assert ids.is_uuid(text) is expected
