"""What a heartbeat says, without a platform."""

from molecule_runtime.domain import heartbeats
from molecule_runtime.domain.heartbeats import HeartbeatReport, RequestCounters, RequestCounts


def test_what_is_counted_while_a_beat_is_on_its_way_stays() -> None:
    counters = RequestCounters()
    counters.record_error("first")
    counters.record_success()
    reported = counters.counts
    counters.record_error("second")
    counters.settle(reported)
    assert counters.counts == RequestCounts(1, 1, "second")
    counters.settle(counters.counts)
    assert counters.counts == RequestCounts()
    assert counters.counts.error_rate == 0.0


def test_an_error_that_was_reported_is_no_sample_any_more() -> None:
    counters = RequestCounters()
    counters.record_error("first")
    reported = counters.counts
    counters.record_success()
    counters.settle(reported)
    assert counters.counts == RequestCounts(1, 0, "")


def test_what_is_not_known_is_not_said() -> None:
    assert HeartbeatReport().request("w").json == {
        "workspace_id": "w",
        "error_rate": 0.0,
        "sample_error": "",
        "active_tasks": 0,
        "current_task": "",
        "uptime_seconds": 0,
    }


def test_the_time_between_beats_varies_by_a_tenth() -> None:
    assert [round(heartbeats.interval_of(30, None, chance), 6) for chance in (0.0, 0.5, 1.0)] == [27, 30, 33]
    assert heartbeats.interval_of(30, {"capabilities": {"heartbeat": True}}, 0.5) == 90
