"""Answers that come as messages: each row of the table, in its order."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from molecule_platform.domain.messages import Message
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.services.messaging.messages import replies
from molecule_platform.services.messaging.messages.new_message import NewMessage
from molecule_platform.services.messaging.messages.replies import ReplyResult
from molecule_wire.a2a import text
from molecule_wire.a2a.envelopes import A2ARequest

if TYPE_CHECKING:
    from packages.platform.tests.services.conftest import Refuses, Rig

Of = Callable[[Workspace], Principal]
MakeRequest = Callable[..., A2ARequest]


class Talk:
    """Ada asks Bob; Bob replies by posting to Ada."""

    def __init__(self, rig: Rig, ada: Workspace, bob: Workspace, of: Of, request: MakeRequest) -> None:
        self.rig, self.ada, self.bob, self._of, self._request = rig, ada, bob, of, request

    async def ask(self, said: str = "two and two?", **more: Any) -> Message:
        return (await self.rig.send(self.bob, said, self._of(self.ada), **more)).message

    async def fetch(self, message: Message) -> None:
        await self.rig.at_cursor(self.bob, message)

    async def reply(self, said: str = "four", header: str | None = None, **inner: Any) -> ReplyResult:
        asked = self._request(said, role="agent", **inner)
        submission = NewMessage(self._of(self.bob), self.ada, asked)
        return await self.rig.replies.reply(submission, replies.names_of(asked, header))

    async def items_of_ada(self) -> list[Message]:
        return await self.rig.storage.read(lambda tx: tx.mailbox.inbox(self.ada.id, 10))


@pytest.fixture
async def talk(rig: Rig, principal_of: Of, make_request: MakeRequest) -> Talk:
    """Two siblings that may call each other."""
    return Talk(rig, await rig.agent("Ada"), await rig.agent("Bob"), principal_of, make_request)


async def ended(talk: Talk, message: Message) -> tuple[str, str]:
    now = await talk.rig.message(message.id)
    return now.status, text.text_of(now.result_json())


@pytest.mark.parametrize("way", ["in_reply_to", "taskId", "referenceTaskIds", "header", "activity"])
async def test_a_reply_that_names_an_open_message_completes_it(talk: Talk, way: str) -> None:
    other, asked = await talk.ask("first"), await talk.ask("second")
    named: dict[str, Any] = {
        "in_reply_to": {"metadata": {"in_reply_to": asked.id}},
        "taskId": {"taskId": asked.task_id},
        "referenceTaskIds": {"referenceTaskIds": [asked.task_id]},
        "header": {"header": asked.id},
        "activity": {"header": asked.activity_id},
    }[way]
    assert await talk.reply(**named) == ReplyResult(True, asked.id)
    assert await ended(talk, asked) == ("answered", "four")
    assert (await talk.rig.message(other.id)).is_open


async def test_naming_nothing_completes_the_oldest_message_of_that_peer_that_was_fetched(talk: Talk) -> None:
    first, second, unread = await talk.ask("1"), await talk.ask("2"), await talk.ask("3")
    for message in (first, second):
        await talk.fetch(message)
    assert await talk.reply("one") == ReplyResult(True, first.id)
    assert await talk.reply("two") == ReplyResult(True, second.id)
    assert [await ended(talk, m) for m in (first, second)] == [("answered", "one"), ("answered", "two")]
    assert (await talk.rig.message(unread.id)).status == "accepted"


async def test_a_message_leased_from_the_inbox_counts_as_fetched(talk: Talk) -> None:
    asked = await talk.ask()
    await talk.rig.lease(talk.bob)
    assert await talk.reply() == ReplyResult(True, asked.id)


async def test_an_answer_needs_no_leave_of_tree_or_capacity(talk: Talk) -> None:
    asked = await talk.ask()
    await talk.rig.changed(talk.ada, isolated=True)
    for _ in range(5):
        await talk.rig.send(talk.ada)
    assert (await talk.reply(header=asked.id)).settled


async def test_an_answer_that_nobody_waits_for_also_becomes_an_item_of_the_asker(talk: Talk) -> None:
    asked = await talk.ask()
    await talk.reply(header=asked.id)
    [item] = await talk.items_of_ada()
    assert (item.kind, item.caller) == ("reply", f"workspace:{talk.bob.id}")
    assert [row.activity_type for row in await talk.rig.rows(talk.ada)] == ["a2a_receive"]


async def full_mailbox(talk: Talk) -> None:
    while (
        await talk.rig.storage.read(lambda tx: tx.mailbox.open_count(talk.ada.id))
        < talk.rig.limits.capacity.max_open
    ):
        await talk.rig.send(talk.ada)


async def test_an_answer_that_nobody_waits_for_is_kept_in_a_full_mailbox_too(talk: Talk) -> None:
    asked = await talk.ask()
    await full_mailbox(talk)
    assert await talk.reply(header=asked.id) == ReplyResult(True, asked.id)
    assert [item.kind for item in await talk.items_of_ada()].count("reply") == 1


async def test_words_that_answer_nothing_open_are_kept_in_a_full_mailbox_too(talk: Talk) -> None:
    await full_mailbox(talk)
    assert not (await talk.reply("too late")).settled
    assert [item.kind for item in await talk.items_of_ada()].count("reply") == 1


async def test_an_answer_that_a_held_call_gets_does_not_come_twice(talk: Talk) -> None:
    asked = await talk.ask(hold_seconds=25)
    await talk.reply(header=asked.id)
    assert await talk.items_of_ada() == []


async def test_an_answer_comes_as_an_item_when_the_hold_is_over(talk: Talk) -> None:
    asked = await talk.ask(hold_seconds=25)
    talk.rig.clock.advance(25)
    await talk.reply(header=asked.id)
    assert len(await talk.items_of_ada()) == 1


async def test_an_answer_comes_as_an_item_when_the_replica_that_held_is_gone(talk: Talk) -> None:
    asked = await talk.ask()

    def hold(tx: Any) -> None:
        tx.mailbox.hold(asked.id, "replica-dead/caller", talk.rig.clock.now().replace(hour=13))

    await talk.rig.storage.write(hold)
    await talk.reply(header=asked.id)
    assert len(await talk.items_of_ada()) == 1


async def test_an_answer_held_on_another_living_replica_does_not_come_twice(talk: Talk) -> None:
    asked = await talk.ask()

    def hold(tx: Any) -> None:
        tx.mailbox.hold(asked.id, "replica-two/caller", talk.rig.clock.now().replace(hour=13))
        tx.presence.seen("replica-two")

    await talk.rig.storage.write(hold)
    await talk.reply(header=asked.id)
    assert await talk.items_of_ada() == []


async def reply_item_at_bob(talk: Talk) -> Message:
    """Something of kind `reply` in Bob's mailbox that he has fetched."""
    asked = (await talk.rig.send(talk.ada, "?", talk._of(talk.bob))).message
    back = NewMessage(talk._of(talk.ada), talk.bob, talk._request("an answer", role="agent"))
    await talk.rig.replies.reply(back, [asked.id])
    [item] = await talk.rig.storage.read(lambda tx: tx.mailbox.inbox(talk.bob.id, 10))
    await talk.fetch(item)
    return item


