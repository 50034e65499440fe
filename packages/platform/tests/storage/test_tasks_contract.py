"""Tasks and their events, on every store: numbers without gaps, one reader at a time, pages in order."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from molecule_platform.domain.tasks import Task, TaskEvent, TaskKey
from molecule_platform.ports.tasks import TaskFilter

if TYPE_CHECKING:
    from packages.platform.tests.conftest import MakeMessage
    from packages.platform.tests.storage.conftest import Store


def task(store: Store, task_id: str = "t1", **more: Any) -> Task:
    made = Task(
        workspace_id=store.ada.id,
        tenant="",
        id=task_id,
        org_id=store.org.id,
        owner="user:admin",
        context_id="c1",
        message_id="m1",
        state="submitted",
        status_at=store.ada.created_at,
        created_at=store.ada.created_at,
    )
    return replace(made, **more)


def said(text: str, state: str | None = None) -> TaskEvent:
    return TaskEvent("status" if state else "artifact", text.encode(), "1.0", state=state)


async def test_a_task_comes_back_as_it_was_kept(store: Store) -> None:
    whole = task(store, snapshot=b"\x00{}", look_at=store.ada.created_at, agent_task_id="a1", watchers=2)
    assert await store.storage.write(lambda tx: tx.tasks.insert(whole))
    assert await store.storage.read(lambda tx: tx.tasks.get(whole.key)) == whole
    assert not await store.storage.write(lambda tx: tx.tasks.insert(replace(whole, owner="other")))
    assert await store.storage.read(lambda tx: tx.tasks.get(TaskKey(store.ada.id, "other", "t1"))) is None


async def test_a_task_is_found_by_its_id_the_agent_s_and_its_message_s(
    store: Store, make_message: MakeMessage
) -> None:
    message = replace(make_message(target_id=store.ada.id), task_id="t1", seq=1)
    await store.storage.write(lambda tx: tx.mailbox.insert(message))
    await store.storage.write(lambda tx: tx.tasks.insert(task(store, agent_task_id="a1")))
    for name in ("t1", "a1", message.id):
        found = await store.storage.read(lambda tx, name=name: tx.tasks.named(store.ada.id, "", name))
        assert found is not None, name
        assert found.id == "t1"
    assert await store.storage.read(lambda tx: tx.tasks.named(store.bob.id, "", "t1")) is None
    assert await store.storage.read(lambda tx: tx.tasks.named(store.ada.id, "x", "t1")) is None


async def test_events_are_numbered_from_one_without_gaps_and_tell_the_state(store: Store) -> None:
    at = store.ada.created_at + timedelta(seconds=1)
    key = task(store).key
    await store.storage.write(lambda tx: tx.tasks.insert(task(store)))
    await store.storage.write(lambda tx: tx.tasks.append(key, None, [said("a"), said("b", "working")], at))
    after = await store.storage.write(lambda tx: tx.tasks.append(key, None, [said("c")], at))
    assert after is not None
    assert (after.last_seq, after.state, after.status_at, after.finished_at) == (3, "working", at, None)
    events = await store.storage.read(lambda tx: tx.tasks.events(key, 0, 10))
    assert [(event.seq, event.payload, event.message_id) for event in events] == [
        (1, b"a", "m1"),
        (2, b"b", "m1"),
        (3, b"c", "m1"),
    ]
    assert [event.seq for event in await store.storage.read(lambda tx: tx.tasks.events(key, 1, 1))] == [2]
    assert await store.storage.read(lambda tx: tx.tasks.newest([key])) == {key: 3}
    assert await store.storage.read(lambda tx: tx.tasks.oldest_seq(key)) == 1
    assert await store.storage.read(lambda tx: tx.tasks.first_of("m1")) == (key, 1)


async def test_nothing_follows_the_end_of_a_task(store: Store) -> None:
    at, key = store.ada.created_at, task(store).key
    await store.storage.write(lambda tx: tx.tasks.insert(task(store)))
    ended = await store.storage.write(lambda tx: tx.tasks.append(key, None, [said("a", "failed")], at))
    assert ended is not None
    assert ended.finished_at == at
    assert await store.storage.write(lambda tx: tx.tasks.append(key, None, [said("b")], at)) is None
    assert len(await store.storage.read(lambda tx: tx.tasks.events(key, 0, 10))) == 1


async def test_only_the_reader_of_now_appends(store: Store) -> None:
    at, key = store.ada.created_at, task(store).key
    await store.storage.write(lambda tx: tx.tasks.insert(task(store, reader="one")))
    assert await store.storage.write(lambda tx: tx.tasks.append(key, "one", [said("a")], at)) is not None
    await store.storage.write(lambda tx: tx.tasks.change(key, reader="two"))
    assert await store.storage.write(lambda tx: tx.tasks.append(key, "one", [said("b")], at)) is None
    assert await store.storage.write(lambda tx: tx.tasks.append(key, "two", [said("c")], at)) is not None


async def test_pages_hold_every_task_once_newest_status_first(store: Store) -> None:
    made = [
        task(
            store, f"t{n}", status_at=store.ada.created_at + timedelta(seconds=n // 2), context_id=f"c{n % 2}"
        )
        for n in range(7)
    ]
    for one in made:
        await store.storage.write(lambda tx, one=one: tx.tasks.insert(one))
    wanted = TaskFilter(store.ada.id, owner="user:admin")
    seen: list[Task] = []
    more = True
    while more:
        page, more = await store.storage.read(lambda tx: tx.tasks.page(wanted, 3))  # noqa: B023
        seen += page
        wanted = replace(wanted, before=(page[-1].status_at, page[-1].id))
    assert [one.id for one in seen] == ["t6", "t5", "t4", "t3", "t2", "t1", "t0"]
    everything = TaskFilter(store.ada.id, owner="user:admin")
    assert await store.storage.read(lambda tx: tx.tasks.count(everything)) == 7
    few = replace(everything, context_id="c1", states=("submitted",), status_after=made[1].status_at)
    assert await store.storage.read(lambda tx: tx.tasks.count(few)) == 2
    assert await store.storage.read(lambda tx: tx.tasks.page(TaskFilter(store.ada.id, "user:x"), 9)) == (
        [],
        False,
    )


async def test_what_is_due_and_what_was_abandoned_is_found(store: Store) -> None:
    now = store.ada.created_at
    rows = [
        task(store, "due", look_at=now),
        task(store, "later", look_at=now + timedelta(seconds=1)),
        task(store, "over", look_at=now, state="completed"),
        task(store, "waits", state="input-required"),
    ]
    for row in rows:
        await store.storage.write(lambda tx, row=row: tx.tasks.insert(row))
    assert [one.id for one in await store.storage.read(lambda tx: tx.tasks.due(now, 9))] == ["due"]
    later = now + timedelta(seconds=1)
    assert [one.id for one in await store.storage.read(lambda tx: tx.tasks.abandoned(later, 9))] == ["waits"]


async def test_a_page_of_events_ends_with_the_one_that_fills_it(store: Store) -> None:
    at, key = store.ada.created_at, task(store).key
    events = [said("x" * size) for size in (10, 10, 90, 10, 200)]
    await store.storage.write(lambda tx: tx.tasks.insert(task(store)))
    await store.storage.write(lambda tx: tx.tasks.append(key, None, events, at))

    async def page(after: int, limit: int, max_bytes: int) -> list[int]:
        found = await store.storage.read(lambda tx: tx.tasks.events(key, after, limit, max_bytes))
        return [event.seq for event in found]

    assert await page(0, 10, 1000) == [1, 2, 3, 4, 5]
    assert await page(0, 10, 100) == [1, 2, 3]
    assert await page(3, 10, 100) == [4, 5]
    assert await page(0, 2, 100) == [1, 2]
    assert await page(4, 10, 1) == [5]
    assert await page(5, 10, 100) == []


async def test_a_task_knows_its_artifacts_and_their_size_without_reading_its_log(store: Store) -> None:
    at, key = store.ada.created_at, task(store).key
    other = replace(key, id="t2")
    long_id = "long" * 5000
    first = TaskEvent("task", b"x" * 100, "1.0", begins=("a", long_id))
    more = [TaskEvent("artifact", b"x" * 10, "1.0", begins=("b",)), said("x" * 5)]
    for one in (task(store), task(store, "t2")):
        await store.storage.write(lambda tx, one=one: tx.tasks.insert(one))
    await store.storage.write(lambda tx: tx.tasks.append(key, None, [first], at))
    after = await store.storage.write(lambda tx: tx.tasks.append(key, None, more, at))
    again = await store.storage.write(lambda tx: tx.tasks.append(key, None, [first], at))
    assert after is not None
    assert again is not None
    assert (after.artifact_bytes, again.artifact_bytes) == (115, 115)

    async def has(key: TaskKey, *ids: str) -> bool:
        return await store.storage.read(lambda tx: tx.tasks.has_artifacts(key, ids))

    assert [await has(key, "a", "b", long_id), await has(key, "a", "c"), await has(other, "a")] == [
        True,
        False,
        False,
    ]


async def test_the_newest_status_is_found_up_to_a_number_and_for_one_message(store: Store) -> None:
    at, key = store.ada.created_at, task(store).key
    events = [said("one", "working"), replace(said("two", "working"), message_id="m2"), said("chunk")]
    await store.storage.write(lambda tx: tx.tasks.insert(task(store)))
    await store.storage.write(lambda tx: tx.tasks.append(key, None, events, at))

    async def payload(most: int, message_id: str | None = None) -> bytes | None:
        found = await store.storage.read(lambda tx: tx.tasks.last_status(key, most, message_id))
        return None if found is None else found.payload

    assert [await payload(3), await payload(1), await payload(0)] == [b"two", b"one", None]
    assert [await payload(3, "m1"), await payload(3, "m2"), await payload(3, "m3")] == [b"one", b"two", None]
