"""Agents behind any NAT stream as well: progress over the inbox reaches whoever follows."""

import json
from typing import Any

import pytest

from molecule_agent import RemoteAgentClient
from tests.spec import streams
from tests.spec.platforms import Platform

pytestmark = pytest.mark.both_engines

ASYNC = {"Prefer": "respond-async"}


class Desk:
    """An agent that holds one message."""

    def __init__(self, platform: Platform, client: RemoteAgentClient) -> None:
        self.platform, self.token = platform, client.load_token()
        self.inbox = f"/workspaces/{client.workspace_id}/inbox"
        self.mid = platform.send(client.workspace_id, "write", headers=ASYNC).json()["message_id"]
        [item] = platform.ok("POST", f"{self.inbox}/lease", token=self.token, json={"lease": 10})["messages"]
        self.lease: dict[str, Any] = item["lease"]

    def call(self, verb: str, **body: Any) -> Any:
        given = {"lease_token": self.lease["token"], **body}
        return self.platform.call("POST", f"{self.inbox}/{self.mid}/{verb}", token=self.token, json=given)

    def progress(self, **body: Any) -> dict[str, Any]:
        answer = self.call("progress", **body)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture
def waiters(platform: Platform) -> Desk:
    return Desk(platform, platform.join("a"))


def test_words_and_pieces_of_artifacts_reach_whoever_follows_as_they_come(waiters: Desk) -> None:
    with streams.stream(waiters.platform, f"/messages/{waiters.mid}/events") as live:
        live.until("status")
        assert waiters.progress(text="thinking", state="working") == {"seq": 3, "cancel_requested": False}
        assert [one.id for one in live.until("status")] == ["3"]
        piece = {"artifactId": "poem", "name": "A poem", "parts": [{"kind": "text", "text": "Roses "}]}
        assert waiters.progress(artifact=piece)["seq"] == 4
        more = {"artifactId": "poem", "parts": [{"text": "are red"}], "append": True, "lastChunk": True}
        assert waiters.progress(artifact=more)["seq"] == 5
        [first, second] = [live.until("artifact")[-1].data["artifactUpdate"] for _ in range(2)]
        assert first["artifact"] == {"artifactId": "poem", "name": "A poem", "parts": [{"text": "Roses "}]}
        assert (second["append"], second["lastChunk"]) == (True, True)
        assert waiters.call("answer", text="there you are").status_code == 200
        live.ends()
    result = waiters.platform.ok("GET", f"/messages/{waiters.mid}")["result"]
    words = [part["text"] for part in result["artifacts"][0]["parts"]]
    assert words == ["Roses ", "are red"]


def test_progress_renews_the_lease(waiters: Desk) -> None:
    waiters.progress(metadata={"percent": 10})
    row = waiters.platform.ok("GET", f"/messages/{waiters.mid}")
    assert row["lease_expires_at"] > waiters.lease["expires_at"]


@pytest.mark.parametrize(
    "body",
    [
        {"state": "completed"},
        {"artifact": {"parts": []}},
        {"artifact": {"artifactId": "a"}},
        {"artifact": {"artifactId": "never-begun", "parts": [], "append": True}},
        {"unknown": 1},
    ],
)
def test_progress_that_makes_no_sense_is_refused_without_effect(waiters: Desk, body: dict[str, Any]) -> None:
    refused = waiters.call("progress", **body)
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid-request")
    assert waiters.progress(text="still here")["seq"] == 3


def test_an_old_lease_reports_nothing(waiters: Desk) -> None:
    old = waiters.lease
    waiters.call("release")
    [item] = waiters.platform.ok("POST", f"{waiters.inbox}/lease", token=waiters.token, json={})["messages"]
    late = waiters.call("progress", text="late")
    assert (late.status_code, late.json()["code"]) == (409, "lease-lost")
    waiters.lease = item["lease"]
    assert (waiters.progress(text="new")["seq"], waiters.lease["epoch"], old["epoch"]) == (3, 2, 1)


def test_after_a_cancel_the_worker_is_told_at_its_next_word(waiters: Desk) -> None:
    waiters.platform.ok("POST", f"/messages/{waiters.mid}/cancel", json={"reason": "never mind"})
    for verb in ("progress", "extend"):
        late = waiters.call(verb)
        assert (late.status_code, late.json()["status"]) == (409, "cancelled")


def test_a_standard_client_streams_what_a_polling_agent_reports(platform: Platform) -> None:
    client = platform.join("a")
    said = {"role": "ROLE_USER", "messageId": "m1", "parts": [{"text": "write"}]}
    body = {"jsonrpc": "2.0", "id": 7, "method": "SendStreamingMessage", "params": {"message": said}}
    path = f"/agents/{client.workspace_id}"
    headers = {"A2A-Version": "1.0"}
    with platform.call("POST", path, json=body, headers=headers, stream=True) as answer:
        assert answer.status_code == 200, answer.text
        live = streams.Stream(answer)
        first = json.loads(live.block()["data"])
        token = client.load_token()
        inbox = f"/workspaces/{client.workspace_id}/inbox"
        [item] = platform.ok("POST", f"{inbox}/lease", token=token, json={})["messages"]
        lease = {"lease_token": item["lease"]["token"]}
        mid = item["message_id"]
        platform.ok("POST", f"{inbox}/{mid}/progress", token=token, json={**lease, "text": "half way"})
        platform.ok("POST", f"{inbox}/{mid}/answer", token=token, json={**lease, "text": "whole"})
        rest: list[tuple[str, dict[str, Any]]] = []
        while block := live.block():
            rest.append((block["id"], json.loads(block["data"])["result"]))
    assert (first["id"], first["result"]["task"]["status"]["state"]) == (7, "TASK_STATE_SUBMITTED")
    assert [number for number, _ in rest] == ["2", "3", "4"]
    assert rest[-1][1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
