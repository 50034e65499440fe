"""Webhooks are told of every event in order, until they take it, and nobody waits for them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from sqlalchemy import delete

from molecule_platform.domain import push
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.push import LEASE
from molecule_platform.domain.tasks import TaskEvent
from molecule_platform.egress import guard
from molecule_platform.ports.storage import StorageDown, Transaction
from molecule_platform.services.messaging.webhooks import notifier as notifier_module
from molecule_platform.storage.tables import message_events
from molecule_platform.storage.transaction import SqlTransaction

if TYPE_CHECKING:
    from packages.platform.tests.conftest import Eventually
    from packages.platform.tests.services.webhooks.conftest import Desk, Hooks

HOUR = 3600.0


def answers(status: int, **headers: str) -> web.Response:
    return web.Response(status=status, headers=headers)


async def test_an_event_is_told_as_soon_as_it_is_kept(
    waiters: Desk, hooks: Hooks, eventually: Eventually
) -> None:
    waiters.notifier()
    key = await waiters.begin()
    secret: Any = {"token": "tok-1", "authentication": {"scheme": "Bearer", "credentials": "abc"}}
    await waiters.watch(key, hooks.url("/a"), **secret)
    await waiters.says(key, "hello")
    await eventually(lambda: len(hooks.heard) == 1)
    [told] = hooks.heard
    assert told.body == {
        "artifactUpdate": {
            "taskId": "t1",
            "contextId": "c1",
            "artifact": {"artifactId": "out", "parts": [{"text": "hello"}]},
        }
    }
    assert told.headers["Content-Type"] == "application/a2a+json"
    assert told.headers["A2A-Version"] == "1.0"
    assert told.headers["X-A2A-Notification-Token"] == "tok-1"
    assert told.headers["Authorization"] == "Bearer abc"
    assert (told.seq, len(told.headers["X-Molecule-Delivery"])) == (2, 36)
    await eventually(lambda: waiters.is_empty(key))


async def test_every_event_is_told_once_and_in_order_to_everyone(
    waiters: Desk, hooks: Hooks, eventually: Eventually
) -> None:
    waiters.notifier()
    key = await waiters.begin()
    for path in ("/a", "/b"):
        await waiters.watch(key, hooks.url(path))
    for batch in range(10):
        await waiters.says(key, *(f"{batch}-{n}" for n in range(10)))
    await waiters.ends(key)
    wanted = list(range(2, 103))
    await eventually(lambda: len(hooks.heard) >= 2 * len(wanted))
    await eventually(lambda: waiters.is_empty(key))
    assert hooks.seqs("/a") == hooks.seqs("/b") == wanted
    assert len({one.headers["X-Molecule-Delivery"] for one in hooks.heard}) == 2 * len(wanted)


async def test_a_client_of_0_3_is_told_the_whole_task_as_of_each_event(
    waiters: Desk, hooks: Hooks, eventually: Eventually
) -> None:
    key = await waiters.begin()
    await waiters.watch(key, hooks.url("/a"), "0.3")
    await waiters.says(key, "one", "two")
    await waiters.ends(key)
    waiters.notifier().wake()
    await eventually(lambda: len(hooks.heard) == 3)
    texts = [[part["text"] for part in one.body["artifacts"][0]["parts"]] for one in hooks.heard]
    assert texts == [["one"], ["one", "two"], ["one", "two"]]
    assert [one.body["status"]["state"] for one in hooks.heard] == ["submitted", "submitted", "completed"]
    assert {(one.body["kind"], one.body["id"]) for one in hooks.heard} == {("task", "t1")}
    assert hooks.heard[0].body["artifacts"][0]["parts"][0]["kind"] == "text"
    assert hooks.heard[0].headers["Content-Type"] == "application/json"
    assert hooks.heard[0].headers["A2A-Version"] == "0.3"


async def test_a_whole_task_is_told_from_its_snapshot_when_it_has_one(
    waiters: Desk, hooks: Hooks, eventually: Eventually
) -> None:
    key = await waiters.begin()
    await waiters.watch(key, hooks.url("/a"), "0.3")
    at = {"id": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_WORKING"}, "metadata": {"n": 2**60}}
    snapshot = json.dumps(at).encode()
    await waiters.storage.write(lambda tx: tx.tasks.change(key, snapshot=snapshot, snapshot_seq=1))
    await waiters.says(key, "one")
    waiters.notifier().wake()
    await eventually(lambda: len(hooks.heard) == 1)
    assert hooks.heard[0].body["metadata"] == {"n": 2**60}
    assert hooks.heard[0].body["status"]["state"] == "working"


async def test_what_an_agent_said_in_0_3_is_told_in_1_0_and_1_0_passes_byte_for_byte(
    waiters: Desk, hooks: Hooks, eventually: Eventually
) -> None:
    waiters.notifier()
    key = await waiters.begin()
    await waiters.watch(key, hooks.url("/a"))
    old = {"kind": "status-update", "taskId": "t1", "contextId": "c1", "final": False}
    old |= {"status": {"state": "working"}, "metadata": {"n": 2**60}}
    exact = b'{ "statusUpdate": {"taskId":"t1","status":{"state":"TASK_STATE_WORKING"},"x":false}}'
    await waiters.append(
        key,
        TaskEvent("status", json.dumps(old).encode(), "0.3", state="working"),
        TaskEvent("status", exact, "1.0", state="working"),
    )
    await eventually(lambda: len(hooks.heard) == 2)
    assert hooks.heard[0].body == {
        "statusUpdate": {
            "taskId": "t1",
            "contextId": "c1",
            "status": {"state": "TASK_STATE_WORKING"},
            "metadata": {"n": 2**60},
        }
    }
    assert hooks.heard[1].raw == exact


async def test_a_slow_webhook_delays_nobody_but_itself(
    waiters: Desk, hooks: Hooks, eventually: Eventually
) -> None:
    waiters.notifier()
    key = await waiters.begin()
    gate = hooks.shut_at("/slow")
    await waiters.watch(key, hooks.url("/slow"))
    await waiters.watch(key, hooks.url("/quick"))
    for n in range(5):
        await waiters.says(key, str(n))
    await eventually(lambda: hooks.seqs("/quick") == [2, 3, 4, 5, 6])
    assert hooks.seqs("/slow") == [2]
    gate.set()
    await eventually(lambda: hooks.seqs("/slow") == [2, 3, 4, 5, 6])


async def test_at_most_so_many_are_told_at_once_and_everyone_in_the_end(
    waiters: Desk, hooks: Hooks, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifier_module, "MAX_CONCURRENT", 4)
    keys = [await waiters.begin(f"t{n}") for n in range(12)]
    gates = [hooks.shut_at(f"/{n}") for n in range(12)]
    for n, key in enumerate(keys):
        await waiters.watch(key, hooks.url(f"/{n}"))
        await waiters.says(key, "one")
    waiters.notifier().wake()
    await eventually(lambda: len(hooks.heard) == 4)
    for gate in gates:
        gate.set()
    await eventually(lambda: len(hooks.heard) == 12)
    assert hooks.most_at_once == 4
    for key in keys:
        await eventually(lambda key=key: waiters.is_empty(key))


async def test_one_who_has_much_to_hear_lets_others_have_their_turn(
    waiters: Desk, hooks: Hooks, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifier_module, "MAX_CONCURRENT", 1)
    monkeypatch.setattr(notifier_module, "MAX_CONSECUTIVE", 3)
    first, second = await waiters.begin("t1"), await waiters.begin("t2")
    await waiters.watch(first, hooks.url("/busy"))
    await waiters.watch(second, hooks.url("/other"))
    await waiters.says(first, *map(str, range(10)))
    waiters.clock.advance(1)
    await waiters.says(second, "one")
    waiters.clock.advance(1)
    waiters.notifier().wake()
    await eventually(lambda: len(hooks.heard) == 11)
    order = [one.path for one in hooks.heard]
    assert order.index("/other") == 3
    assert hooks.seqs("/busy") == list(range(2, 12))


async def test_a_failure_is_tried_again_on_time_under_the_same_name_and_nothing_overtakes_it(
    waiters: Desk, hooks: Hooks, eventually: Eventually
) -> None:
    one = waiters.notifier()
    key = await waiters.begin()
    await waiters.watch(key, hooks.url("/a"))
    hooks.answers["/a"] = [answers(500), answers(404), answers(503)]
    await waiters.says(key, "one", "two")
    await eventually(lambda: len(hooks.heard) == 1)
    for tried, wait in enumerate((1, 5, 30), 1):
        await eventually(lambda: not one._posting)
        waiters.clock.advance(wait - 0.1)
        one.wake()
        await eventually(lambda: one._pump is None)
        assert len(hooks.heard) == tried
        waiters.clock.advance(0.1)
        one.wake()
        await eventually(lambda tried=tried: len(hooks.heard) > tried)
    await eventually(lambda: hooks.seqs("/a") == [2, 2, 2, 2, 3])
    assert len({told.headers["X-Molecule-Delivery"] for told in hooks.heard[:4]}) == 1
    await eventually(lambda: waiters.is_empty(key))
    [config] = await waiters.kept(key)
    assert config.failures == 0


@pytest.mark.parametrize("asked", ["120", "Sat, 02 May 2026 12:02:00 GMT"])
async def test_a_webhook_that_asks_for_time_gets_it(
    waiters: Desk, hooks: Hooks, eventually: Eventually, asked: str
) -> None:
    one = waiters.notifier()
    key = await waiters.begin()
    await waiters.watch(key, hooks.url("/a"))
    hooks.answers["/a"] = [answers(429, **{"Retry-After": asked})]
    await waiters.says(key, "one")
    await eventually(lambda: len(hooks.heard) == 1 and not one._posting)
    waiters.clock.advance(119)
    one.wake()
    await eventually(lambda: one._pump is None)
    assert len(hooks.heard) == 1
    waiters.clock.advance(1)
    one.wake()
    await eventually(lambda: len(hooks.heard) == 2)


@pytest.mark.parametrize("asked", ["soon", "-1", "", "Sat, 99 May 2026", "1" * 400])
async def test_a_wish_for_time_that_cannot_be_read_harms_nothing(
    waiters: Desk, hooks: Hooks, eventually: Eventually, asked: str
) -> None:
    one = waiters.notifier()
    key = await waiters.begin()
    await waiters.watch(key, hooks.url("/a"))
    hooks.answers["/a"] = [answers(503, **{"Retry-After": asked})]
    await waiters.says(key, "one", "two")
    await eventually(lambda: len(hooks.heard) == 1 and not one._posting)
    waiters.clock.advance(24 * HOUR)
    one.wake()
    await eventually(lambda: waiters.is_empty(key))
    assert waiters.log.said == []


async def test_a_webhook_that_is_gone_is_not_called_again(
    waiters: Desk, hooks: Hooks, eventually: Eventually
) -> None:
    one = waiters.notifier()
    key = await waiters.begin()
    for path in ("/gone", "/stays"):
        await waiters.watch(key, hooks.url(path), id=path.strip("/"))
    hooks.always["/gone"] = lambda: answers(410)
    await waiters.says(key, "one", "two")
    await eventually(lambda: hooks.seqs("/stays") == [2, 3] and not one._posting)
    assert hooks.seqs("/gone") == [2]
    assert [config.config_id for config in await waiters.kept(key)] == ["stays"]
    assert (await waiters.task(key)).watchers == 1


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_a_failure_and_not_followed(
    waiters: Desk, hooks: Hooks, eventually: Eventually, status: int
) -> None:
    one = waiters.notifier()
    key = await waiters.begin()
    await waiters.watch(key, hooks.url("/a"))
    hooks.always["/a"] = lambda: answers(status, Location=hooks.url("/elsewhere"))
    await waiters.says(key, "one")
    await eventually(lambda: len(hooks.heard) == 1 and not one._posting)
    assert hooks.of("/elsewhere") == []
    [config] = await waiters.kept(key)
    assert config.failures == 1


async def failing(waiters: Desk, one: Any, hooks: Hooks, eventually: Eventually, times: int) -> None:
    for _ in range(times):
        before = len(hooks.heard)
        one.wake()
        await eventually(lambda before=before: len(hooks.heard) > before and not one._posting)
        waiters.clock.advance(1.2 * HOUR)


async def test_after_twenty_failures_in_a_row_a_config_is_disabled_and_that_is_told(
    waiters: Desk, hooks: Hooks, eventually: Eventually, ann: Principal
) -> None:
    one = waiters.notifier()
    key = await waiters.begin()
    await waiters.watch(key, hooks.url("/a"), id="c1")
    hooks.always["/a"] = lambda: answers(500)
    await waiters.says(key, "one", "two")
    waiters.chance = 0.999
    await failing(waiters, one, hooks, eventually, 19)
    [config] = await waiters.kept(key)
    assert (config.failures, config.disabled_at) == (19, None)
    await failing(waiters, one, hooks, eventually, 1)
    [config] = await waiters.kept(key)
    assert (config.failures, config.disabled_at is not None) == (20, True)
    assert (await waiters.task(key)).watchers == 0
    assert await waiters.is_empty(key)
    await waiters.says(key, "three")
    one.wake()
    await eventually(lambda: one._pump is None)
    assert len(hooks.heard) == 20
    [event] = await waiters.storage.read(lambda tx: tx.events.after(0, 100))
    assert event.event_type == "PUSH_CONFIG_DISABLED"
    error = "the webhook answered HTTP 500"
    assert event.payload == {"task_id": "t1", "config_id": "c1", "error": error}
    # Registered anew, it is told again.
    await waiters.watch(key, hooks.url("/b"), id="c1")
    await waiters.says(key, "four")
    await eventually(lambda: hooks.seqs("/b") == [5])
    assert (await waiters.configs.get(ann, key, "c1"))["url"] == hooks.url("/b")


async def test_a_success_starts_the_count_of_failures_anew(
    waiters: Desk, hooks: Hooks, eventually: Eventually
) -> None:
    one = waiters.notifier()
    key = await waiters.begin()
    await waiters.watch(key, hooks.url("/a"))
    hooks.answers["/a"] = [answers(500) for _ in range(15)]
    await waiters.says(key, "one")
    await failing(waiters, one, hooks, eventually, 16)
    hooks.answers["/a"] = [answers(500) for _ in range(15)]
    await waiters.says(key, "two")
    await failing(waiters, one, hooks, eventually, 16)
    [config] = await waiters.kept(key)
    assert (config.failures, config.disabled_at) == (0, None)
    assert len(hooks.heard) == 32


async def test_after_a_day_an_event_is_given_up_and_the_next_one_has_its_try(
    waiters: Desk, hooks: Hooks, eventually: Eventually
) -> None:
    one = waiters.notifier()
    key = await waiters.begin()
    await waiters.watch(key, hooks.url("/a"))
    hooks.answers["/a"] = [answers(500), answers(500)]
    await waiters.says(key, "one", "two")
    await eventually(lambda: len(hooks.heard) == 1 and not one._posting)
    waiters.clock.advance(push.KEPT.total_seconds())
    one.wake()
    await eventually(lambda: hooks.seqs("/a") == [2, 2, 3])
    await eventually(lambda: waiters.is_empty(key))


async def test_an_address_that_turns_private_after_it_was_registered_is_not_called(
    waiters: Desk, hooks: Hooks, eventually: Eventually
) -> None:
    asked: list[str] = []

    async def rebinding(host: str, _port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"]

    one = waiters.notifier(policy=guard.caller_policy(push_allow_private=False), resolver=rebinding)
    key = await waiters.begin()
    await waiters.watch(key, hooks.url("/a", host="hook.example"))
    await waiters.says(key, "one")
    await eventually(lambda: bool(asked) and not one._posting)
    assert hooks.heard == []
    [config] = await waiters.kept(key)
    assert config.failures == 1


async def test_a_webhook_that_does_not_answer_in_time_has_failed(
    waiters: Desk, hooks: Hooks, eventually: Eventually
) -> None:
    one = waiters.notifier(seconds=0.05)
    key = await waiters.begin()
    hooks.shut_at("/a")
    await waiters.watch(key, hooks.url("/a"))
    await waiters.says(key, "one")

    async def has_failed() -> bool:
        [config] = await waiters.kept(key)
        return config.failures == 1 and not one._posting

    await eventually(has_failed)


async def test_nobody_listening_is_a_failure_and_a_long_answer_is_not(
    waiters: Desk, hooks: Hooks, eventually: Eventually
) -> None:
    one = waiters.notifier()
    key = await waiters.begin()
    await waiters.watch(key, "http://127.0.0.1:1/", id="nobody")
    await waiters.watch(key, hooks.url("/talker"), id="talker")
    hooks.always["/talker"] = lambda: web.Response(body=b"x" * 300_000)
    await waiters.says(key, "one", "two")
    await eventually(lambda: hooks.seqs("/talker") == [2, 3] and not one._posting)
    failures = {config.config_id: config.failures for config in await waiters.kept(key)}
    assert failures == {"nobody": 1, "talker": 0}


async def test_a_replica_that_stops_gives_back_what_it_was_telling(
    waiters: Desk, hooks: Hooks, eventually: Eventually
) -> None:
    one = waiters.notifier()
    key = await waiters.begin()
    gate = hooks.shut_at("/a")
    await waiters.watch(key, hooks.url("/a"))
    await waiters.says(key, "one")
    await eventually(lambda: len(hooks.heard) == 1)
    await one.stop()
    gate.set()
    waiters.notifier("replica-two").wake()
    await eventually(lambda: len(hooks.heard) == 2)
    first, second = hooks.heard
    assert first.headers["X-Molecule-Delivery"] == second.headers["X-Molecule-Delivery"]
    await eventually(lambda: waiters.is_empty(key))
    [config] = await waiters.kept(key)
    assert config.failures == 0


async def test_what_a_lost_replica_was_telling_is_told_by_another_after_its_lease(
    waiters: Desk, hooks: Hooks, eventually: Eventually
) -> None:
    key = await waiters.begin()
    await waiters.watch(key, hooks.url("/a"))
    await waiters.says(key, "one")
    now = waiters.clock.now()
    [lost] = await waiters.storage.write(lambda tx: tx.outbox.lease("lost", now, now + LEASE, 10))
    two = waiters.notifier("replica-two")
    waiters.clock.advance(29)
    two.wake()
    await eventually(lambda: two._pump is None)
    assert hooks.heard == []
    waiters.clock.advance(1)
    two.wake()
    await eventually(lambda: len(hooks.heard) == 1)
    assert hooks.heard[0].headers["X-Molecule-Delivery"] == lost.id


async def test_two_replicas_share_the_work_without_telling_twice(
    waiters: Desk, hooks: Hooks, eventually: Eventually
) -> None:
    for replica in ("one", "two", "three"):
        waiters.notifier(replica)
    keys = [await waiters.begin(f"t{n}") for n in range(10)]
    for n, key in enumerate(keys):
        await waiters.watch(key, hooks.url(f"/{n}"))
    for _ in range(5):
        await asyncio.gather(*(waiters.says(key, "more") for key in keys))
    for key in keys:
        await eventually(lambda key=key: waiters.is_empty(key))
    assert all(hooks.seqs(f"/{n}") == [2, 3, 4, 5, 6] for n in range(10))


async def test_credentials_that_cannot_be_opened_are_a_failure_and_shown_nowhere(
    waiters: Desk, hooks: Hooks, eventually: Eventually
) -> None:
    one = waiters.notifier()
    key = await waiters.begin()
    await waiters.watch(key, hooks.url("/a"), token="very-secret")
    await waiters.watch(key, hooks.url("/b"))
    config = (await waiters.kept(key))[0]
    await waiters.storage.write(lambda tx: tx.push_configs.change(config.id, secret_sealed="k9.very-secret"))
    await waiters.says(key, "one")
    await eventually(lambda: hooks.seqs("/b") == [2] and not one._posting)
    assert (await waiters.kept(key))[0].failures == 1
    assert hooks.of("/a") == []
    assert "very-secret" not in str(waiters.log.said)


def forget_events(tx: Transaction) -> None:
    assert isinstance(tx, SqlTransaction)
    tx.connection.execute(delete(message_events))


@pytest.mark.parametrize("dialect", ["1.0", "0.3"])
async def test_an_event_that_is_no_longer_kept_is_passed_over(
    waiters: Desk, hooks: Hooks, eventually: Eventually, dialect: str
) -> None:
    key = await waiters.begin()
    await waiters.watch(key, hooks.url("/a"), dialect)
    await waiters.says(key, "one")
    await waiters.ends(key)
    await waiters.storage.write(forget_events)
    waiters.notifier().wake()
    await eventually(lambda: waiters.is_empty(key))
    assert hooks.heard == []


async def test_a_webhook_that_was_replaced_meanwhile_has_no_say(
    waiters: Desk, hooks: Hooks, eventually: Eventually
) -> None:
    waiters.notifier()
    key = await waiters.begin()
    gate = hooks.shut_at("/old")
    await waiters.watch(key, hooks.url("/old"), id="c1")
    hooks.always["/old"] = lambda: answers(410)
    await waiters.says(key, "one")
    await eventually(lambda: hooks.seqs("/old") == [2])
    await waiters.watch(key, hooks.url("/new"), id="c1")
    gate.set()
    await eventually(lambda: hooks.seqs("/new") == [2])


async def test_a_config_that_is_deleted_while_it_is_told_is_told_nothing_more(
    waiters: Desk, hooks: Hooks, eventually: Eventually, ann: Principal
) -> None:
    one = waiters.notifier()
    key = await waiters.begin()
    gate = hooks.shut_at("/a")
    await waiters.watch(key, hooks.url("/a"), id="c1")
    await waiters.says(key, "one", "two")
    await eventually(lambda: len(hooks.heard) == 1)
    await waiters.configs.delete(ann, key, "c1")
    gate.set()
    await eventually(lambda: not one._posting)
    assert (len(hooks.heard), waiters.log.said) == (1, [])


class Flaky:
    """A store that is away for some writes after it was told to be."""

    def __init__(self, storage: Any) -> None:
        self._storage = storage
        self.away = 0

    async def read(self, work: Any) -> Any:
        return await self._storage.read(work)

    async def glance(self, work: Any) -> Any:
        return await self._storage.glance(work)

    async def write(self, work: Any) -> Any:
        if self.away:
            self.away -= 1
            raise StorageDown("away")
        return await self._storage.write(work)

    async def write_aside(self, work: Any) -> Any:
        return await self.write(work)

    async def check(self) -> None:
        await self._storage.check()

    async def close(self) -> None:
        """Not ours to close."""


async def test_an_answer_is_written_down_also_when_the_database_was_away(
    waiters: Desk, hooks: Hooks, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifier_module, "STORAGE_RETRY_SECONDS", 0.01)
    flaky = Flaky(waiters.storage)
    one = waiters.notifier(storage=flaky)
    key = await waiters.begin()
    gate = hooks.shut_at("/a")
    await waiters.watch(key, hooks.url("/a"))
    await waiters.says(key, "one", "two")
    await eventually(lambda: len(hooks.heard) == 1)
    flaky.away = 3
    gate.set()
    await eventually(lambda: hooks.seqs("/a") == [2, 3])
    await eventually(lambda: waiters.is_empty(key))
    flaky.away = 1
    await waiters.says(key, "three")
    await eventually(lambda: flaky.away == 0 and one._pump is None)
    one.wake()
    await eventually(lambda: hooks.seqs("/a") == [2, 3, 4])


async def test_an_event_does_not_wait_for_a_webhook(
    waiters: Desk, hooks: Hooks, eventually: Eventually
) -> None:
    waiters.notifier()
    key = await waiters.begin()
    hooks.shut_at("/a")
    await waiters.watch(key, hooks.url("/a"))
    for n in range(50):
        await waiters.says(key, str(n))
    assert (await waiters.task(key)).last_seq == 51
    await eventually(lambda: len(hooks.heard) == 1)
