"""Methods that A2A does not know: the agent's own business, which the platform passes on."""

import base64
import json
from typing import Any

from molecule_platform.testing.scripted_agent import OWN_METHOD
from tests.spec.a2a import polled, pushed
from tests.spec.platforms import Platform


def test_a_method_that_only_the_agent_knows_reaches_it_as_it_came(platform: Platform) -> None:
    body = b'{"jsonrpc":"2.0", "id":"q","method":"%s",  "params":{"n":1.10,"n2":9007199254740993}}'
    body %= OWN_METHOD.encode()
    with pushed(platform) as agent:
        answer = platform.call(
            "POST",
            f"/workspaces/{agent.id}/a2a",
            data=body,
            headers={"Content-Type": "application/json", "A2A-Version": "1.0"},
        )
        assert answer.status_code == 200, answer.text
        result = {"heard": {"n": 1.1, "n2": 9007199254740993}}
        assert answer.json() == {"jsonrpc": "2.0", "id": "q", "result": result}
        heard = agent.agent.received[-1]
        assert heard.body == body
        assert heard.headers["x-molecule-caller"]


def test_an_agent_that_does_not_know_it_either_says_so_itself(platform: Platform) -> None:
    with pushed(platform) as agent:
        body: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "foo/bar", "params": {}}
        answer = platform.call("POST", f"/workspaces/{agent.id}/a2a", json=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, -32601)
        assert json.loads(agent.agent.received[-1].body)["method"] == "foo/bar"


def test_nobody_is_asked_where_no_agent_listens_or_the_standard_holds(platform: Platform) -> None:
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": OWN_METHOD, "params": {}}
    with pushed(platform) as agent:
        for path in (f"/workspaces/{polled(platform).id}/a2a", f"/agents/{agent.id}"):
            answer = platform.call("POST", path, json=body, headers={"A2A-Version": "1.0"})
            assert answer.json()["error"]["code"] == -32601, answer.text
        assert not agent.agent.received


def test_who_may_not_send_to_an_agent_may_not_ask_it_either(platform: Platform) -> None:
    left, right = platform.create("left"), platform.create("right")
    stranger = platform.join("stranger", parent=left["id"])
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": OWN_METHOD, "params": {}}
    with pushed(platform, parent=right["id"]) as agent:
        answer = platform.call("POST", f"/workspaces/{agent.id}/a2a", stranger.load_token(), json=body)
        assert answer.status_code == 403, answer.text
        assert not agent.agent.received


def test_what_is_asked_in_delegated_work_says_of_which_work_it_is(platform: Platform) -> None:
    """No way to another agent leads around the chain of a delegation."""
    with pushed(platform) as agent:
        boss, worker = platform.join("boss"), platform.join("worker")
        task = {"target_id": worker.workspace_id, "task": "look it up"}
        made = platform.ok("POST", f"/workspaces/{boss.workspace_id}/delegate", json=task)
        token = worker.load_token()
        platform.ok("POST", f"/workspaces/{worker.workspace_id}/inbox/lease", token, json={})
        body: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": OWN_METHOD, "params": {}}
        platform.ok("POST", f"/workspaces/{agent.id}/a2a", token, json=body, headers={"A2A-Version": "1.0"})
        claims = agent.agent.received[-1].headers["x-molecule-caller"].split(".")[1]
        said = json.loads(base64.urlsafe_b64decode(claims + "=="))["delegation"]
        assert (said["root"], said["depth"]) == (made["delegation_id"], 2)
        assert said["chain"][-2:] == [worker.workspace_id, agent.id]
