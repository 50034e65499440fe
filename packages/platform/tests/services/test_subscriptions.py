"""Followers: what was and what happens, once each and in order, for those who may see it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from molecule_platform.domain import access, credentials
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.events import Event
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.storage import StorageDown
from molecule_platform.services.events import event_feed, subscriptions
from molecule_platform.services.events.event_feed import FeedSubscriber, StreamEnd, StreamEnded
from molecule_platform.services.events.subscriptions import EventSubscription, EventSubscriptions
from molecule_platform.services.identity.authentication import PresentedCredential
from molecule_platform.services.messaging.inbox.inbox_answers import InboxAnswer
from molecule_platform.services.support import signals
from molecule_platform.services.workspaces.registration import RegistrationRequest

if TYPE_CHECKING:
    from packages.platform.tests.conftest import Eventually
    from packages.platform.tests.services.conftest import Rig

Of = Callable[[Workspace], Principal]
SECONDS = 30.0


@pytest.fixture
async def running(rig: Rig) -> AsyncIterator[Rig]:
    """The services with the feed following the log."""
    await rig.feed.start()
    yield rig
    await rig.feed.stop()


def follow(
    rig: Rig, listener: FeedSubscriber, since: int | None = None
) -> AbstractAsyncContextManager[EventSubscription]:
    everyone = EventSubscriptions(rig.storage, rig.signals, rig.clock, rig.log, rig.feed, rig.identity)
    return everyone.follow(listener, since)


def administrator(rig: Rig, **wanted: frozenset[str]) -> FeedSubscriber:
    return FeedSubscriber(replace(rig.admin, credential="admin"), **wanted)


async def happen(rig: Rig, name: str, workspace: str = "w1", **more: Any) -> int:
    def work(tx: Any) -> int:
        tx.signal(signals.EVENTS)
        return tx.events.append(Event(name, rig.org.id, workspace, {}, rig.clock.now(), **more))

    return await rig.storage.write(work)


async def collect(follower: EventSubscription, until: str) -> list[Event]:
    seen: list[Event] = []
    while not seen or seen[-1].event_type != until:
        came = await follower.next(SECONDS)
        assert came, f"{until} did not come: {[event.event_type for event in seen]}"
        seen += came
    return seen


async def test_history_and_live_meet_without_gap_or_repeat(
    running: Rig, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "PAGE", 7)
    stop = asyncio.Event()

    async def write() -> None:
        while not stop.is_set():
            await happen(running, "E")
        await happen(running, "LAST")

    writer = asyncio.ensure_future(write())

    async def has_written() -> bool:
        return await running.storage.read(lambda tx: tx.events.last_id()) > 20

    await eventually(has_written)
    async with follow(running, administrator(running), 0) as follower:
        await eventually(lambda: running.feed._at > 60)
        seen = await follower.next(SECONDS)
        stop.set()
        seen += await collect(follower, "LAST")
    await writer
    numbers = [event.id or 0 for event in seen]
    assert numbers == list(range(1, numbers[-1] + 1))


async def test_history_longer_than_the_buffer_is_still_whole(
    running: Rig, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "PAGE", 3)
    monkeypatch.setattr(event_feed, "BUFFER", 4)
    for _ in range(5):
        await happen(running, "E")
    listener = administrator(running)
    async with follow(running, listener, 0) as follower:
        seen = await follower.next(SECONDS)
        for _ in range(10):
            await happen(running, "E")
        await eventually(lambda: listener.overflowed)
        while listener.catches_up:
            seen += await follower.next(0)
        await happen(running, "LAST")
        seen += await collect(follower, "LAST")
    assert [event.id for event in seen] == list(range(1, 17))


async def test_without_a_beginning_only_what_is_new_comes(running: Rig) -> None:
    old = await happen(running, "OLD")
    async with follow(running, administrator(running)) as follower:
        assert follower.position == old
        await happen(running, "NEW")
        assert [event.event_type for event in await collect(follower, "NEW")] == ["NEW"]


async def test_quiet_is_told_in_time(running: Rig) -> None:
    async with follow(running, administrator(running), 0) as follower:
        assert await follower.next(0) == []
        assert await follower.next(0.01) == []


async def test_only_what_was_asked_for_comes_live_and_from_history(running: Rig) -> None:
    for name, workspace in (("A", "w1"), ("A", "w2"), ("B", "w1")):
        await happen(running, name, workspace)
    listener = administrator(running, types=frozenset({"A", "LAST"}), workspace_ids=frozenset({"w1"}))
    async with follow(running, listener, 0) as follower:
        seen = await follower.next(SECONDS)
        for name, workspace in (("A", "w2"), ("B", "w1"), ("A", "w1"), ("LAST", "w1")):
            await happen(running, name, workspace)
        seen += await collect(follower, "LAST")
    assert [(event.event_type, event.workspace_id) for event in seen] == [
        ("A", "w1"),
        ("A", "w1"),
        ("LAST", "w1"),
    ]


@pytest.mark.parametrize("since", [0, 10**15])
async def test_whoever_resumes_where_the_log_is_not_is_told_so_first(running: Rig, since: int) -> None:
    first = await happen(running, "OLD")
    kept = await happen(running, "KEPT")
    long_after = running.clock.advance(60)
    await running.storage.write(lambda tx: tx.events.prune(long_after, 1))
    async with follow(running, administrator(running), since) as follower:
        resync, *rest = await collect(follower, "KEPT")
    assert (resync.event_type, resync.payload) == ("RESYNC_REQUIRED", {"oldest_id": str(first)})
    assert [event.id for event in rest] == [kept]


async def test_what_is_forgotten_while_it_is_being_replayed_is_not_skipped_in_silence(
    running: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "PAGE", 2)
    for _ in range(6):
        await happen(running, "E")
    await happen(running, "LAST")
    long_after = running.clock.advance(60)
    async with follow(running, administrator(running), 0) as follower:
        seen = await follower.next(SECONDS)
        await running.storage.write(lambda tx: tx.events.prune(long_after, 4))
        seen += await collect(follower, "LAST")
    assert [event.id for event in seen] == [1, 2, None, 5, 6, 7]


async def test_a_follower_ends_when_its_credential_does(running: Rig) -> None:
    created = await running.created()
    principal = await running.identity.authenticate(PresentedCredential(bearer=created.auth_token))
    async with follow(running, FeedSubscriber(principal)) as follower:
        token_hash = credentials.digest(created.auth_token)

        def revoke(tx: Any) -> None:
            token = tx.tokens.by_hash(token_hash)
            tx.tokens.revoke(token.id, running.clock.now(), "revoked")
            tx.signal(signals.CREDENTIALS)

        await running.storage.write(revoke)
        with pytest.raises(StreamEnded) as ended:
            await collect(follower, "something else")
    assert ended.value.why == StreamEnd.REVOKED


async def test_a_follower_ends_with_its_credential_also_when_a_look_at_it_went_wrong(
    running: Rig, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stumbles(_credential: str) -> Principal:
        raise ZeroDivisionError

    async def ended(_credential: str) -> Principal:
        raise ApiError("token-revoked", "this token was revoked")

    monkeypatch.setattr(running.identity, "again", stumbles)
    async with follow(running, administrator(running)) as follower:
        await eventually(lambda: bool(running.log.said))
        monkeypatch.setattr(running.identity, "again", ended)
        with pytest.raises(StreamEnded) as over:
            await follower.next(SECONDS)
    assert over.value.why == StreamEnd.REVOKED
    assert isinstance(running.log.said[0][1]["exc_info"], ZeroDivisionError)


async def test_a_follower_without_a_database_ends_and_can_be_resumed(
    running: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def down(_work: Any) -> None:
        raise StorageDown("away")

    async with follow(running, administrator(running), 0) as follower:
        monkeypatch.setattr(running.storage, "read", down)
        with pytest.raises(StreamEnded) as ended:
            await follower.next(SECONDS)
    assert ended.value.why == StreamEnd.UNAVAILABLE


# What a workspace sees


async def names_seen(rig: Rig, principal: Principal) -> list[str]:
    """What a workspace gets of the whole log."""
    minted = replace(principal, credential="admin")
    seen: list[str] = []
    async with follow(rig, FeedSubscriber(minted), 0) as follower:
        while came := await follower.next(0):
            seen += [event.event_type for event in came]
    return seen


async def test_a_workspace_sees_how_those_it_may_reach_are(running: Rig, principal_of: Of) -> None:
    lead = (await running.created("Lead")).workspace
    ada = (await running.created("Ada", lead)).workspace
    bob = (await running.created("Bob", lead)).workspace
    other = (await running.created("Other")).workspace
    stranger = (await running.created("Stranger", other)).workspace
    for name, workspace in (("A", ada), ("B", bob), ("L", lead), ("O", other), ("S", stranger)):
        await happen(running, f"{name}_SAID", workspace.id)
    await happen(running, "ORG_WIDE", "")
    told = [name for name in await names_seen(running, principal_of(ada)) if name.endswith("_SAID")]
    assert told == ["A_SAID", "B_SAID", "L_SAID"]
    told = [
        name for name in await names_seen(running, principal_of(lead)) if not name.startswith("WORKSPACE")
    ]
    assert told == ["A_SAID", "B_SAID", "L_SAID", "O_SAID"]


async def test_a_workspace_sees_that_one_it_could_reach_was_removed(running: Rig, principal_of: Of) -> None:
    lead = (await running.created("Lead")).workspace
    ada = (await running.created("Ada", lead)).workspace
    bob = (await running.created("Bob", lead)).workspace
    other = (await running.created("Other")).workspace
    stranger = (await running.created("Stranger", other)).workspace
    gone = await running.workspace(ada.id)

    def remove(tx: Any) -> None:
        assert tx.workspaces.update(gone.changed(status="removed", removed_at=running.clock.now()))

    await running.storage.write(remove)
    await happen(running, "GONE", ada.id)
    seen = {one.name: "GONE" in await names_seen(running, principal_of(one)) for one in (lead, bob, stranger)}
    assert seen == {"Lead": True, "Bob": True, "Stranger": False}


@pytest.mark.parametrize(
    "name", ["AGENT_MESSAGE", "A2A_RESPONSE", "ACTIVITY_LOGGED", "DELEGATION_SENT", "APPROVAL_DECIDED"]
)
async def test_content_is_for_its_parties_alone(running: Rig, principal_of: Of, name: str) -> None:
    ada, bob, carol = [(await running.created(who)).workspace for who in ("Ada", "Bob", "Carol")]
    await happen(running, name, ada.id, parties=(ada.id, bob.id))
    seen = [name in await names_seen(running, principal_of(one)) for one in (ada, bob, carol)]
    assert seen == [True, True, False]


async def test_content_without_parties_is_for_its_workspace_alone(running: Rig, principal_of: Of) -> None:
    ada, bob = [(await running.created(who)).workspace for who in ("Ada", "Bob")]
    await happen(running, "AGENT_MESSAGE", ada.id)
    assert "AGENT_MESSAGE" in await names_seen(running, principal_of(ada))
    assert "AGENT_MESSAGE" not in await names_seen(running, principal_of(bob))


async def test_a_message_is_seen_by_its_sender_and_its_target_and_no_sibling(
    running: Rig, principal_of: Of
) -> None:
    ada, bob, carol = [await running.agent(who) for who in ("Ada", "Bob", "Carol")]
    await running.send(ada, caller=principal_of(bob))
    (item,) = await running.lease(ada)
    await running.inbox.answer(
        ada, item["message_id"], item["lease"]["token"], InboxAnswer([{"text": "four"}])
    )
    steps = ["MESSAGE_ACCEPTED", "MESSAGE_LEASED", "MESSAGE_ANSWERED", "A2A_RESPONSE"]
    for workspace, expected in ((ada, steps), (bob, steps), (carol, [])):
        seen = await names_seen(running, principal_of(workspace))
        assert [name for name in seen if name in steps] == expected


@pytest.mark.parametrize("seed", range(3))
async def test_what_a_workspace_sees_is_what_the_access_rule_lets_it_reach(
    running: Rig, principal_of: Of, seed: int
) -> None:
    chance = random.Random(seed)
    made: list[Workspace] = []
    for number in range(8):
        parent = chance.choice([None, *made])
        created = await running.created(f"W{number}", parent)
        made.append(await running.changed(created.workspace, isolated=chance.random() < 0.2))
    for workspace in made:
        await happen(running, f"OF_{workspace.id}", workspace.id)
    parents = {workspace.id: workspace.parent_id for workspace in made}
    for workspace in made:
        mine = workspace.as_member()
        reached = [one.id for one in made if access.judge(mine, one.as_member(), parents).allowed]
        expected = {f"OF_{one}" for one in reached}
        seen = await names_seen(running, principal_of(workspace))
        assert {name for name in seen if name.startswith("OF_")} == expected


async def test_a_listener_s_view_of_the_tree_is_no_older_than_a_second(
    running: Rig, principal_of: Of, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "REACH_SECONDS", 0.0)
    ada, bob = [(await running.created(who)).workspace for who in ("Ada", "Bob")]
    listener = FeedSubscriber(replace(principal_of(ada), credential="admin"))
    async with follow(running, listener) as follower:
        await happen(running, "SEEN", bob.id)
        await collect(follower, "SEEN")
        await running.changed(bob, isolated=True)
        await happen(running, "UNSEEN", bob.id)
        await happen(running, "LAST", ada.id)
        assert [event.event_type for event in await collect(follower, "LAST")] == ["LAST"]


@pytest.mark.parametrize("since", [0, None])
async def test_what_can_be_claimed_is_told_to_operators_first_and_to_all_once_it_has_an_agent(
    running: Rig, since: int | None
) -> None:
    bob = await running.agent("Bob")
    reader = replace(running.admin, scopes=frozenset({"org.read"}), credential="admin")
    bob_s = Principal(
        f"workspace:{bob.id}", running.org.id, frozenset({"workspace"}), "Bob", credential="admin"
    )
    told: list[list[str]] = []
    for who in (reader, bob_s, running.admin):
        async with follow(running, FeedSubscriber(who), since) as follower:
            ada = (await running.created("Ada", parent=bob, claimable=True)).workspace
            await happen(running, "NAMES_IT", bob.id)
            await running.registration().register(RegistrationRequest(ada.id, {"name": "Ada"}), None)
            seen = await collect(follower, "WORKSPACE_ONLINE")
            while seen[-1].workspace_id != ada.id:
                seen += await collect(follower, "WORKSPACE_ONLINE")
        told.append([event.event_type for event in seen if event.workspace_id == ada.id])
    assert told[0] == told[1]
    assert told[0][-1:] == ["WORKSPACE_ONLINE"]
    assert "WORKSPACE_CLAIMED" not in told[0]
    assert told[2] == ["WORKSPACE_AWAITING_AGENT", "WORKSPACE_CLAIMED", "WORKSPACE_ONLINE"]


async def test_an_event_that_names_what_can_be_claimed_does_not_exist_for_others(running: Rig) -> None:
    bob, ada = await running.agent("Bob"), (await running.created("Ada", claimable=True)).workspace
    reader = replace(running.admin, scopes=frozenset({"org.read"}))

    def work(tx: Any) -> None:
        for payload in ({"parent_id": ada.id}, {"deep": [{"caller": f"workspace:{ada.id}"}]}, {"to": bob.id}):
            tx.events.append(Event("MOVED", running.org.id, bob.id, payload, running.clock.now()))

    await running.storage.write(work)
    wanted = event_feed.EventFilter(running.org.id, types=["MOVED"])
    for who, count in ((running.admin, 3), (reader, 1)):
        assert len(await running.feed.newest(who, wanted, 10)) == count
        assert len(await running.feed.newest(who, wanted, 1)) == 1
        assert len(await running.feed.since(who, wanted, 0, 1)) == 1
    running.clock.advance(3600)
    assert len(await running.feed.newest(reader, wanted, 10)) == 3