@pytest.mark.parametrize("named", [True, False])
async def test_a_reply_to_a_reply_is_recorded_in_both_logs_and_delivered_to_nobody(
    talk: Talk, named: bool
) -> None:
    item = await reply_item_at_bob(talk)
    assert not (await talk.reply("thanks", header=item.id if named else None)).settled
    assert [m for m in await talk.items_of_ada() if m.kind == "reply"] == []
    assert [row.summary for row in await talk.rig.rows(talk.bob, activity_type="a2a_send")] == ["thanks"]
    assert [row.summary for row in await talk.rig.rows(talk.ada, activity_type="agent_log")] == ["thanks"]


async def test_two_agents_that_echo_everything_come_to_rest(talk: Talk) -> None:
    asked = await talk.ask()
    await talk.fetch(asked)
    await talk.reply()
    sides = [(talk.ada, talk.bob), (talk.bob, talk.ada)]
    for turn in range(10):
        here, there = sides[turn % 2]
        for item in await talk.rig.storage.read(lambda tx, w=here: tx.mailbox.inbox(w.id, 10)):
            if item.status == "accepted":
                await talk.rig.at_cursor(here, item)
            echo = NewMessage(talk._of(here), there, talk._request("echo", role="agent"))
            await talk.rig.replies.reply(echo, [])
    items = await talk.rig.storage.read(lambda tx: tx.mailbox.inbox(talk.bob.id, 10))
    assert items == []
    assert len(await talk.items_of_ada()) == 1


