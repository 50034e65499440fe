"""Streams of `/invoke` can be cut after any frame and resumed: nothing is lost and nothing comes twice."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from molecule_skill.serve import streams
from packages.skills.tests.serve.served import STREAMS_CUT, Served, serving

Frame = tuple[str | None, Any]


@pytest.fixture(scope="module")
async def served() -> AsyncIterator[Served]:
    async with serving() as one:
        yield one


async def whole(served: Served, skill: str, **arguments: Any) -> list[Frame]:
    return await served.frames("POST", f"/invoke/{skill}", json={"arguments": arguments})


async def test_frames_are_events_then_the_result_then_done(served: Served) -> None:
    frames = await whole(served, "add", a=1)
    run_id = frames[0][1]["run_id"]
    assert [number for number, _ in frames[:-1]] == [f"{run_id}:{n}" for n in range(1, len(frames))]
    assert frames[-1] == (None, "[DONE]")
    assert frames[-2][1] == {
        "type": "result",
        "run_id": run_id,
        "result": {"sum": 2},
        "artifacts": [],
        "grant_id": None,
    }
    progress = next(data for _, data in frames if data != "[DONE]" and data.get("kind") == "progress")
    assert progress.keys() == {"type", "seq", "run_id", "kind", "payload"}


async def test_an_error_is_a_frame_and_refusals_of_the_gate_are_plain_answers(served: Served) -> None:
    frames = await whole(served, "fail", message="boom")
    error = frames[-2][1]
    assert (error["type"], error["status"], error["code"]) == ("error", 500, "skill-failed")
    assert error["error"] == error["detail"]
    headers = {"accept": "text/event-stream"}
    for path, status in (("/invoke/absent", 404), ("/invoke/add", 400), ("/invoke/guarded", 403)):
        answer = await served.http.post(path, headers=headers)
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/json"


async def test_headers_keep_proxies_from_holding_the_stream_back(served: Served) -> None:
    async with served.http.stream(
        "POST", "/invoke/nothing", headers={"accept": "text/event-stream"}
    ) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-accel-buffering"] == "no"
        first = [line async for line in answer.aiter_lines()][:3]
    assert first[0].startswith("id: run_")
    assert first[1] == "event: message"


async def test_a_silent_stream_pings(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "PING_SECONDS", 0.02)
    async with served.http.stream(
        "POST", "/invoke/wait", json={"arguments": {"seconds": 30}}, headers={"accept": "text/event-stream"}
    ) as answer:
        async for line in answer.aiter_lines():
            if line == ": ping":
                break


async def resumed(
    served: Served, frames: list[Frame], cut: int, by_key: dict[str, Any] | None
) -> list[Frame]:
    """What comes after `cut` frames, by the run's own path or by the same post again."""
    run_id = str(frames[0][1]["run_id"])
    last = frames[cut - 1][0] or ""
    headers = {"last-event-id": last}
    if by_key is not None:
        return await served.frames(
            "POST", by_key["path"], json=by_key["json"], headers={**headers, **by_key["headers"]}
        )
    return await served.frames("GET", f"/runs/{run_id}/events", headers=headers)


@pytest.mark.parametrize("again", ["events", "post", "after"])
async def test_after_every_cut_the_rest_comes_and_nothing_else(served: Served, again: str) -> None:
    post: dict[str, Any] = {
        "path": "/invoke/tell",
        "json": {"arguments": {"words": 4}},
        "headers": {"idempotency-key": f"cut-{again}"},
    }
    frames = await served.frames("POST", post["path"], json=post["json"], headers=post["headers"])
    run_id = frames[0][1]["run_id"]
    for cut in range(1, len(frames)):
        if again == "after":
            number = str(frames[cut - 1][0]).rpartition(":")[2]
            rest = await served.frames("GET", f"/runs/{run_id}/events?after={number}")
        else:
            rest = await resumed(served, frames, cut, post if again == "post" else None)
        assert rest == frames[cut:]


async def test_a_cursor_of_another_run_or_beyond_the_end_is_refused(served: Served) -> None:
    frames = await whole(served, "nothing")
    run_id = frames[0][1]["run_id"]
    for last, status in ((f"{run_id}:99", 409), ("run_other:1", 400), ("x", 400), (f"{run_id}:", 400)):
        answer = await served.http.get(
            f"/runs/{run_id}/events", headers={"accept": "text/event-stream", "last-event-id": last}
        )
        assert answer.status_code == status


@pytest.mark.slow  # thirty conversations over a socket; `make test-long` has a thousand
@given(
    words=st.integers(0, 12),
    cuts=st.lists(st.integers(1, 6), max_size=8),
    skill=st.sampled_from(["tell", "add", "fail", "twice"]),
)
@settings(max_examples=STREAMS_CUT, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_a_live_stream_cut_anywhere_and_resumed_is_the_whole_stream(
    served: Served, words: int, cuts: list[int], skill: str
) -> None:
    """The run goes on meanwhile: some cuts fall before what they resume with was told."""
    arguments: dict[str, dict[str, Any]] = {
        "tell": {"words": words},
        "add": {"a": words},
        "fail": {"message": "x"},
        "twice": {},
    }
    answering = asyncio.ensure_future(answer_all(served)) if skill == "twice" else None
    body = {"arguments": arguments[skill]}
    frames: list[Frame] = await served.frames(
        "POST", f"/invoke/{skill}", json=body, limit=cuts[0] if cuts else None
    )
    run_id = frames[0][1]["run_id"]
    for size in [*cuts[1:], None]:
        if frames[-1][1] == "[DONE]":
            break
        frames += await served.frames(
            "GET", f"/runs/{run_id}/events", headers={"last-event-id": str(frames[-1][0])}, limit=size
        )
    if answering is not None:
        answering.cancel()
    numbers = [number for number, _ in frames]
    assert frames[-1][1] == "[DONE]"
    assert numbers[:-1] == [f"{run_id}:{n}" for n in range(1, len(frames))]
    assert frames == await served.frames("GET", f"/runs/{run_id}/events")


async def answer_all(served: Served) -> None:
    """Answer every question as it comes."""
    while True:
        for record in await served.app.gate.runs(None, limit=3):
            for interaction in await served.app.gate.reader(record.run_id, None).interactions():
                if interaction.state == "pending":
                    await served.http.post(f"/answers/{interaction.id}", json={"answer": "yes"})
        await asyncio.sleep(0.01)
