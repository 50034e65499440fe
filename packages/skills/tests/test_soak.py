"""Real processes that are really killed: every run ends once, each step once, no event twice."""

from pathlib import Path

import pytest

from packages.skills.tests.soak import soak


def test_nothing_is_lost_or_doubled_when_the_process_is_killed(tmp_path: Path) -> None:
    report = soak(tmp_path, kills=3, runs=18)
    assert report.faults == []
    assert report.runs == 18


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_nothing_is_lost_or_doubled_in_500_kills(tmp_path: Path) -> None:
    report = soak(tmp_path, kills=500, runs=2000, seed=1)
    assert report.faults == []
    assert report.runs == 2000
    assert report.repeated_steps > 0  # the kills did hit steps
