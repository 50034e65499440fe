"""Reading replies that are not what one hopes for, and routing answers."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_wire import JSON, assertions
from molecule_wire.calls import (
    CallFailed,
    InboundMessage,
    Lease,
    Registration,
    Reply,
    a2a,
    activity,
    delegations,
    failures,
    inbound,
    inbox,
    registry,
    replies,
    workspaces,
)

IDS = {"rpc_id": "r", "message_id": "m"}
json_values: st.SearchStrategy[JSON] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def message(**given: Any) -> InboundMessage:
    fields: dict[str, Any] = {"activity_id": "row", "source": "peer_agent", "source_id": "peer", "text": "hi"}
    return InboundMessage(**fields | given)


@given(json_values, st.sampled_from([200, 204, 401, 404, 409, 410, 429, 500, 503]))
def test_no_body_makes_a_reader_fail_in_another_way_than_a_refusal(body: JSON, status: int) -> None:
    reply = Reply(status, body=body)
    for read in (
        registry.read_registration,
        registry.read_peers,
        registry.read_peer_rows,
        registry.read_discovery,
        registry.read_heartbeat,
        delegations.read_page,
        workspaces.read_secrets,
        workspaces.read_shared_context,
        workspaces.read_instructions,
        activity.read_rows,
        inbox.read_leased,
        inbox.read_extended,
        a2a.read_envelope,
    ):
        with contextlib.suppress(CallFailed):
            read(reply)


@given(st.dictionaries(st.sampled_from(["id", "data", "source_id", "request_body", "lease"]), json_values))
def test_any_row_is_read_or_skipped(row: dict[str, JSON]) -> None:
    read = inbound.parse_row(row)
    assert (read is None) == (not isinstance(row.get("id"), str) or not row["id"])
    inbound.parse_leased(row)


@pytest.mark.parametrize(
    "part", [{"kind": "text", "text": "hi"}, {"type": "text", "text": "hi"}, {"text": "hi"}]
)
def test_the_text_of_a_row_is_found_in_its_request_in_every_form(part: JSON) -> None:
    body: JSON = {"params": {"message": {"role": "user", "parts": [part, {"kind": "text", "text": "there"}]}}}
    read = inbound.parse_row({"id": "row", "request_body": body})
    assert read is not None
    assert read.text == "hi\nthere"
    assert len(read.parts) == 2


@pytest.mark.parametrize(
    ("row", "source"),
    [
        ({"data": {"source": "user"}}, "canvas_user"),
        ({"source": "schedule"}, "schedule"),
        ({"source_id": "user"}, "canvas_user"),
        ({"source_id": "some-peer"}, "peer_agent"),
        ({"data": {"source": "martian"}}, "unknown"),
    ],
)
def test_where_a_row_comes_from(row: dict[str, JSON], source: str) -> None:
    read = inbound.parse_row({"id": "row", **row})
    assert read is not None
    assert read.source == source


def test_what_the_workspace_said_itself_is_known_as_its_echo() -> None:
    said: JSON = {"params": {"message": {"role": "agent", "parts": []}}}
    assert inbound.is_own_echo(message(raw={"method": "notify"}), "me")
    assert inbound.is_own_echo(message(source_id="me", raw={"request_body": said}), "me")
    assert not inbound.is_own_echo(message(source_id="other", raw={"request_body": said}), "me")


def test_a_peers_answer_is_known_by_its_kind() -> None:
    assert message(raw={"kind": "reply"}).is_reply
    assert not message().is_reply


def test_a_leased_item_takes_what_its_row_lacks_from_the_item() -> None:
    read = inbound.parse_leased(
        {
            "id": "row",
            "message_id": "m",
            "peer_id": "peer",
            "text": "hi",
            "context_id": "c",
            "lease": {"token": "t", "expires_at": "not a time"},
        }
    )
    assert read is not None
    assert read.lease == Lease("t", 0.0, 1, 0)
    assert (read.message_id, read.source_id, read.text, read.context_id) == ("m", "peer", "hi", "c")


def test_a_leased_item_names_its_caller_as_an_assertion_does() -> None:
    context: JSON = {"id": "d", "root": "r", "depth": 2, "calls_left": 9, "chain": ["a", "b"]}
    item: dict[str, JSON] = {
        "id": "row",
        "org_id": "org",
        "caller": "user:ann",
        "caller_name": "Ann",
        "client_message_id": "m1",
        "message_id": "row-1",
        "context_id": "c",
        "delegation_context": context,
        "lease": {"token": "t"},
    }
    read = inbound.parse_leased(item)
    claims: dict[str, JSON] = {
        "sub": "user:ann",
        "name": "Ann",
        "org": "org",
        "mid": "m1",
        "row": "row-1",
        "ctx": "c",
        "delegation": context,
    }
    assert read is not None
    assert read.caller == assertions.caller_of(claims)


def test_a_row_that_names_no_caller_has_none() -> None:
    read = inbound.parse_row({"id": "row", "data": {"peer_name": "ops"}})
    assert read is not None
    assert read.caller is None


@pytest.mark.parametrize(
    ("received", "path", "body"),
    [
        (message(source="canvas_user", message_id="m1"), "/workspaces/me/notify", {"message": "yes"}),
        (
            message(source="schedule", message_id="m1"),
            "/workspaces/me/inbox/m1/answer",
            {"text": "yes"},
        ),
        (
            message(message_id="m1", lease=Lease("t", 0.0, 1)),
            "/workspaces/me/inbox/m1/answer",
            {"lease_token": "t", "text": "yes"},
        ),
    ],
)
def test_an_answer_goes_the_way_its_message_came(received: InboundMessage, path: str, body: JSON) -> None:
    request = replies.reply("me", received, "yes", **IDS)
    assert (request.path, request.json) == (path, body)


def test_an_answer_to_a_peer_names_what_it_answers() -> None:
    request = replies.reply("me", message(), "yes", **IDS)
    assert request.path == "/workspaces/peer/a2a"
    assert request.headers["X-Molecule-In-Reply-To"] == "row"
    assert request.timeout == 15.0


@pytest.mark.parametrize(
    ("received", "text", "sentence"),
    [
        (message(), " ", "reply text must be non-empty"),
        (message(source="unknown"), "yes", "cannot auto-route reply for source='unknown'"),
        (message(source="system"), "yes", "cannot auto-route reply"),
        (message(source_id=""), "yes", "has no source_id"),
    ],
)
def test_an_answer_that_cannot_be_sent_says_why(received: InboundMessage, text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        replies.reply("me", received, text, **IDS)


def test_an_id_cannot_leave_its_path_segment() -> None:
    assert workspaces.state("../admin?x=1").path == "/workspaces/..%2Fadmin%3Fx%3D1/state"


def test_secrets_do_not_show_when_printed() -> None:
    assert "secret" not in repr(Registration("secret-token", "secret-recovery"))
    assert "secret" not in repr(Lease("secret-token", 0.0, 1))


def test_a_failure_reads_as_one_sentence() -> None:
    assert str(CallFailed(403, "hierarchy-denied", "no", "r1")) == "403 hierarchy-denied: no (request r1)"
    assert str(CallFailed(500)) == "500"
    assert str(CallFailed(500, request_id="r1")) == "500 (request r1)"


def test_a_failure_takes_what_it_can_from_the_headers() -> None:
    headers = {"retry-after": "3", "x-request-id": "r1"}
    failure = failures.failure(Reply(503, headers, None, readable=False))
    assert (failure.retry_after, failure.request_id, failure.code) == (3.0, "r1", "")


def test_optional_members_are_sent_only_when_given() -> None:
    beat = registry.heartbeat("me", current_task="x" * 2000, runtime_metadata={"capabilities": {}})
    assert beat.json is not None
    assert len(str(beat.json["current_task"])) == 1000
    assert beat.json["runtime_metadata"] == {"capabilities": {}}
    sent = a2a.send("me", "peer", "hi", rpc_id="r", message_id="m", context_id="c", metadata={"a": 1})
    assert sent.json is not None
    assert sent.json["params"] == {
        "message": {
            "role": "user",
            "messageId": "m",
            "parts": [{"kind": "text", "text": "hi"}],
            "contextId": "c",
            "metadata": {"a": 1},
        }
    }
    told = activity.notify("me", "hi", attachments=[{"uri": "u", "name": "n"}])
    assert told.json == {"message": "hi", "attachments": [{"uri": "u", "name": "n"}]}
    answer = inbox.answer("me", "m", parts=[{"text": "x"}], lease_token="t", state="input-required")
    assert answer.json == {"lease_token": "t", "state": "input-required", "parts": [{"text": "x"}]}
    step = inbox.progress("me", "m", lease_token="t", artifact={"artifactId": "a"})
    assert step.json == {"lease_token": "t", "artifact": {"artifactId": "a"}}
    assert activity.fetch("me").timeout == 15.0
    assert inbox.peek("me").params == {"limit": "10"}
    assert registry.peers("me").params == {}
    assert activity.notify("me", "hi", type="delegation_result").json == {
        "message": "hi",
        "type": "delegation_result",
    }
    assert activity.log("me", "agent_log").json == {"activity_type": "agent_log"}
    page = delegations.list_page("me", status="failed", limit=1000)
    assert page.params == {"role": "source", "limit": "200", "status": "failed"}
    plain = registry.register("me", "", {"name": "a"})
    assert plain.json == {"id": "me", "url": registry.NO_INBOUND, "agent_card": {"name": "a"}}


def test_an_accepted_answer_of_a_peer_that_is_no_object_is_a_failure() -> None:
    with pytest.raises(CallFailed, match="not a JSON object"):
        a2a.read_envelope(Reply(200, body="hello"))


def test_a_paused_or_removed_workspace_should_stop() -> None:
    assert workspaces.WorkspaceState("w", "paused", True, False).should_stop
    assert workspaces.removed("w").should_stop
    assert not workspaces.WorkspaceState("w", "online", False, False).should_stop


def test_peers_are_shown_with_every_member_of_their_rows() -> None:
    rows: list[JSON] = [{"id": "a", "parent_id": "p", "relation": "child"}, {"name": "without an id"}, 7]
    assert registry.read_peer_rows(Reply(200, body=rows)) == [rows[0]]


def test_shared_files_without_content_are_skipped() -> None:
    assert workspaces.shared_context("a/b").path == "/workspaces/a%2Fb/shared-context"
    files: list[JSON] = [
        {"path": "plan.md", "content": "first"},
        {"path": "empty.md"},
        {"content": "nameless"},
    ]
    assert workspaces.read_shared_context(Reply(200, body=files)) == [files[0]]


def test_instructions_are_text_or_nothing() -> None:
    assert workspaces.instructions("w").path == "/workspaces/w/instructions/resolve"
    assert workspaces.read_instructions(Reply(200, body={"instructions": "Be brief."})) == "Be brief."
    assert workspaces.read_instructions(Reply(200, body={"instructions": None})) == ""
