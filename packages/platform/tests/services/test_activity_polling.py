"""The activity log as the original way of polling: what a cursor returns, and what reading counts as."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from molecule_platform.domain.messages import MessageOutcome
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.activity import ActivityFilter
from molecule_platform.services.messaging.inbox.activity_polling import PollResult
from molecule_platform.services.messaging.messages import settlement
from molecule_platform.services.messaging.messages.new_message import NewMessage
from molecule_wire.a2a.envelopes import A2ARequest

if TYPE_CHECKING:
    from packages.platform.tests.services.conftest import Refuses, Rig

Of = Callable[[Workspace], Principal]
MakeRequest = Callable[..., A2ARequest]
BEFORE_A_SECOND_LOOK = 30.0


async def read(
    rig: Rig, workspace: Workspace, *, own: bool = True, wait: float = 0, **more: Any
) -> list[dict[str, Any]]:
    filters = {name: more.pop(name) for name in ("limit", "peer_id", "source", "before") if name in more}
    wanted = ActivityFilter(activity_type=more.pop("type", "a2a_receive"), **filters)
    reading = PollResult(workspace, wanted, "http://platform", own, **more)
    return await rig.activity.read(reading, wait)


def said(rows: list[dict[str, Any]]) -> list[str]:
    return [row["data"]["text"] for row in rows]


async def test_an_agent_reads_its_mail_oldest_first_and_thereby_has_it(rig: Rig) -> None:
    ada = await rig.agent()
    sent = [(await rig.send(ada, word)).message for word in ("one", "two")]
    assert said(await read(rig, ada)) == ["one", "two"]
    for message in sent:
        row = await rig.message(message.id)
        assert (row.status, row.lease_kind, row.attempts) == ("leased", "cursor", 1)


async def test_others_read_the_same_rows_newest_first_and_without_effect(rig: Rig) -> None:
    ada = await rig.agent()
    sent = [(await rig.send(ada, word)).message for word in ("one", "two")]
    assert said(await read(rig, ada, own=False)) == ["two", "one"]
    assert (await rig.message(sent[0].id)).status == "accepted"


async def test_an_agent_with_an_address_reads_its_log_without_taking_its_mail(rig: Rig) -> None:
    ada = await rig.changed(await rig.agent(url="http://agent"), status="offline")
    sent = [(await rig.send(ada, word)).message for word in ("one", "two")]
    assert said(await read(rig, ada)) == ["two", "one"]
    assert (await rig.message(sent[0].id)).status == "accepted"


async def test_without_a_cursor_only_what_is_not_answered_comes(rig: Rig) -> None:
    ada = await rig.agent()
    done, _ = (await rig.send(ada, "done")).message, await rig.send(ada, "open")
    ended = MessageOutcome("answered", b"{}", "completed")
    await rig.storage.write(lambda tx: settlement.settle(tx, done.id, ended, rig.clock.now()))
    assert said(await read(rig, ada)) == ["open"]
    assert said(await read(rig, ada)) == ["open"]


async def test_a_cursor_gives_what_is_strictly_after_it_and_marks_what_it_passed(rig: Rig) -> None:
    ada = await rig.agent()
    sent = [(await rig.send(ada, word)).message for word in ("one", "two", "three")]
    rows = await read(rig, ada, limit=2)
    assert said(await read(rig, ada, since_id=rows[-1]["id"])) == ["three"]
    seen = [(await rig.message(message.id)).seen_at for message in sent]
    assert seen == [rig.clock.now(), rig.clock.now(), None]
    assert await read(rig, ada, since_id=sent[-1].activity_id) == []


async def test_an_unknown_cursor_is_lost_and_says_where_to_begin(rig: Rig, refuses: Refuses) -> None:
    ada, bob = await rig.agent("Ada"), await rig.agent("Bob")
    await rig.send(ada, "one")
    other = (await rig.send(bob)).message
    oldest = (await rig.rows(ada))[-1].id
    for cursor in ("unknown", other.activity_id):
        for own in (True, False):
            refusal = await refuses(read(rig, ada, own=own, since_id=cursor), "cursor-lost")
            assert refusal.status == 410
            assert refusal.extras["oldest_id"] == oldest


async def test_reading_past_a_reply_closes_it_and_sends_nothing(
    rig: Rig, principal_of: Of, make_request: MakeRequest
) -> None:
    ada, bob = await rig.agent("Ada"), await rig.agent("Bob")
    word = NewMessage(principal_of(bob), ada, make_request("by the way", role="agent"))
    reply = await rig.replies.reply(word, [])
    [row] = await read(rig, ada)
    assert (row["kind"], row["data"]["text"]) == ("reply", "by the way")
    assert (await rig.message(reply.message_id)).is_open
    await read(rig, ada, since_id=row["id"])
    assert (await rig.message(reply.message_id)).status == "answered"
    assert await read(rig, ada) == []


async def test_a_paused_agent_is_handed_nothing(rig: Rig) -> None:
    ada = await rig.changed(await rig.agent(), status="paused")
    message = (await rig.send(ada)).message
    assert await read(rig, ada) == []
    assert (await rig.message(message.id)).status == "accepted"


@pytest.mark.usefixtures("only_bells")
@pytest.mark.parametrize("cursor", [True, False])
async def test_a_long_poll_returns_as_soon_as_there_is_mail(rig: Rig, cursor: bool) -> None:
    ada = await rig.agent()
    await rig.send(ada, "old")
    [old] = await read(rig, ada)
    ended = MessageOutcome("answered", b"{}", "completed")
    await rig.storage.write(lambda tx: settlement.settle(tx, old["message_id"], ended, rig.clock.now()))
    waiting = asyncio.ensure_future(read(rig, ada, wait=60, **({"since_id": old["id"]} if cursor else {})))
    await asyncio.sleep(0.02)
    await rig.send(ada, "new")
    assert said(await asyncio.wait_for(waiting, BEFORE_A_SECOND_LOOK)) == ["new"]


async def test_a_long_poll_in_vain_is_an_empty_list(rig: Rig) -> None:
    assert await read(rig, await rig.agent(), wait=0.01) == []


async def test_rows_of_the_last_seconds_only(rig: Rig) -> None:
    ada = await rig.agent()
    await rig.send(ada, "old")
    rig.clock.advance(60)
    await rig.send(ada, "new")
    assert said(await read(rig, ada, own=False, since_secs=30)) == ["new"]


async def test_a_row_has_the_members_of_both_generations_of_clients(rig: Rig, principal_of: Of) -> None:
    ada, bob = await rig.agent("Ada"), await rig.agent("Bob", role="asks")
    message = (await rig.send(ada, "two and two?", principal_of(bob))).message
    [row] = await read(rig, ada)
    assert row["type"] == row["activity_type"] == "a2a_receive"
    assert row["ts"] == row["created_at"] == "2026-05-02T12:00:00.000Z"
    assert (row["source_id"], row["caller"], row["status"]) == (bob.id, f"workspace:{bob.id}", "pending")
    assert row["data"] == {
        "source": "peer_agent",
        "kind": "peer_agent",
        "text": "two and two?",
        "message": "two and two?",
        "message_id": message.id,
        "context_id": message.context_id,
        "task_id": message.task_id,
        "peer_id": bob.id,
        "activity_id": message.activity_id,
        "peer_name": "Bob",
        "peer_role": "asks",
        "agent_card_url": f"http://platform/registry/discover/{bob.id}",
    }


async def test_an_answered_row_shows_the_answer(rig: Rig) -> None:
    ada = await rig.agent()
    message = (await rig.send(ada)).message
    ended = MessageOutcome("answered", b'{"kind":"task"}', "completed")
    await rig.storage.write(lambda tx: settlement.settle(tx, message.id, ended, rig.clock.now()))
    [row] = await read(rig, ada, own=False)
    assert (row["status"], row["response_body"]["result"]) == ("ok", {"kind": "task"})


async def test_no_answer_by_the_deadline_of_a_message_that_was_read_is_no_reply(rig: Rig) -> None:
    ada = await rig.agent()
    message = (await rig.send(ada, timeout_seconds=10)).message
    await read(rig, ada)
    rig.clock.advance(10)
    await rig.sweeps.leases()
    late = await rig.message(message.id)
    assert (late.status, (late.error or {})["code"]) == ("expired", "no-reply")
    assert [row.status for row in await rig.rows(ada)] == ["timeout"]
