"""An answer is seen while it is made, also by a sender that took a receipt and follows the message."""

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest

from molecule_a2a import AgentApp, Turn
from molecule_agent import RemoteAgentClient
from molecule_platform.testing import servers, serving
from molecule_wire import JSONObject
from tests.spec import streams
from tests.spec.platforms import Platform, Start, message
from tests.spec.scripted_agent import ScriptedAgent, join_push

pytestmark = pytest.mark.both_engines

ASYNC = {"Prefer": "respond-async"}
SECONDS = 30


class Writer:
    """An agent on the asyncio server that says one piece for each permission it gets."""

    def __init__(self) -> None:
        self.permits = threading.Semaphore(0)
        self.turns = 0
        self.stopped = threading.Event()

    async def __call__(self, turn: Turn) -> str:
        self.turns += 1
        try:
            for number, piece in enumerate(("one ", "two ", "three")):
                assert await asyncio.to_thread(self.permits.acquire, timeout=SECONDS)
                turn.artifact({"artifactId": "a", "parts": [{"text": piece}]}, append=number > 0)
        except asyncio.CancelledError:
            self.stopped.set()
            raise
        return ""


@contextmanager
def joined(platform: Platform, writer: Writer) -> Generator[RemoteAgentClient]:
    """The agent in an organisation, with a card that says that it streams."""
    port = servers.free_port()
    url = f"http://127.0.0.1:{port}/"
    card: JSONObject = {"name": "writer", "capabilities": {"streaming": True}}
    with serving.serving(AgentApp(writer, card, url=url), port):
        client = platform.join("writer")
        body = {"id": client.workspace_id, "url": url, "agent_card": card}
        platform.ok("POST", "/registry/register", token=client.load_token(), json=body)
        yield client


def stream_body(words: str) -> dict[str, Any]:
    return message(words, str(uuid4())) | {"method": "message/stream"}


def sent(platform: Platform, target: str, body: dict[str, Any]) -> str:
    answer = platform.call("POST", f"/workspaces/{target}/a2a", json=body, headers=ASYNC)
    assert (answer.status_code, answer.json()["queued"]) == (202, True)
    return answer.json()["message_id"]


def next_piece(following: streams.Stream) -> str:
    update = following.until("artifact")[-1].data["artifactUpdate"]
    return "".join(part["text"] for part in update["artifact"]["parts"])


def text_of(task: dict[str, Any]) -> str:
    return "".join(part["text"] for artifact in task["artifacts"] for part in artifact["parts"])


def test_each_piece_of_an_agent_with_a_url_is_told_before_the_next_is_made(platform: Platform) -> None:
    writer = Writer()
    with joined(platform, writer) as client:
        message_id = sent(platform, client.workspace_id, stream_body("write"))
        with streams.stream(platform, f"/messages/{message_id}/events") as following:
            for piece in ("one ", "two ", "three"):
                writer.permits.release()
                assert next_piece(following) == piece
            following.until("status")
        ended = platform.ok("GET", f"/messages/{message_id}?wait=20")
    assert (ended["status"], ended["task_state"], text_of(ended["result"])) == (
        "answered",
        "completed",
        "one two three",
    )


def test_the_same_stream_sent_again_is_the_same_message(platform: Platform) -> None:
    writer, body = Writer(), stream_body("write")
    with joined(platform, writer) as client:
        first = sent(platform, client.workspace_id, body)
        assert sent(platform, client.workspace_id, body) == first
        writer.permits.release(3)
        assert platform.ok("GET", f"/messages/{first}?wait=20")["status"] == "answered"
        path = f"/workspaces/{client.workspace_id}/a2a"
        answer = platform.call("POST", path, json=body, headers=ASYNC)
        assert answer.headers["Idempotency-Replayed"] == "true"
        assert text_of(answer.json()["result"]) == "one two three"
    assert writer.turns == 1


def test_a_platform_that_restarts_in_the_middle_tells_the_whole_text_once(restarting: Start) -> None:
    platform = restarting()
    writer = Writer()
    with joined(platform, writer) as client:
        message_id = sent(platform, client.workspace_id, stream_body("write"))
        with streams.stream(platform, f"/messages/{message_id}/events") as following:
            writer.permits.release()
            assert next_piece(following) == "one "
        platform.stop()
        writer.permits.release()
        again = restarting()
        with streams.stream(again, f"/messages/{message_id}/events") as following:
            writer.permits.release()
            told = following.until("answered")
        ended = again.ok("GET", f"/messages/{message_id}")
        pieces = [one.data["artifactUpdate"] for one in told if one.event == "artifact"]
        assert "".join(part["text"] for one in pieces for part in one["artifact"]["parts"]) == "one two three"
        assert (text_of(ended["result"]), ended["attempts"], writer.turns) == ("one two three", 1, 1)


def test_an_answer_that_is_called_off_stops_its_agent_and_keeps_what_was_said(platform: Platform) -> None:
    writer = Writer()
    with joined(platform, writer) as client:
        message_id = sent(platform, client.workspace_id, stream_body("write"))
        with streams.stream(platform, f"/messages/{message_id}/events") as following:
            writer.permits.release()
            assert next_piece(following) == "one "
            cancelled = platform.ok("POST", f"/messages/{message_id}/cancel", json={})
            following.until("cancelled")
        assert writer.stopped.wait(SECONDS)
        writer.permits.release()
        task = platform.ok(
            "GET",
            f"/agents/{client.workspace_id}/tasks/{cancelled['task_id']}",
            headers={"A2A-Version": "1.0"},
        )
    assert (task["status"]["state"], text_of(task)) == ("TASK_STATE_CANCELED", "one ")


def test_an_agent_that_does_not_stream_is_asked_for_one_answer(
    platform: Platform, agent: ScriptedAgent
) -> None:
    client = join_push(platform, agent)
    message_id = sent(platform, client.workspace_id, stream_body("hello"))
    ended = platform.ok("GET", f"/messages/{message_id}?wait=20")
    assert ended["result"]["parts"][0]["text"] == "re: hello"
    assert [body["method"] for _headers, body in agent.received] == ["message/send"]


def test_a_stream_that_is_not_asked_for_later_is_held_as_before(platform: Platform) -> None:
    writer = Writer()
    writer.permits.release(3)
    with joined(platform, writer) as client:
        path = f"/workspaces/{client.workspace_id}/a2a"
        answer = platform.call("POST", path, json=stream_body("write"), stream=True)
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        assert answer.text.count("artifact-update") == 3
