"""Polling the activity log: each row once, in order, whatever the handler does."""

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import pytest
import requests

from molecule_agent import (
    Fail,
    InboundDelivery,
    InboundMessage,
    PollDelivery,
    PushDelivery,
    RemoteAgentClient,
)

if TYPE_CHECKING:
    from .conftest import Answer, MakeClient, ScriptedPlatform  # noqa: TID252 - types only

ME = "/workspaces/3f1c2d4e-5a6b-4c7d-8e9f-0a1b2c3d4e5f"
ACTIVITY = ("GET", f"{ME}/activity")
NOTIFY = ("POST", f"{ME}/notify")


def row(number: int, **more: Any) -> dict[str, Any]:
    return {"id": f"row-{number}", "data": {"source": "canvas_user", "text": f"text {number}"}, **more}


def echo(message: InboundMessage, client: RemoteAgentClient) -> str:
    return f"you said {message.text}"


def silent(message: InboundMessage, client: RemoteAgentClient) -> None:
    return None


def failing(message: InboundMessage, client: RemoteAgentClient) -> str:
    raise RuntimeError("a secret of the handler")


def test_rows_are_handled_in_order_answered_and_never_seen_again(
    platform: "ScriptedPlatform", client: RemoteAgentClient, answer: "type[Answer]", tmp_path: Path
) -> None:
    platform.on(*ACTIVITY, answer(200, [row(1), row(2)]), answer(200, [row(2), row(3)]))
    platform.ok(*NOTIFY, {"status": "sent"})
    delivery = PollDelivery(client, cursor_file=tmp_path / "deep" / "cursor")
    assert delivery.run_once(echo) == 2
    assert (tmp_path / "deep" / "cursor").read_text() == "row-2"
    assert delivery.run_once(echo) == 1
    texts = [seen.json["message"] for seen in platform.requests(*NOTIFY)]
    assert texts == ["you said text 1", "you said text 2", "you said text 3"]
    assert platform.requests(*ACTIVITY)[1].query["since_id"] == "row-2"
    assert PollDelivery(client, cursor_file=tmp_path / "deep" / "cursor").cursor == "row-3"


def test_the_cursor_moves_past_a_row_whose_handler_raises_and_is_saved_for_each_row(
    platform: "ScriptedPlatform", client: RemoteAgentClient, tmp_path: Path
) -> None:
    platform.ok(*ACTIVITY, [row(1), row(2)])
    cursor, cursors = tmp_path / "cursor", list[str]()

    def handler(message: InboundMessage, client: RemoteAgentClient) -> str:
        cursors.append(cursor.read_text() if cursor.exists() else "")
        raise RuntimeError

    delivery = PollDelivery(client, cursor_file=cursor)
    delivery.run_once(handler)
    assert cursors == ["", "row-1"]
    assert delivery._cursor == cursor.read_text() == "row-2"
    assert len(platform.seen) == 1


def test_outcomes_are_reported_where_the_sender_waits_for_one(
    platform: "ScriptedPlatform", client: RemoteAgentClient, caplog: pytest.LogCaptureFixture
) -> None:
    data = {"source": "peer_agent", "text": "hi", "message_id": "m1"}
    platform.ok(*ACTIVITY, [row(1, source_id="peer", data=data)])
    platform.ok("POST", f"{ME}/inbox/m1/ack", {"status": "answered"})
    platform.ok("POST", f"{ME}/inbox/m1/fail", {"status": "failed"})
    PollDelivery(client).run_once(silent)
    assert platform.seen[-1].path == f"{ME}/inbox/m1/ack"
    PollDelivery(client).run_once(failing)
    body = platform.seen[-1].json
    assert body["retryable"] is False
    assert body["error"].startswith("RuntimeError (ref ")
    assert "secret" not in body["error"]


@pytest.mark.parametrize(
    ("raised", "result", "error"),
    [
        (Fail("no such customer"), None, "no such customer"),
        (Fail("the shop is closed", retry=True), None, "the shop is closed"),
        (
            None,
            {"text": "hi"},
            "handler returned a value of type dict, where only str, Answer or None can be sent",
        ),
        (None, 4, "handler returned a value of type int, where only str, Answer or None can be sent"),
    ],
)
def test_a_failure_that_the_handler_names_and_a_result_that_is_no_answer_end_the_message(
    raised: Fail | None,
    result: Any,
    error: str,
    platform: "ScriptedPlatform",
    client: RemoteAgentClient,
    caplog: pytest.LogCaptureFixture,
) -> None:
    platform.ok(*ACTIVITY, [row(1, data={"source": "canvas_user", "text": "hi", "message_id": "m1"})])
    platform.ok("POST", f"{ME}/inbox/m1/fail", {"status": "failed"})

    def handler(message: InboundMessage, client: RemoteAgentClient) -> Any:
        if raised is not None:
            raise raised
        return result

    assert PollDelivery(client).run_once(handler) == 1
    body = platform.seen[-1].json
    assert body["retryable"] is False
    assert body["error"].endswith(error)
    assert error in caplog.text


def test_a_reply_that_cannot_be_sent_does_not_stop_the_others(
    platform: "ScriptedPlatform",
    client: RemoteAgentClient,
    answer: "type[Answer]",
    caplog: pytest.LogCaptureFixture,
) -> None:
    platform.ok(*ACTIVITY, [row(1), row(2)])
    platform.on(*NOTIFY, answer(500, {"error": "away"}), answer(200, {}))
    assert PollDelivery(client).run_once(echo) == 2
    assert "could not be sent" in caplog.text


