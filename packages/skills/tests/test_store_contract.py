"""The contract of run stores, on every implementation."""

import asyncio
from typing import Any

import pytest

from molecule_skill.errors import RunRefused, StateConflict
from molecule_skill.store import (
    JournalEntry,
    NewEvent,
    RequestRecord,
    RequestState,
    RunFailure,
    RunState,
    StateChange,
    StoreUnavailable,
)
from packages.skills.tests.stores import StoreUnderTest, new_run


@pytest.fixture
def store(under_test: StoreUnderTest) -> Any:
    return under_test.store


def event(kind: str = "progress", **payload: Any) -> NewEvent:
    return NewEvent(kind, payload, 101.0)


def request(id: str = "q_1", **fields: Any) -> RequestRecord:
    values: dict[str, Any] = {"id": id, "kind": "question", "requester": "agent", "run_id": "run_1"}
    values |= {"prompt": {"prompt": "?"}, "created_at": 101.0, "expires_at": 201.0, "ordinal": 1}
    return RequestRecord(**(values | fields))


async def finished(store: Any, run_id: str = "run_1", at: float = 102.0) -> None:
    await store.finish(run_id, 1, RunState.SUCCEEDED, result={"a": 1}, events=[event("run_finished")], at=at)


async def open_one(store: Any, new: Any) -> tuple[Any, bool]:
    return await store.open_run(new)


async def refusal(call: Any) -> str:
    with pytest.raises(RunRefused) as caught:
        await call
    return caught.value.code


async def test_a_run_is_what_was_opened(store: Any) -> None:
    new = new_run(
        org_id="o", session_id="s", idempotency_key="k", body_hash="h", deadline=5.5, auth={"sub": "x"}
    )
    record, is_new = await store.open_run(new)
    assert is_new
    assert await store.run("run_1") == record
    assert (record.new, record.state, record.attempt, record.fence, record.last_seq) == (
        new,
        "queued",
        1,
        1,
        0,
    )
    assert await store.run("run_2") is None


async def test_one_key_is_one_run_and_another_body_is_a_conflict(store: Any) -> None:
    keyed = {"idempotency_key": "k", "body_hash": "h"}
    both: tuple[Any, ...] = (new_run("run_1", **keyed), new_run("run_2", **keyed))
    opened = [await one for one in [asyncio.ensure_future(open_one(store, new)) for new in both]]
    assert [(record.run_id, is_new) for record, is_new in opened] == [("run_1", True), ("run_1", False)]
    assert (await store.run_of_key("agent", "user:ada", "k")).run_id == "run_1"
    other_body = store.open_run(new_run("run_3", idempotency_key="k", body_hash="x"))
    assert await refusal(other_body) == "idempotency-conflict"
    for other in ({"principal": "user:bob"}, {"agent": "other"}):
        assert (await store.open_run(new_run(f"run_{len(str(other))}", **keyed, **other)))[1]


async def test_events_are_numbered_from_1_without_a_gap(store: Any) -> None:
    await store.open_run(new_run())
    await store.set_state("run_1", 1, RunState.RUNNING, events=[event("run_started")])
    await store.append_events("run_1", 1, [event(n=1), event(n=2)])
    stored = await store.append_events("run_1", 1, [event(n=3)])
    assert [one.seq for one in stored] == [4]
    found = await store.events("run_1")
    assert [(one.seq, one.kind) for one in found] == [
        (1, "run_started"), (2, "progress"), (3, "progress"), (4, "progress"),
    ]  # fmt: skip
    assert [one.payload for one in await store.events("run_1", after=2, limit=1)] == [{"n": 2}]
    assert (await store.run("run_1")).last_seq == 4


async def test_emissions_of_the_author_are_counted_per_attempt(store: Any) -> None:
    await store.open_run(new_run())
    for ordinal, attempt in ((1, 1), (2, 1), (1, 2)):
        await store.append_events("run_1", 1, [NewEvent("progress", {}, 1.0, attempt, ordinal)])
    await store.append_events("run_1", 1, [NewEvent("retry", {}, 1.0, 1)])
    assert [await store.emitted("run_1", attempt) for attempt in (1, 2, 3)] == [2, 1, 0]


async def test_a_final_state_is_final(store: Any) -> None:
    await store.open_run(new_run())
    await finished(store)
    record = await store.run("run_1")
    assert (record.state, record.result, record.failure) == ("succeeded", {"a": 1}, None)
    for write in (
        store.finish("run_1", 1, RunState.FAILED, at=103.0),
        store.set_state("run_1", 1, RunState.RUNNING),
        store.append_events("run_1", 1, [event()]),
        store.open_request(request(), 1, event("question")),
        store.put_journal("run_1", 1, JournalEntry(1, "step", "k", "f", "done", 1)),
        store.put_artifact("run_1", 1, "a", b"x", "t", 1),
    ):
        assert await refusal(write) == "lease-lost"
    assert [one.kind for one in await store.events("run_1")] == ["run_finished"]


