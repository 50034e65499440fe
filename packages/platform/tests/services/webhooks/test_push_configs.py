"""Push configs belong to the creator of a task, are checked before they are kept, and are kept sealed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from molecule_platform.domain import principals, push
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.tasks import Task, TaskKey
from molecule_platform.keys import service_sealers
from molecule_platform.keys.keyfile import load_keychain
from molecule_platform.ports.storage import Transaction
from molecule_platform.services.keys.key_rotation import KeyRotation
from molecule_platform.services.messaging.webhooks import outbox
from molecule_platform.services.messaging.webhooks.push_configs import PushConfigService
from molecule_platform.services.support.audit_log import AuditActor
from molecule_wire.a2a.errors import A2AError

if TYPE_CHECKING:
    from packages.platform.tests.services.webhooks.conftest import Desk

URL = "https://hook.example/a"
BOB = Principal("user:bob", "org-one", principals.ROLE_SCOPES["owner"], "Bob", "owner")
AUTHENTICATION = {"scheme": "Bearer", "credentials": "very-secret"}


async def refused(work: Any, code: int) -> A2AError:
    with pytest.raises(A2AError) as problem:
        await work
    assert problem.value.code == code
    return problem.value


async def test_a_config_comes_back_as_it_was_registered(waiters: Desk, ann: Principal) -> None:
    key = await waiters.begin()
    given: Any = {"url": URL, "id": "c1", "token": "tok", "authentication": AUTHENTICATION, "x-more": [1]}
    made = await waiters.configs.create(ann, key, given, "1.0")
    assert made == given | {"taskId": "t1"}
    assert await waiters.configs.get(ann, key, "c1") == made
    assert await waiters.configs.list(ann, key) == [made]
    assert (await waiters.task(key)).watchers == 1


async def test_what_is_secret_is_sealed_at_rest(waiters: Desk) -> None:
    key = await waiters.begin()
    await waiters.watch(key, URL, token="tok-secret", authentication=AUTHENTICATION)
    [kept] = await waiters.kept(key)
    assert kept.config == {}
    assert kept.secret_sealed is not None
    assert not {"very-secret", "tok-secret"} & {part for part in kept.secret_sealed.split('"')}
    plain = waiters.sealing.open(kept.secret_sealed, push.seal_context(kept.id))
    assert "very-secret" in plain


async def test_without_an_id_1_0_makes_another_config_and_0_3_sets_the_one(
    waiters: Desk, ann: Principal
) -> None:
    key = await waiters.begin()
    first, second = await waiters.watch(key, URL), await waiters.watch(key, URL)
    assert first["id"] != second["id"]
    old = await waiters.watch(key, URL, "0.3")
    again = await waiters.watch(key, URL + "/b", "0.3")
    assert (old["id"], again["id"]) == ("t1", "t1")
    assert [one["url"] for one in await waiters.configs.list(ann, key)] == [URL, URL, URL + "/b"]
    assert (await waiters.task(key)).watchers == 3


async def test_without_an_id_the_first_config_is_read(waiters: Desk, ann: Principal) -> None:
    key = await waiters.begin()
    await refused(waiters.configs.get(ann, key, None), -32001)
    for name in ("b", "a"):
        await waiters.watch(key, URL, id=name)
    assert (await waiters.configs.get(ann, key, None))["id"] == "b"


async def test_a_task_goes_by_the_agents_name_too(waiters: Desk, ann: Principal) -> None:
    key = await waiters.begin()
    await waiters.storage.write(lambda tx: tx.tasks.change(key, agent_task_id="theirs"))
    made = await waiters.configs.create(ann, waiters.key("theirs"), {"url": URL, "id": "c1"}, "1.0")
    assert made["taskId"] == "t1"
    assert await waiters.configs.list(ann, key) == [made]


async def test_for_anyone_else_there_is_no_such_task(waiters: Desk, ann: Principal) -> None:
    key = await waiters.begin()
    await waiters.watch(key, URL, id="c1")
    for who, where in ((BOB, key), (ann, waiters.key("t9")), (ann, waiters.key(tenant="north"))):
        await refused(waiters.configs.create(who, where, {"url": URL}, "1.0"), -32001)
        await refused(waiters.configs.get(who, where, "c1"), -32001)
        await refused(waiters.configs.list(who, where), -32001)
        await refused(waiters.configs.delete(who, where, "c1"), -32001)
    assert len(await waiters.kept(key)) == 1


async def test_a_stranger_learns_nothing_about_a_url(waiters: Desk) -> None:
    key = await waiters.begin()
    await refused(waiters.configs.create(BOB, key, {"url": "ftp://nowhere"}, "1.0"), -32001)


async def test_a_name_without_an_address_is_registered_and_its_creator_and_the_operator_are_warned(
    waiters: Desk, ann: Principal
) -> None:
    key = await waiters.begin()
    made = await waiters.configs.create(ann, key, {"url": "https://unknown.example/a?key=secret"}, "1.0")
    assert (await waiters.kept(key))[0].config_id == made["id"]
    [event] = await waiters.storage.read(lambda tx: tx.events.after(0, 100))
    assert event.event_type == "PUSH_CONFIG_UNRESOLVED"
    assert event.payload == {"task_id": "t1", "config_id": made["id"], "warning": "it has no address"}
    [(said, fields)] = waiters.log.said
    assert said == "a webhook cannot be resolved"
    assert fields == {"problem": "it has no address", "owner": ann.text}


@pytest.mark.parametrize(
    "url", ["ftp://hook.example/", "http://169.254.169.254/", "http://user:pw@hook.example/", "nonsense"]
)
async def test_a_url_that_may_not_be_called_is_refused(waiters: Desk, ann: Principal, url: str) -> None:
    key = await waiters.begin()
    problem = await refused(waiters.configs.create(ann, key, {"url": url}, "1.0"), -32602)
    assert [violation.field for violation in problem.violations] == ["url"]
    assert await waiters.kept(key) == []


async def test_deleting_twice_is_as_good_as_once(waiters: Desk, ann: Principal) -> None:
    key = await waiters.begin()
    await waiters.watch(key, URL, id="c1")
    for _ in range(2):
        await waiters.configs.delete(ann, key, "c1")
    assert (await waiters.task(key)).watchers == 0
    await refused(waiters.configs.get(ann, key, "c1"), -32001)


async def test_a_task_has_a_limited_number_of_configs(
    waiters: Desk, ann: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push, "MAX_CONFIGS", 2)
    key = await waiters.begin()
    for name in ("a", "b", "b"):
        await waiters.watch(key, URL, id=name)
    await refused(waiters.configs.create(ann, key, {"url": URL}, "1.0"), -32602)


async def inline(waiters: Desk, ann: Principal, key: TaskKey, url: str, **config: Any) -> None:
    taken = await waiters.configs.take_inline(ann, {"url": url, **config}, "1.0")
    await waiters.storage.write(lambda tx: waiters.configs.attach(tx, taken, key, waiters.clock.now()))


async def test_a_config_may_come_before_its_task(waiters: Desk, ann: Principal) -> None:
    key = waiters.key()
    await inline(waiters, ann, key, URL)
    assert await waiters.storage.read(lambda tx: outbox.watchers(tx, key)) == 1
    await waiters.begin()
    assert [one["url"] for one in await waiters.configs.list(ann, key)] == [URL]


async def test_the_config_of_a_further_message_takes_the_place_of_the_first(
    waiters: Desk, ann: Principal
) -> None:
    key = await waiters.begin()
    await inline(waiters, ann, key, URL)
    await inline(waiters, ann, key, URL + "/b")
    await inline(waiters, ann, key, URL + "/c", id="own")
    assert [one["url"] for one in await waiters.configs.list(ann, key)] == [URL + "/b", URL + "/c"]
    assert (await waiters.task(key)).watchers == 2


async def test_a_message_cannot_watch_the_task_of_somebody_else(waiters: Desk, ann: Principal) -> None:
    key = await waiters.begin(owner="user:bob")
    await refused(inline(waiters, ann, key, URL), -32001)
    assert await waiters.kept(key) == []


async def test_an_inline_config_is_refused_before_anything_is_kept(waiters: Desk, ann: Principal) -> None:
    await refused(waiters.configs.take_inline(ann, {"url": "http://169.254.1.1/"}, "1.0"), -32602)
    await refused(waiters.configs.take_inline(ann, {"id": "no-url"}, "0.3"), -32602)


async def test_configs_follow_a_task_to_the_name_that_its_agent_gives_it(
    waiters: Desk, ann: Principal
) -> None:
    old, new = waiters.key("message-1"), waiters.key("theirs")
    await inline(waiters, ann, old, URL, token="tok")
    await inline(waiters, ann, old, URL, id="own")
    assert await waiters.storage.write(lambda tx: outbox.moved(tx, old, new)) == 2
    await waiters.begin("theirs")
    names = [(one["id"], one["taskId"], one.get("token")) for one in await waiters.configs.list(ann, new)]
    assert names == [("theirs", "theirs", "tok"), ("own", "theirs", None)]
    assert await waiters.kept(old) == []


async def test_configs_never_follow_to_a_task_that_is_there_already(waiters: Desk, ann: Principal) -> None:
    old, theirs = waiters.key("message-1"), await waiters.begin("theirs", owner="user:bob")
    await inline(waiters, ann, old, URL)
    assert await waiters.storage.write(lambda tx: outbox.moved(tx, old, theirs)) == 0
    assert await waiters.kept(theirs) == []
    assert len(await waiters.kept(old)) == 1


async def test_a_task_that_keeps_its_name_keeps_its_configs(waiters: Desk, ann: Principal) -> None:
    key = waiters.key()
    await inline(waiters, ann, key, URL)
    assert await waiters.storage.write(lambda tx: outbox.moved(tx, key, key)) == 1


async def test_a_new_key_seals_what_was_registered_again(
    waiters: Desk, ann: Principal, tmp_path: Path
) -> None:
    chain = load_keychain(tmp_path, None)
    ring, places = chain.ring, service_sealers.for_places(chain.ring)
    configs = PushConfigService(waiters.storage, waiters.clock, waiters.log, accept, places)
    rotation = KeyRotation(
        waiters.storage,
        waiters.clock,
        chain,
        service_sealers.for_secrets(ring),
        service_sealers.for_lines(ring),
        places,
    )
    key = await waiters.begin()
    made = await configs.create(ann, key, {"url": URL, "id": "c1", "token": "tok"}, "1.0")
    lost = await configs.create(ann, key, {"url": URL, "id": "c2", "token": "tok"}, "1.0")
    broken = (await waiters.kept(key))[1]
    await waiters.storage.write(lambda tx: tx.push_configs.change(broken.id, secret_sealed="gone.a.b"))
    rotated = await rotation.rotate(AuditActor("user:admin", "request-1"), ann.org_id)
    assert (rotated.resealed, rotated.failed_keys) == (1, [f"push:{broken.id}"])
    [again, _] = await waiters.kept(key)
    assert (again.secret_sealed or "").startswith(f"{chain.current_id}.")
    assert await configs.get(ann, key, "c1") == made
    assert lost["token"] == "tok"


async def accept(_url: str) -> None:
    """Every URL is good."""


async def test_an_event_without_watchers_is_told_to_nobody(waiters: Desk) -> None:
    key = await waiters.begin()
    await waiters.says(key, "one")
    task = await waiters.task(key)

    def work(tx: Transaction, task: Task = task) -> bool:
        outbox.enqueue(tx, task, 1, 2, waiters.clock.now())
        return tx.outbox.is_due(waiters.clock.now())

    assert not await waiters.storage.write(work)