def test_a_peers_answer_is_handled_but_nothing_is_answered(
    platform: "ScriptedPlatform", client: RemoteAgentClient
) -> None:
    platform.ok(
        *ACTIVITY, [row(1, kind="reply", source_id="peer", data={"source": "peer_agent", "text": "hi"})]
    )
    assert PollDelivery(client).run_once(echo) == 1
    assert len(platform.seen) == 1


def test_what_the_agent_said_itself_is_passed_over(
    platform: "ScriptedPlatform", client: RemoteAgentClient
) -> None:
    own: Any = {"params": {"message": {"role": "agent", "parts": []}}}
    rows = [row(1, method="notify"), row(2, source_id=client.workspace_id, request_body=own)]
    platform.ok(*ACTIVITY, rows)
    delivery = PollDelivery(client)
    assert delivery.run_once(echo) == 0
    assert delivery.cursor == "row-2"


def test_a_lost_cursor_is_dropped_and_reading_starts_again(
    platform: "ScriptedPlatform", client: RemoteAgentClient, answer: "type[Answer]", tmp_path: Path
) -> None:
    (tmp_path / "cursor").write_text("row-0\n")
    platform.on(*ACTIVITY, answer(410, {"code": "cursor-lost"}), answer(200, [row(1)]))
    platform.ok(*NOTIFY, {})
    delivery = PollDelivery(client, cursor_file=tmp_path / "cursor")
    assert delivery.run_once(echo) == 0
    assert not (tmp_path / "cursor").exists()
    assert delivery.run_once(echo) == 1
    assert "since_id" not in platform.requests(*ACTIVITY)[1].query


def test_a_stopped_delivery_makes_no_request(platform: "ScriptedPlatform", client: RemoteAgentClient) -> None:
    delivery = PollDelivery(client)
    delivery.stop()
    assert delivery.run_once(echo) == 0
    assert platform.seen == []


def test_long_polling_is_eager_only_while_the_platform_holds_the_request(
    platform: "ScriptedPlatform", client: RemoteAgentClient, answer: "type[Answer]"
) -> None:
    platform.on(*ACTIVITY, answer(200, []), answer(200, []), answer(200, [row(1)]), answer(drop=True))
    platform.ok(*NOTIFY, {})
    delivery = PollDelivery(client, interval=7.0, wait=20.0)
    assert delivery.interval == 0.05
    delivery.run_once(echo)
    assert delivery.interval == 0.05
    delivery.run_once(echo)
    assert delivery.interval == 7.0
    assert platform.seen[0].query["wait"] == "20"
    delivery.run_once(echo)
    assert delivery.interval == 0.05
    with pytest.raises(requests.ConnectionError):
        delivery.run_once(echo)
    assert delivery.interval == 0.5


def test_async_handlers_share_one_event_loop(platform: "ScriptedPlatform", client: RemoteAgentClient) -> None:
    import asyncio

    loops: list[object] = []

    async def handler(message: InboundMessage, client: RemoteAgentClient) -> str:
        await asyncio.sleep(0)
        loops.append(asyncio.get_running_loop())
        return "async"

    platform.ok(*ACTIVITY, [row(1), row(2)])
    platform.ok(*NOTIFY, {})
    assert PollDelivery(client).run_once(handler) == 2
    assert [seen.json["message"] for seen in platform.requests(*NOTIFY)] == ["async", "async"]
    assert loops[0] is loops[1]


async def test_an_async_handler_works_although_the_caller_runs_a_loop(
    platform: "ScriptedPlatform", client: RemoteAgentClient
) -> None:
    async def handler(message: InboundMessage, client: RemoteAgentClient) -> None:
        return None

    platform.ok(*ACTIVITY, [row(1)])
    assert PollDelivery(client).run_once(handler) == 1


def test_closing_the_client_ends_what_its_async_handlers_left_running(
    platform: "ScriptedPlatform", client: RemoteAgentClient
) -> None:
    import asyncio

    ended, left = threading.Event(), list[object]()

    async def forever() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    async def handler(message: InboundMessage, client: RemoteAgentClient) -> None:
        left.append(asyncio.create_task(forever()))
        await asyncio.sleep(0)

    platform.ok(*ACTIVITY, [row(1)])
    PollDelivery(client).run_once(handler)
    client.close()
    assert ended.wait(30)


def test_an_outcome_that_cannot_be_reported_is_only_logged(
    platform: "ScriptedPlatform", client: RemoteAgentClient, caplog: pytest.LogCaptureFixture
) -> None:
    platform.ok(*ACTIVITY, [row(1, data={"source": "canvas_user", "text": "hi", "message_id": "m1"})])
    assert PollDelivery(client).run_once(silent) == 1
    assert "the outcome of row-1 could not be reported" in caplog.text


def test_a_double_of_the_client_needs_no_more_than_the_original_had() -> None:
    client = MagicMock()
    message = InboundMessage("row-1", "canvas_user", "", "hi")
    client.fetch_inbound.return_value = [message]
    delivery = PollDelivery(client, interval=1.0)
    assert delivery.run_once(echo) == 1
    client.fetch_inbound.assert_called_once_with(since_id=None, limit=100, type="a2a_receive")
    client.reply.assert_called_once_with(message, "you said hi")
    assert delivery.interval == 1.0


def test_the_deliveries_satisfy_the_protocol_and_a_push_delivery_only_stops_its_server(
    make_client: "MakeClient", caplog: pytest.LogCaptureFixture
) -> None:
    server = MagicMock()
    server.stop.side_effect = RuntimeError("stuck")
    delivery = PushDelivery(make_client(), server)
    assert isinstance(delivery, InboundDelivery)
    assert isinstance(PollDelivery(make_client()), InboundDelivery)
    assert delivery.run_once(echo) == 0
    delivery.stop()
    assert "did not stop cleanly" in caplog.text