async def test_a_reply_to_nothing_is_an_item_of_the_other_that_a_polling_client_sees(talk: Talk) -> None:
    replied = await talk.reply("by the way")
    [item] = await talk.items_of_ada()
    assert replied == ReplyResult(False, item.id)
    assert item.kind == "reply"


async def test_an_answer_that_comes_after_the_end_still_reaches_the_asker(talk: Talk) -> None:
    asked = await talk.ask(timeout_seconds=10)
    await talk.fetch(asked)
    talk.rig.clock.advance(10)
    await talk.rig.sweeps.leases()
    assert (await talk.rig.message(asked.id)).status == "expired"
    assert not (await talk.reply("late", header=asked.id)).settled
    assert [item.kind for item in await talk.items_of_ada()] == ["reply"]


async def test_a_reply_that_is_posted_again_after_a_time_out_is_one_item(talk: Talk) -> None:
    asked = await talk.ask()
    for _ in range(2):
        await talk.reply("four", header=asked.id, ref="b1")
    assert len(await talk.items_of_ada()) == 1


async def test_an_unrelated_reply_still_needs_the_tree_s_leave(talk: Talk, refuses: Refuses) -> None:
    talk.ada = await talk.rig.changed(talk.ada, isolated=True)
    await refuses(talk.reply("psst"), "hierarchy-denied")


async def test_a_message_of_somebody_else_cannot_be_answered_by_naming_it(talk: Talk) -> None:
    asked = (await talk.rig.send(talk.bob, "?")).message
    assert not (await talk.reply(header=asked.id)).settled
    assert (await talk.rig.message(asked.id)).is_open


async def test_a_reply_to_oneself_is_only_recorded(talk: Talk) -> None:
    submission = NewMessage(talk._of(talk.ada), talk.ada, talk._request("hm", role="agent"))
    assert not (await talk.rig.replies.reply(submission, [])).settled
    assert await talk.items_of_ada() == []


async def test_only_a_workspace_in_the_role_of_the_agent_replies(rig: Rig, principal_of: Of) -> None:
    ada = await rig.agent()
    assert replies.is_reply(principal_of(ada), "agent")
    assert not replies.is_reply(principal_of(ada), "user")
    assert not replies.is_reply(rig.admin, "agent")


# Words to people


async def told(talk: Talk, said: str = "four", kind: str | None = None, name: str | None = None) -> str:
    return await talk.rig.replies.notify(talk.bob, said, [], kind, name)


@pytest.mark.parametrize("kind", [None, "", "reply"])
async def test_words_to_people_answer_the_oldest_message_of_a_person_that_was_fetched(
    talk: Talk, kind: str | None
) -> None:
    peer, first, second = await talk.ask(), *[(await talk.rig.send(talk.bob)).message for _ in range(2)]
    for message in (peer, first, second):
        await talk.fetch(message)
    await told(talk, "four", kind)
    assert await ended(talk, first) == ("answered", "four")
    assert (await talk.rig.message(second.id)).is_open
    assert (await talk.rig.message(peer.id)).is_open


async def test_words_of_another_type_answer_nothing(talk: Talk) -> None:
    asked = (await talk.rig.send(talk.bob)).message
    await talk.fetch(asked)
    await told(talk, "half way", "progress")
    assert (await talk.rig.message(asked.id)).is_open


async def test_words_may_name_what_they_answer_also_when_a_worker_holds_it(talk: Talk) -> None:
    first, second = [(await talk.rig.send(talk.bob)).message for _ in range(2)]
    await talk.rig.lease(talk.bob)
    await told(talk, "two", name=second.activity_id)
    assert (await talk.rig.message(first.id)).is_open
    assert await ended(talk, second) == ("answered", "two")


async def test_words_are_an_event_and_a_row_that_never_looks_like_mail(talk: Talk) -> None:
    row_id = await talk.rig.replies.notify(talk.bob, "look", [{"uri": "u", "name": "n"}], "progress", None)
    [row] = await talk.rig.rows(talk.bob)
    assert (row.id, row.activity_type, row.method) == (row_id, "agent_message", "notify")
    [event] = await talk.rig.storage.read(lambda tx: tx.events.newest(talk.rig.org.id, 1))
    assert event.payload == {
        "message": "look",
        "workspace_id": talk.bob.id,
        "name": "Bob",
        "attachments": [{"uri": "u", "name": "n"}],
        "type": "progress",
    }
