"""What an agent says while its stream is cut reaches its caller all the same."""

import itertools
from typing import Any

import pytest

from molecule_wire.a2a import tasks
from molecule_wire.a2a.operations import Dialect
from tests.spec.a2a import Frame, pushed
from tests.spec.cut_agent import CutAgent, at_random
from tests.spec.platforms import Platform

pytestmark = pytest.mark.both_engines


@pytest.fixture
def platform(patient: Platform) -> Platform:
    """What is asked here is also answered."""
    return patient


def told(platform: Platform, agent: CutAgent, dialect: Dialect) -> list[Frame]:
    """All that the caller of the agent is told, numbered without a gap."""
    with pushed(platform, agent=agent) as joined:
        caller = joined.caller("rpc", dialect)
        frames = caller.stream(caller.message("go"))
    assert [frame.id for frame in frames] == list(range(1, len(frames) + 1))
    return frames


def whole(frames: list[Frame]) -> dict[str, Any]:
    """The task that the events make."""
    folded: Any = None
    for frame in frames:
        folded = tasks.fold(folded, frame.event)
    return folded


def chunks(task: dict[str, Any]) -> list[str]:
    return [part["text"] for artifact in task["artifacts"] for part in artifact["parts"]]


def check_whole(platform: Platform, agent: CutAgent, dialect: Dialect) -> None:
    task = whole(told(platform, agent, dialect))
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert chunks(task) == agent.all_said
    assert "molecule.gap" not in task.get("metadata", {})


@pytest.mark.parametrize("dialect", ["1.0", "0.3"])
def test_no_chunk_is_missed_when_streams_are_cut_at_random_places(
    platform: Platform, dialect: Dialect
) -> None:
    check_whole(platform, CutAgent(dialect, at_random(20, seed=1)), dialect)


@pytest.mark.long  # two hundred streams, one after the other
@pytest.mark.parametrize("dialect", ["1.0", "0.3"])
def test_no_chunk_is_missed_over_two_hundred_cuts(platform: Platform, dialect: Dialect) -> None:
    check_whole(platform, CutAgent(dialect, at_random(200, seed=2)), dialect)


@pytest.mark.parametrize("dialect", ["1.0", "0.3"])
def test_no_chunk_is_missed_when_every_stream_is_cut_after_one_event(
    platform: Platform, dialect: Dialect
) -> None:
    check_whole(platform, CutAgent(dialect, itertools.repeat(1, 15)), dialect)


def test_a_gap_that_cannot_be_closed_is_marked_in_the_stream(platform: Platform) -> None:
    agent = CutAgent("0.3", [4], shows_tasks=False)
    frames = told(platform, agent, "0.3")
    bodies: list[dict[str, Any]] = [body for frame in frames for body in frame.event.values()]
    [first] = [n for n, body in enumerate(bodies) if body.get("metadata") == {"molecule.gap": True}]
    known = chunks(whole(frames[:first]))
    assert known == agent.all_said[: len(known)]
    assert whole(frames)["metadata"]["molecule.gap"] is True