async def test_a_failure_is_kept_with_its_extras(store: Any) -> None:
    await store.open_run(new_run())
    failure = RunFailure("missing-scopes", "missing", 403, {"missing": ["a"]})
    await store.finish("run_1", 1, RunState.FAILED, failure=failure, at=103.0)
    assert (await store.run("run_1")).failure == failure


async def test_a_stale_fence_writes_nothing(under_test: StoreUnderTest) -> None:
    await under_test.store.open_run(new_run())
    following = under_test.kill(under_test.store)
    under_test.store = following
    [record] = await following.claim_abandoned("agent")
    assert record.fence == 2
    assert await refusal(following.append_events("run_1", 1, [event()])) == "lease-lost"
    assert await refusal(following.finish("run_1", 1, RunState.FAILED, at=1.0)) == "lease-lost"
    assert (await following.run("run_1")).state == "queued"
    assert await following.events("run_1") == []


async def test_runs_of_a_dead_owner_are_taken_over_once_and_those_of_a_living_one_never(
    under_test: StoreUnderTest,
) -> None:
    store = under_test.store
    await store.open_run(new_run("run_1"))
    await store.open_run(new_run("run_2"))
    await store.open_run(new_run("run_3", agent="other"))
    await finished(store, "run_2")
    assert await store.claim_abandoned("agent") == []
    under_test.store = following = under_test.kill(store)
    assert [one.run_id for one in await following.claim_abandoned("agent")] == ["run_1"]
    assert await following.claim_abandoned("agent") == []


async def test_an_interaction_is_a_row_with_its_event_before_anybody_sees_it(store: Any) -> None:
    await store.open_run(new_run())
    [stored] = await store.open_request(request(key="k", fingerprint="f"), 1, event("question"))
    assert stored.seq == 1
    assert (await store.run("run_1")).state == "waiting"
    assert await store.requests("run_1") == [request(key="k", fingerprint="f")]
    assert await store.pending_requests("agent") == ["q_1"]
    assert await store.pending_requests("other") == []


async def test_an_interaction_is_decided_once(store: Any) -> None:
    await store.open_run(new_run())
    await store.open_request(request(), 1, event("question"))
    decide = store.close_request
    first = await decide("q_1", RequestState.ANSWERED, answer="yes", answered_by="user:ada", at=103.0)
    second = await decide("q_1", RequestState.EXPIRED, answer=None, answered_by=None, at=104.0)
    assert first == second == await store.request("q_1")
    assert (first.state, first.answer, first.answered_by, first.answered_at) == (
        "answered", "yes", "user:ada", 103.0,
    )  # fmt: skip
    closed = [one for one in await store.events("run_1") if one.kind == "interaction_closed"]
    assert [one.payload for one in closed] == [{"id": "q_1", "state": "answered", "answered_by": "user:ada"}]
    unknown = await decide("q_2", RequestState.ANSWERED, answer=1, answered_by=None, at=1.0)
    assert unknown is None


async def test_the_end_of_a_run_cancels_what_still_waits(store: Any) -> None:
    await store.open_run(new_run())
    await store.open_request(request(), 1, event("question"))
    await finished(store)
    assert (await store.request("q_1")).state == "cancelled"
    kinds = [one.kind for one in await store.events("run_1")]
    assert kinds == ["question", "interaction_closed", "run_finished"]
    assert await store.pending_requests("agent") == []


async def test_the_journal_has_one_entry_per_ordinal(store: Any) -> None:
    await store.open_run(new_run())
    started = JournalEntry(2, "step", "k", "f", "started", 1)
    done = JournalEntry(2, "step", "k", "f", "done", 1, 2, {"v": [1]})
    for entry in (started, JournalEntry(1, "call", None, "g", "done", 1, 1, 0), done):
        await store.put_journal("run_1", 1, entry)
    assert await store.journal("run_1") == [JournalEntry(1, "call", None, "g", "done", 1, 1, 0), done]
    stored = await store.put_journal("run_1", 1, started, [NewEvent("retry", {"step": "k"}, 1.0)])
    assert stored == await store.events("run_1")
    with pytest.raises(RunRefused):
        await store.put_journal("run_1", 9, done, [NewEvent("retry", {}, 2.0)])
    assert (await store.journal("run_1"))[1] == started
    assert len(await store.events("run_1")) == 1


async def test_artifacts_have_versions_and_attempts_and_are_read_in_ranges(store: Any) -> None:
    await store.open_run(new_run())
    await store.open_run(new_run("run_2"))
    await store.put_artifact("run_1", 1, "b.txt", b"old", "text/plain", 1)
    await store.put_artifact("run_1", 1, "b.txt", b"0123456789", "text/plain", 1)
    await store.put_artifact("run_1", 1, "a.txt", b"failed", "text/plain", 1)
    await store.put_artifact("run_2", 1, "b.txt", b"other run", "text/plain", 1)
    latest = await store.put_artifact("run_1", 1, "b.txt", b"second", "text/plain", 2)
    assert [(one.name, one.size_bytes) for one in await store.artifacts("run_1", 1)] == [
        ("a.txt", 6), ("b.txt", 10),
    ]  # fmt: skip
    assert await store.artifacts("run_1", 2) == [latest]
    assert await store.artifact("run_1", "b.txt") == latest
    assert await store.artifact("run_1", "c") is None
    first = (await store.artifacts("run_1", 1))[1]
    assert await store.read_artifact(first.sha256, start=3, length=4) == b"3456"
    assert await store.read_artifact(first.sha256, start=8) == b"89"
    assert (await store.artifact("run_2", "b.txt")).sha256 != latest.sha256


