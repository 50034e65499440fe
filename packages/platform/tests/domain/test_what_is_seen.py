"""What senders and receivers see of a message: rows, tasks and inbox items, in both dialects."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_platform.domain import credentials, events, inbox, messages, results
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.events import Event, Transition
from molecule_platform.domain.inbox import Sender

if TYPE_CHECKING:
    from packages.platform.tests.conftest import MakeMessage

NOW = datetime(2026, 5, 2, 12, 0, tzinfo=UTC)
NOON = "2026-05-02T12:00:00.000Z"
MESSAGE = (
    "id,org_id,target_id,caller,caller_name,kind,method,status,task_state,task_id,context_id,delegation_id,"
    "parent_message_id,priority,attempts,max_attempts,created_at,deadline_at,leased_at,lease_expires_at,"
    "finished_at,delivery_mode,result,error,dead_letter,cancel_requested"
)


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("accepted", "submitted"),
        ("leased", "working"),
        ("answered", "completed"),
        ("failed", "failed"),
        ("expired", "failed"),
        ("cancelled", "canceled"),
    ],
)
def test_each_status_is_a_task_state_in_the_spelling_of_its_dialect(
    make_message: MakeMessage, status: str, state: str
) -> None:
    message = make_message(status=status)
    old, new = results.snapshot(message, "0.3"), results.snapshot(message, "1.0")
    assert (old["kind"], old["status"]["state"]) == ("task", state)
    assert new["status"]["state"] == f"TASK_STATE_{state.upper()}"
    assert old["id"] == new["id"] == message.task_id


def test_the_agent_s_own_state_is_kept(make_message: MakeMessage) -> None:
    asking = make_message(status="answered", task_state="input-required")
    assert results.snapshot(asking, "0.3")["status"]["state"] == "input-required"
    assert results.snapshot(asking, "1.0")["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"


def test_a_failure_is_told_in_words_with_its_code(make_message: MakeMessage) -> None:
    error = {"code": "peer-unreachable", "message": "nobody there", "retryable": False}
    status = results.snapshot(make_message(status="failed", error=error), "1.0")["status"]
    assert status["message"]["parts"] == [{"text": "nobody there"}]
    assert status["message"]["metadata"] == {"code": "peer-unreachable"}


@pytest.mark.parametrize("spoken", ["0.3", "1.0"])
@pytest.mark.parametrize("asked", ["0.3", "1.0"])
def test_an_answer_given_in_one_dialect_is_shown_in_the_other(
    make_message: MakeMessage, spoken: str, asked: str
) -> None:
    message = make_message(status="answered", dialect=spoken)
    said = results.agent_message("a1", [{"text": "four"}])
    answer = results.answer_task(
        message, "completed", said, [{"artifactId": "x", "parts": [{"text": "4"}]}], NOON
    )
    shown = results.snapshot(make_message(status="answered", dialect=spoken, result=answer), asked)
    part = {"kind": "text", "text": "four"} if asked == "0.3" else {"text": "four"}
    assert shown["status"]["message"]["parts"] == [part]
    assert shown["status"]["state"] == ("completed" if asked == "0.3" else "TASK_STATE_COMPLETED")
    assert shown["artifacts"][0]["artifactId"] == "x"


def test_a_sent_answer_is_wrapped_in_1_0_and_bare_in_0_3(make_message: MakeMessage) -> None:
    new = json.loads(results.answer_task(make_message(dialect="1.0"), "completed", None, [], NOON))
    old = json.loads(results.answer_task(make_message(dialect="0.3"), "completed", None, [], NOON))
    assert list(new) == ["task"]
    assert old["kind"] == "task"


@pytest.mark.parametrize(
    ("dialect", "stored"),
    [
        (
            "0.3",
            {"kind": "message", "messageId": "a", "role": "agent", "parts": [{"kind": "text", "text": "hi"}]},
        ),
        ("1.0", {"message": {"messageId": "a", "role": "ROLE_AGENT", "parts": [{"text": "hi"}]}}),
    ],
)
def test_an_agent_s_bare_message_becomes_the_word_of_a_finished_task(
    make_message: MakeMessage, dialect: str, stored: dict[str, Any]
) -> None:
    message = make_message(status="answered", dialect=dialect, result=json.dumps(stored).encode())
    shown = results.snapshot(message, "1.0")
    assert shown["status"]["message"]["parts"] == [{"text": "hi"}]
    assert shown["status"]["state"] == "TASK_STATE_COMPLETED"


def test_an_agent_s_own_task_is_shown_as_it_came(make_message: MakeMessage) -> None:
    task = {"id": "t9", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}, "x": 1}
    message = make_message(status="answered", dialect="1.0", result=json.dumps({"task": task}).encode())
    assert results.snapshot(message, "1.0") == task


def test_a_message_row_has_exactly_the_members_of_the_contract(make_message: MakeMessage) -> None:
    row = results.message_row(make_message(finished_at=NOW), "poll")
    assert sorted(row) == sorted(MESSAGE.split(","))
    assert (row["finished_at"], row["leased_at"], row["delivery_mode"]) == (NOON, None, "poll")


@pytest.mark.parametrize(
    ("caller", "source", "for_old_clients"),
    [
        ("workspace:w1", "peer_agent", "peer_agent"),
        ("user:ann", "canvas_user", "canvas_user"),
        ("org-token:t1", "canvas_user", "canvas_user"),
        ("channel:slack:7", "channel", "canvas_user"),
        ("webhook:github", "channel", "canvas_user"),
        ("system:scheduler", "schedule", "canvas_user"),
        ("system:restart", "system", "canvas_user"),
    ],
)
def test_each_caller_has_a_source_that_its_reader_understands(
    caller: str, source: str, for_old_clients: str
) -> None:
    assert inbox.source_of(caller) == source
    assert inbox.source_of(caller, original_client=True) == for_old_clients


@pytest.mark.parametrize("dialect", ["0.3", "1.0"])
def test_a_received_row_tells_the_words_and_who_said_them(make_message: MakeMessage, dialect: str) -> None:
    message = make_message(caller="workspace:w1", dialect=dialect, said="add two and two")
    data = inbox.activity_data(
        message, inbox.read_stored(message).text, "act", Sender("Ada", "maths"), "http://p", False
    )
    assert (data["text"], data["message"]) == ("add two and two", "add two and two")
    assert (data["peer_id"], data["peer_name"], data["peer_role"]) == ("w1", "Ada", "maths")
    assert data["agent_card_url"] == "http://p/registry/discover/w1"
    assert data["activity_id"] == "act"


def test_a_person_has_no_peer_members(make_message: MakeMessage) -> None:
    data = inbox.activity_data(make_message(), "hello", "act", None, "http://p", False)
    assert (data["peer_id"], data["peer_name"], data["agent_card_url"]) == ("", "", "")


def test_an_inbox_item_carries_its_lease_only_for_the_one_who_took_it(make_message: MakeMessage) -> None:
    message = make_message(
        status="leased", lease_epoch=3, attempts=2, lease_expires_at=NOW + timedelta(seconds=60)
    )
    row = {"id": "act", "data": inbox.activity_data(message, "hello", "act", None, "http://p", False)}
    received = inbox.a2a_message_of(message)
    taken, peeked = (inbox.inbox_item(message, received, row, token) for token in ("token", None))
    assert "lease" not in peeked
    assert taken["lease"] == {
        "token": "token",
        "epoch": 3,
        "expires_at": "2026-05-02T12:01:00.000Z",
        "attempt": 2,
    }
    assert taken["parts"] == [{"kind": "text", "text": "hello"}]


@given(st.sampled_from([b"[]", b"3", b"{}", b'{"params":[]}', b'{"params":{"message":"hi"}}']))
def test_a_stored_body_without_a_message_is_an_empty_one(make_message: MakeMessage, body: bytes) -> None:
    assert inbox.a2a_message_of(make_message(body=body)) == {}


@pytest.mark.parametrize("kind", messages.TRANSITIONS)
def test_a_step_of_a_message_is_an_event_unless_it_goes_back_into_the_queue(kind: str) -> None:
    step = Transition(7, "one", "m1", "w1", "user:ann", kind, 1, 1, NOW)
    event = step.as_event()
    if kind in ("retry", "released"):
        assert event is None
        return
    assert event is not None
    assert event.row() == {
        "id": "7",
        "event_type": f"MESSAGE_{kind.upper()}",
        "workspace_id": "w1",
        "payload": {"message_id": "m1", "caller": "user:ann", "target_id": "w1"},
        "created_at": NOON,
    }


def test_what_is_only_shown_live_travels_to_other_replicas_whole() -> None:
    passing = Event("TASK_UPDATED", "one", "w1", {"current_task": "é", "active_tasks": 1}, NOW)
    assert Event.from_line(passing.as_line()) == passing


def test_a_live_frame_has_an_id_exactly_when_it_can_be_replayed() -> None:
    kept = Event("WORKSPACE_ONLINE", "one", "w1", {}, NOW, 5)
    passing = Event("WORKSPACE_HEARTBEAT", "one", "w1", {}, NOW)
    assert kept.frame() == {
        "id": "5",
        "event": "WORKSPACE_ONLINE",
        "workspace_id": "w1",
        "timestamp": NOON,
        "payload": {},
    }
    assert "id" not in passing.frame()


@pytest.mark.parametrize("given", ["", "-1", "x", "1.0", "\u00b2", "\u0663", "9" * 19, "1\n"])
def test_only_a_number_names_an_event(given: str) -> None:
    assert events.parse_id("007") == 7
    with pytest.raises(ApiError) as refused:
        events.parse_id(given)
    assert refused.value.extras["field"] == "since"


def test_every_status_that_an_operator_or_agent_can_cause_has_its_event() -> None:
    assert set(events.STATUS_EVENT_OF) >= {
        "online",
        "degraded",
        "offline",
        "paused",
        "awaiting_agent",
        "removed",
    }


def test_tokens_are_43_characters_never_alike_and_kept_as_digests() -> None:
    made = {credentials.new_token() for _ in range(100)}
    assert len(made) == 100
    assert {len(token) for token in made} == {43}
    assert all(token not in credentials.digest(token) for token in made)


@given(st.text(), st.text())
def test_secrets_are_the_same_exactly_when_they_are_equal(left: str, right: str) -> None:
    try:
        assert credentials.same(left, right) == (left == right)
    except UnicodeEncodeError:
        assert any("\ud800" <= c <= "\udfff" for c in left + right)


def test_the_csrf_token_belongs_to_its_session_alone() -> None:
    assert credentials.csrf_token("one") == credentials.csrf_token("one") != credentials.csrf_token("two")
