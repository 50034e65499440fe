"""What agents log themselves: kept without secrets, shown live, never taken for mail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from molecule_platform.domain.events import Event
from molecule_platform.ports.activity import ActivityFilter
from molecule_platform.services.events.activity_writer import AGENT_TYPES, ActivityEntry, ActivityWriter
from molecule_platform.services.messaging.inbox.activity_polling import PollResult

if TYPE_CHECKING:
    from packages.platform.tests.services.conftest import Refuses, Rig

TOKEN = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.fixture
def activity_writer(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> ActivityWriter:
    async def show(event: Event) -> None:
        rig.log.said.append((event.event_type, event.payload))

    monkeypatch.setattr(rig.feed, "show", show)
    return ActivityWriter(rig.storage, rig.clock, rig.feed)


@pytest.mark.parametrize("kind", AGENT_TYPES)
async def test_an_entry_is_kept_as_the_agent_s_own(
    rig: Rig, activity_writer: ActivityWriter, kind: str
) -> None:
    ada = await rig.agent()
    row_id = await activity_writer.log(
        ada, ActivityEntry(kind, "m", "did it", "t", ada.id, "ok", "", 12, {"a": 1}, [2], {"b": 3})
    )
    [row] = await rig.rows(ada)
    assert (row.id, row.activity_type, row.origin, row.caller) == (
        row_id,
        kind,
        "agent",
        f"workspace:{ada.id}",
    )
    assert (row.source_id, row.target_id, row.method, row.summary, row.duration_ms) == (
        ada.id,
        "t",
        "m",
        "did it",
        12,
    )
    assert (row.request_body, row.response_body, row.metadata) == ({"a": 1}, [2], {"b": 3})


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        ({"activity_type": "gossip"}, "invalid-request"),
        ({"activity_type": "agent_message"}, "invalid-request"),
        ({"activity_type": "error", "source_id": "another"}, "identity-mismatch"),
        ({"activity_type": "error", "method": "m" * 201}, "invalid-request"),
        ({"activity_type": "error", "duration_ms": -1}, "invalid-request"),
        ({"activity_type": "error", "duration_ms": 2**63}, "invalid-request"),
    ],
)
async def test_what_breaks_a_rule_is_refused(
    rig: Rig, activity_writer: ActivityWriter, refuses: Refuses, entry: dict[str, Any], code: str
) -> None:
    ada = await rig.agent()
    await refuses(activity_writer.log(ada, ActivityEntry(**entry)), code)
    assert await rig.rows(ada) == []


async def test_what_an_agent_logged_as_received_is_not_its_mail(
    rig: Rig, activity_writer: ActivityWriter
) -> None:
    ada = await rig.agent()
    first = await activity_writer.log(ada, ActivityEntry("a2a_receive", summary="I said so"))
    sent = (await rig.send(ada, "real")).message
    await activity_writer.log(ada, ActivityEntry("a2a_receive", summary="again"))
    for since in (None, first):
        reading = PollResult(ada, ActivityFilter("a2a_receive"), "http://platform", own=True, since_id=since)
        rows = await rig.activity.read(reading, 0)
        assert [row["message_id"] for row in rows] == [sent.id]
    everything = PollResult(ada, ActivityFilter(), "http://platform", own=False)
    assert len(await rig.activity.read(everything, 0)) == 3


async def test_no_secret_is_kept_or_shown(rig: Rig, activity_writer: ActivityWriter) -> None:
    ada = await rig.agent()
    said = {"text": f"use {TOKEN}", "headers": {"Authorization": "hunter2"}}
    trace = {"tool_trace": [{"tool": "curl", "input": f"-H 'Bearer {TOKEN}'"}]}
    bodies: dict[str, Any] = {"request_body": said, "response_body": said, "metadata": trace}
    await activity_writer.log(
        ada, ActivityEntry("error", summary=f"with {TOKEN}", error_detail=TOKEN, **bodies)
    )
    kept = repr(await rig.rows(ada)) + repr(rig.log.said)
    assert TOKEN not in kept
    assert "hunter2" not in kept
    [row] = await rig.rows(ada)
    assert row.request_body == {
        "text": "use [REDACTED:GITHUB_PAT]",
        "headers": {"Authorization": "[REDACTED:AUTHORIZATION]"},
    }


async def test_an_entry_is_shown_live(rig: Rig, activity_writer: ActivityWriter) -> None:
    ada = await rig.agent()
    trace = [{"tool": "curl"}]
    await activity_writer.log(
        ada, ActivityEntry("task_update", "m", "half done", "t", metadata={"tool_trace": trace})
    )
    assert rig.log.said == [
        (
            "ACTIVITY_LOGGED",
            {
                "activity_type": "task_update",
                "method": "m",
                "summary": "half done",
                "status": "ok",
                "source_id": ada.id,
                "target_id": "t",
                "duration_ms": None,
                "tool_trace": trace,
            },
        )
    ]


async def test_long_texts_are_cut_and_large_bodies_leave_a_note(
    rig: Rig, activity_writer: ActivityWriter
) -> None:
    ada = await rig.agent()
    await activity_writer.log(
        ada, ActivityEntry("error", summary="s" * 5000, error_detail="e" * 5000, request_body="b" * 70_000)
    )
    [row] = await rig.rows(ada)
    assert (len(row.summary), len(row.error_detail)) == (4000, 4000)
    assert "70002 bytes" in row.request_body["note"]


async def test_what_the_platform_logs_of_mail_holds_no_secret_either(
    rig: Rig, activity_writer: ActivityWriter
) -> None:
    ada = await rig.agent()
    await rig.send(ada, "x" * 180 + f" take {TOKEN}")
    await rig.replies.notify(ada, f"here is {TOKEN}", [{"uri": "u", "token": "abc"}], None, None)
    rows = await rig.rows(ada)
    assert TOKEN[:12] not in repr([(row.summary, row.request_body) for row in rows])
    assert rows[0].request_body["attachments"] == [{"uri": "u", "token": "[REDACTED:TOKEN]"}]