async def test_state_is_saved_over_the_version_that_was_loaded(store: Any) -> None:
    assert await store.load_state("s") is None
    await store.save_state(StateChange("s", {"n": 1}, 0))
    with pytest.raises(StateConflict):
        await store.save_state(StateChange("s", {"n": 9}, 0))
    await store.save_state(StateChange("s", {"n": 2}, 1))
    with pytest.raises(StateConflict):
        await store.save_state(StateChange("s", {"n": 9}, 1))
    assert await store.load_state("s") == ({"n": 2}, 2)


async def test_a_state_and_the_effect_that_saves_it_are_kept_together_or_not_at_all(store: Any) -> None:
    await store.open_run(new_run())
    entry = JournalEntry(1, "state", None, "f", "done", 1, 1, {"version": 1})
    with pytest.raises(RunRefused):
        await store.put_journal("run_1", 9, entry, state=StateChange("s", {"n": 1}, 0))
    assert await store.load_state("s") is None
    await store.put_journal("run_1", 1, entry, state=StateChange("s", {"n": 1}, 0))
    assert (await store.journal("run_1"), await store.load_state("s")) == ([entry], ({"n": 1}, 1))
    again = JournalEntry(2, "state", None, "f", "done", 1, 1, {"version": 2})
    with pytest.raises(StateConflict):
        await store.put_journal("run_1", 1, again, state=StateChange("s", {"n": 2}, 0))
    assert (await store.journal("run_1"), await store.load_state("s")) == ([entry], ({"n": 1}, 1))


async def test_runs_are_listed_newest_first_in_pages(store: Any) -> None:
    for number in range(5):
        principal = "user:ada" if number != 2 else "user:bob"
        await store.open_run(new_run(f"run_{number}", principal=principal))
    ids = [one.run_id for one in await store.runs_of("agent", "user:ada", limit=2)]
    assert ids == ["run_4", "run_3"]
    rest = await store.runs_of("agent", "user:ada", limit=9, before="run_3")
    assert [one.run_id for one in rest] == ["run_1", "run_0"]
    assert len(await store.runs_of("agent", None)) == 5
    assert await store.runs_of("other", None) == []


async def test_pruning_removes_what_ended_long_ago_with_all_that_belongs_to_it(store: Any) -> None:
    for run_id in ("run_1", "run_2", "run_3"):
        await store.open_run(new_run(run_id, idempotency_key=run_id, created_at=1.0))
        await store.put_artifact(run_id, 1, "a", b"same" if run_id != "run_1" else b"alone", "t", 1)
    alone = (await store.artifact("run_1", "a")).sha256
    shared = (await store.artifact("run_2", "a")).sha256
    await finished(store, "run_1", at=10.0)
    await finished(store, "run_2", at=10.0)
    assert await store.prune(50.0) == 2
    assert await store.run("run_1") is None
    assert await store.run_of_key("agent", "user:ada", "run_1") is None
    assert await store.events("run_1") == []
    assert await store.read_artifact(shared) == b"same"
    with pytest.raises(StoreUnavailable):
        await store.read_artifact(alone)
    assert (await store.run("run_3")).state == "queued"


async def test_what_was_committed_is_there_after_the_process_was_killed(under_test: StoreUnderTest) -> None:
    store = under_test.store
    await store.open_run(new_run())
    await store.open_request(request(), 1, event("question"))
    await store.put_journal("run_1", 1, JournalEntry(1, "step", "k", "f", "done", 1, 1, "v"))
    await store.put_artifact("run_1", 1, "a", b"bytes", "t", 1)
    before = await store.run("run_1"), await store.events("run_1"), await store.requests("run_1")
    under_test.store = store = under_test.kill(store)
    assert (await store.run("run_1"), await store.events("run_1"), await store.requests("run_1")) == before
    assert [entry.value for entry in await store.journal("run_1")] == ["v"]
    assert await store.read_artifact((await store.artifact("run_1", "a")).sha256) == b"bytes"


async def test_the_owner_of_an_unfinished_run_learns_that_it_is_to_be_cancelled(
    store: Any, under_test: StoreUnderTest
) -> None:
    for run_id in ("run_1", "run_2"):
        await store.open_run(new_run(run_id))
        await store.ask_cancel(run_id)
    await store.ask_cancel("run_unknown")
    await finished(store, "run_2", at=10.0)
    assert await store.cancellations("agent") == ["run_1"]
    assert await store.cancellations("another") == []
    following = under_test.kill(store)
    assert await following.cancellations("agent") == []
    await following.claim_abandoned("agent")
    assert await following.cancellations("agent") == ["run_1"]
