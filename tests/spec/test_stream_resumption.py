"""A stream that is cut at any point and joined again tells exactly what an uncut one tells."""

import concurrent.futures
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from molecule_platform.testing import behaviours
from molecule_platform.testing.scripted_agent import ScriptedAgent
from tests.spec.a2a import FRAMINGS, Caller, Frame, pushed
from tests.spec.platforms import Platform, Start

pytestmark = pytest.mark.both_engines

CHUNKS = 9
PREFIXES = {**behaviours.PREFIXES, "long": f"chunked:{CHUNKS}", "later": "slow:0.3"}


def told(frames: list[Frame]) -> list[tuple[int | None, Any]]:
    return [(frame.id, frame.event) for frame in frames]


def whole_task(caller: Caller) -> list[Frame]:
    """The uncut stream of a task with two messages."""
    frames = caller.stream(caller.message("what", "input-required-1"))
    task_id = frames[0].event["task"]["id"]
    caller.stream(caller.message("this", "long-1", taskId=task_id))
    return caller.subscribe(task_id, 0)


def resumed(caller: Caller, task_id: str, seen: int, take: int | None = None) -> list[Frame]:
    """What a reader gets that has seen events up to a number, without the thin task that greets it."""
    with caller.subscribing(task_id, seen) as frames:
        greeting = next(frames)
        assert greeting.id == seen
        assert greeting.event["task"]["metadata"] == {"molecule.resumedAfter": seen}
        assert greeting.event["task"].keys() == {"id", "contextId", "status", "metadata"}
        rest: list[Frame] = []
        for frame in frames:
            rest.append(frame)
            if len(rest) == take:
                break
        return rest


@pytest.mark.parametrize(("binding", "dialect"), FRAMINGS)
def test_a_stream_cut_at_every_point_and_joined_again_is_whole(
    platform: Platform, binding: Any, dialect: Any
) -> None:
    with pushed(platform, agent=ScriptedAgent(PREFIXES)) as agent:
        caller = agent.caller(binding, dialect)
        original = whole_task(caller)
        assert [frame.id for frame in original] == list(range(1, len(original) + 1))
        task_id = original[0].event["task"]["id"]
        for cut in range(1, len(original)):
            assert told(original[:cut] + resumed(caller, task_id, cut)) == told(original), cut


def test_a_stream_cut_any_number_of_times_is_whole(platform: Platform) -> None:
    with pushed(platform, agent=ScriptedAgent(PREFIXES)) as agent:
        caller = agent.caller()
        original = whole_task(caller)
        task_id = original[0].event["task"]["id"]
        last = len(original)

        @settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
        @given(cuts=st.sets(st.integers(1, last - 1), max_size=6))
        def joined(cuts: set[int]) -> None:
            ends = [*sorted(cuts), last]
            pieces = original[: ends[0]]
            for seen, end in zip(ends, ends[1:], strict=False):
                pieces = pieces + resumed(caller, task_id, seen, end - seen)
            assert told(pieces) == told(original)

        joined()


def test_a_reader_that_joins_while_the_work_goes_on_misses_nothing(platform: Platform) -> None:
    with pushed(platform, agent=ScriptedAgent(PREFIXES)) as agent:
        caller = agent.caller()
        with (
            concurrent.futures.ThreadPoolExecutor(8) as pool,
            caller.streaming(caller.message("x", "later-1")) as frames,
        ):
            first = next(frames)
            task_id = first.event["task"]["id"]
            readers = [pool.submit(caller.subscribe, task_id, 0) for _ in range(8)]
            original = [first, *frames]
            for reader in readers:
                assert told(reader.result(15)) == told(original)


def test_a_stream_goes_on_after_a_restart_where_it_was(restarting: Start) -> None:
    before = restarting()
    with pushed(before, agent=ScriptedAgent(PREFIXES)) as agent:
        original = whole_task(agent.caller())
        before.stop()
        after = Caller(restarting(), agent.id)
        task_id = original[0].event["task"]["id"]
        assert told(original[:4] + resumed(after, task_id, 4)) == told(original)
