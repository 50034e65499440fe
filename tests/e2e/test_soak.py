"""The soak: agents of every temper, and a platform that is killed while its hands are full."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from molecule_platform.testing import servers
from scripts.soak import agents, verdict
from scripts.soak.__main__ import PLANS
from scripts.soak.fleet import Engine
from scripts.soak.run import Plan, soak
from scripts.soak.senders import Errand, Outcome

SHORT = {
    "sqlite": Plan("sqlite", messages=40, kills=1, seconds=60.0),
    "postgres": Plan("postgres", messages=50, kills=2, seconds=60.0),
}


def keeps_its_promise(plan: Plan, folder: Path) -> None:
    try:
        found = asyncio.run(soak(plan, folder))
    except servers.ServerMissing as missing:
        pytest.skip(str(missing))
    print("\n".join(found.lines()))
    assert (found.sent, found.lost, found.twice) == (plan.messages, [], [])
    assert found.kills == plan.kills
    assert found.answered + sum(found.failed.values()) == plan.messages


@pytest.mark.e2e
@pytest.mark.long  # what is killed and started again has a shorter test in test_pulled_plug
@pytest.mark.timeout(120)
@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_a_short_soak_loses_nothing_and_answers_nothing_twice(engine: Engine, tmp_path: Path) -> None:
    keeps_its_promise(SHORT[engine], tmp_path)


@pytest.mark.e2e
@pytest.mark.long
@pytest.mark.timeout(330)
@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_the_soak_loses_nothing_and_answers_nothing_twice(engine: Engine, tmp_path: Path) -> None:
    keeps_its_promise(PLANS[engine], tmp_path)


def errand(number: int, *told: Outcome) -> Errand:
    return Errand(number, "prompt", "w", message_id=f"row-{number}", told=list(told))


def test_the_verdict_names_what_was_lost_and_what_was_answered_twice() -> None:
    answered = Outcome(True, "re")
    errands = [
        errand(0, answered),
        errand(1),
        errand(2, answered),
        errand(3, answered, Outcome(False, "no-reply")),
        errand(4, answered),
        errand(5, answered),
        errand(6, Outcome(False, "peer-unreachable")),
    ]
    seen = agents.new_seen()
    seen["prompt-5"] = Counter({"row-5": 1, "another row": 1})
    seen["prompt-0"] = Counter({"row-0": 2})
    endings = ["row-0", "row-1", "row-3", "row-4", "row-4", "row-5", "row-6"]
    found = verdict.judge("sqlite", 1, 1.0, errands, seen, endings)
    assert found.lost == ["prompt-1", "prompt-2"]
    assert found.twice == ["prompt-3", "prompt-4", "prompt-5"]
    assert (found.answered, found.failed, found.redelivered) == (5, {"peer-unreachable": 1}, 1)
    assert not found.kept
