"""The spend of the month."""

import json
from pathlib import Path

from molecule_runtime.kit.state.spend import MonthlySpend


def test_the_spend_of_a_month_survives_a_restart(tmp_path: Path) -> None:
    file = tmp_path / ".spend.json"
    first = MonthlySpend(file)
    first.add(0.25)
    assert MonthlySpend(file).cents == 25.0
    assert MonthlySpend(file).add(0.05) == 30.0
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_new_month_begins_with_nothing(tmp_path: Path) -> None:
    file = tmp_path / ".spend.json"
    file.write_text(json.dumps({"month": "2001-01", "cents": 99.0}))
    spend = MonthlySpend(file)
    assert spend.cents == 0.0
    assert spend.add(0.01) == 1.0


def test_a_damaged_file_counts_as_none(tmp_path: Path) -> None:
    file = tmp_path / ".spend.json"
    file.write_text("[]")
    assert MonthlySpend(file).cents == 0.0
