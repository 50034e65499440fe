"""Asking about a task: both dialects, for its sender, its agent and the organisation, and for nobody else."""

from typing import Any, NamedTuple

import pytest
import requests

from molecule_agent import RemoteAgentClient
from molecule_wire.a2a import text
from tests.spec.platforms import Platform, message

pytestmark = pytest.mark.both_engines

METHODS = {"0.3": "tasks/get", "1.0": "GetTask"}


class Asked(NamedTuple):
    """A question that one agent has sent to another, and its task."""

    asker: RemoteAgentClient
    helper: RemoteAgentClient
    task_id: str
    context_id: str


@pytest.fixture
def asked(platform: Platform) -> Asked:
    lead = platform.join("lead")
    asker = platform.join("asker", lead.workspace_id)
    helper = platform.join("helper", lead.workspace_id)
    path = f"/workspaces/{helper.workspace_id}/a2a"
    headers = {"Prefer": "respond-async"}
    task = platform.ok("POST", path, token=asker.load_token(), json=message("well?"), headers=headers)
    return Asked(asker, helper, task["result"]["id"], task["result"]["contextId"])


def get_task(
    platform: Platform, asked: Asked, dialect: str, token: str | None, task_id: str | None = None
) -> tuple[int, dict[str, Any]]:
    body = {
        "jsonrpc": "2.0",
        "id": 3,
        "method": METHODS[dialect],
        "params": {"id": task_id or asked.task_id},
    }
    path = f"/workspaces/{asked.helper.workspace_id}/a2a"
    answer = platform.call("POST", path, token=token, json=body, headers={"A2A-Version": dialect})
    return answer.status_code, answer.json()


def test_a_queued_task_in_the_old_dialect(platform: Platform, asked: Asked) -> None:
    status, body = get_task(platform, asked, "0.3", asked.asker.load_token())
    assert (status, body["id"]) == (200, 3)
    task = body["result"]
    assert (task["kind"], task["id"], task["contextId"]) == ("task", asked.task_id, asked.context_id)
    assert task["status"]["state"] == "submitted"


def test_a_queued_task_in_the_new_dialect(platform: Platform, asked: Asked) -> None:
    status, body = get_task(platform, asked, "1.0", asked.asker.load_token())
    assert (status, body["id"]) == (200, 3)
    task = body["result"]
    assert (task["id"], task["contextId"]) == (asked.task_id, asked.context_id)
    assert task["status"]["state"] == "TASK_STATE_SUBMITTED"
    assert "kind" not in task


def test_a_task_somebody_works_on(platform: Platform, asked: Asked) -> None:
    inbox = f"/workspaces/{asked.helper.workspace_id}/inbox"
    platform.ok("POST", f"{inbox}/lease", token=asked.helper.load_token(), json={})
    token = asked.asker.load_token()
    assert get_task(platform, asked, "0.3", token)[1]["result"]["status"]["state"] == "working"
    assert get_task(platform, asked, "1.0", token)[1]["result"]["status"]["state"] == "TASK_STATE_WORKING"


def test_an_answered_task_in_both_dialects(platform: Platform, asked: Asked) -> None:
    asked.helper.reply(asked.helper.fetch_inbound()[0], "very well")
    token = asked.asker.load_token()
    old = get_task(platform, asked, "0.3", token)[1]["result"]
    assert (old["kind"], old["id"], old["status"]["state"]) == ("task", asked.task_id, "completed")
    assert old["status"]["message"]["role"] == "agent"
    assert old["status"]["message"]["parts"] == [{"kind": "text", "text": "very well"}]
    new = get_task(platform, asked, "1.0", token)[1]["result"]
    assert (new["id"], new["status"]["state"]) == (asked.task_id, "TASK_STATE_COMPLETED")
    assert new["status"]["message"]["role"] == "ROLE_AGENT"
    assert new["status"]["message"]["parts"] == [{"text": "very well"}]
    assert text.text_of(old) == text.text_of(new) == "very well"


def test_a_failed_task_says_why(platform: Platform, asked: Asked) -> None:
    fail = f"/workspaces/{asked.helper.workspace_id}/inbox/{asked.task_id}/fail"
    asked.helper.fetch_inbound()
    refusal = {"error": "no time", "retryable": False}
    platform.ok("POST", fail, token=asked.helper.load_token(), json=refusal)
    task = get_task(platform, asked, "0.3", asked.asker.load_token())[1]["result"]
    assert task["status"]["state"] == "failed"
    assert "no time" in text.text_of(task)


def test_the_agent_itself_and_the_organisation_see_the_task(platform: Platform, asked: Asked) -> None:
    for token in (asked.helper.load_token(), platform.admin_token):
        status, body = get_task(platform, asked, "1.0", token)
        assert (status, body["result"]["id"]) == (200, asked.task_id)


def test_who_may_only_read_the_organisation_sees_the_task(platform: Platform, asked: Asked) -> None:
    link = platform.ok("POST", "/auth/login-codes", json={"user": "eve", "role": "viewer"})["url"]
    browser = requests.Session()
    signed_in = browser.post(
        f"{platform.url}/auth/login", json={"code": link.partition("code=")[2]}, timeout=30
    )
    headers = {"X-CSRF-Token": signed_in.json()["csrf_token"], "Origin": platform.url}
    body = {"jsonrpc": "2.0", "id": 3, "method": "tasks/get", "params": {"id": asked.task_id}}
    path = f"{platform.url}/workspaces/{asked.helper.workspace_id}/a2a"
    answer = browser.post(path, json=body, headers=headers, timeout=30)
    assert answer.status_code == 200, answer.text
    assert answer.json()["result"]["id"] == asked.task_id


@pytest.mark.parametrize("dialect", METHODS)
def test_for_a_peer_that_did_not_send_it_the_task_does_not_exist(
    platform: Platform, asked: Asked, dialect: str
) -> None:
    lead = platform.ok("GET", f"/workspaces/{asked.asker.workspace_id}")["parent_id"]
    sibling = platform.join("sibling", lead)
    status, body = get_task(platform, asked, dialect, sibling.load_token())
    assert (status, body["error"]["code"]) == (404, -32001)
    unknown = get_task(platform, asked, dialect, sibling.load_token(), "01890a5d-ac96-7000-8000-00000000000a")
    assert (unknown[0], unknown[1]["error"]) == (404, body["error"])


def test_for_a_stranger_of_the_tree_the_task_does_not_exist_either(platform: Platform, asked: Asked) -> None:
    other = platform.join("other")
    stranger = platform.join("stranger", other.workspace_id)
    status, body = get_task(platform, asked, "0.3", stranger.load_token())
    assert (status, body["error"]["code"]) == (404, -32001)
