"""The log of results: pending until a wake-up, then seen, and bounded."""

import pytest

from molecule_runtime.domain.delegation_results import MAX_SEEN_DELEGATION_IDS, ResultLog, wake_up
from molecule_wire import JSONObject


def row(delegation_id: str) -> JSONObject:
    return {"delegation_id": delegation_id, "source_id": "W", "status": "completed"}


def test_the_newest_two_hundred_are_remembered() -> None:
    log = ResultLog()
    names = [f"d{number}" for number in range(MAX_SEEN_DELEGATION_IDS + 1)]
    log.settle(names)
    assert log.sort([row(names[0])], "w").new == [row(names[0])]
    assert log.sort([row(names[1])], "w").new == []
    log.settle(["another"])
    assert log.sort([row(names[1])], "w").new == [], "what is still listed is not forgotten"


def test_a_log_comes_back_from_its_text() -> None:
    log = ResultLog()
    log.add([row("d1"), row("d2")])
    log.settle(["d1"])
    again = ResultLog.read(log.text())
    assert again.text() == log.text()
    assert list(again.pending) == ["d2"]


@pytest.mark.parametrize("text", ["", "rubbish", "[]", '{"seen": 1, "pending": [1]}', '{"seen": [1]}'])
def test_anything_else_is_an_empty_log(text: str) -> None:
    assert ResultLog.read(text).text() == ResultLog().text()


def test_a_long_summary_is_one_short_line() -> None:
    result: JSONObject = {"delegation_id": "d", "status": "completed", "summary": "two\nlines " + "x" * 300}
    line = wake_up([result], "").text.splitlines()[1]
    assert line.startswith("- d: completed: two lines xxx")
    assert line.endswith("...")
    assert len(line) < 230


def test_the_same_results_are_the_same_message() -> None:
    assert wake_up([row("d")], "") == wake_up([row("d")], "")
    assert wake_up([row("d")], "").message_id != wake_up([row("e")], "").message_id
