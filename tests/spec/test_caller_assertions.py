"""Each call to an agent carries what the platform says of the caller; the SDK believes nothing else."""

import threading
from collections.abc import Iterator
from typing import Any

import jwt
import pytest
import requests

from molecule_agent import A2AServer, RemoteAgentClient
from molecule_wire.a2a import text
from tests.spec.platforms import Platform, message
from tests.spec.scripted_agent import ScriptedAgent, join_push

pytestmark = pytest.mark.usefixtures("prompt_retries")


@pytest.fixture
def platform(patient: Platform) -> Platform:
    """What is asked here is also answered."""
    return patient


class Served:
    """An agent behind the SDK's own server, and what its handler was told."""

    def __init__(self, platform: Platform, name: str = "served") -> None:
        self.got: list[dict[str, Any]] = []
        self.client = platform.join(name)
        self.server = A2AServer(
            self.client.workspace_id, "/a2a", self._answer, host="127.0.0.1", client=self.client
        )
        self.server.start_in_background()
        self.client.reported_url = self.server.url
        self.client.register()

    def _answer(self, payload: dict[str, Any]) -> str:
        self.got.append(payload)
        return f"hello {payload['caller']['principal']}"


@pytest.fixture
def served(platform: Platform) -> Iterator[Served]:
    agent = Served(platform)
    yield agent
    agent.server.stop()


def claims_of(platform: Platform, token: str) -> dict[str, Any]:
    """The claims, checked by an ordinary library with the platform's public document alone."""
    document = platform.ok("GET", "/.well-known/jwks.json", "")
    kid = jwt.get_unverified_header(token)["kid"]
    [key] = [key for key in document["keys"] if key["kid"] == kid]
    audience = jwt.decode(token, options={"verify_signature": False})["aud"]
    return jwt.decode(
        token, jwt.PyJWK(key), algorithms=["EdDSA"], issuer=document["issuer"], audience=audience
    )


def test_the_sdk_s_server_learns_who_calls_from_the_platform(platform: Platform, served: Served) -> None:
    answer = platform.send(served.client.workspace_id, "hi")
    assert text.text_of(answer.json()["result"]) == "hello user:admin"
    peer = platform.join("peer")
    answer = platform.send(served.client.workspace_id, "hi", peer.load_token())
    assert text.text_of(answer.json()["result"]) == f"hello workspace:{peer.workspace_id}"
    assert [one["sender"] for one in served.got] == ["user:admin", f"workspace:{peer.workspace_id}"]


def test_whoever_calls_the_agent_past_the_platform_gets_nothing(platform: Platform, served: Served) -> None:
    missing = requests.post(served.server.url, json=message("hi"), timeout=30)
    assert (missing.status_code, missing.json()["code"]) == (401, "caller-unverified")
    headers = {"X-Molecule-Caller": "a.b.c"}
    forged = requests.post(served.server.url, json=message("hi"), headers=headers, timeout=30)
    assert (forged.status_code, forged.json()["code"]) == (401, "caller-assertion-invalid")
    assert served.got == []


def test_an_assertion_for_one_agent_is_worth_nothing_to_another(
    platform: Platform, served: Served, agent: ScriptedAgent
) -> None:
    thief = join_push(platform, agent)
    platform.send(thief.workspace_id, "hi")
    stolen = agent.received[0][0]["X-Molecule-Caller"]
    headers = {"X-Molecule-Caller": stolen}
    answer = requests.post(served.server.url, json=message("hi"), headers=headers, timeout=30)
    assert (answer.status_code, answer.json()["code"]) == (401, "caller-assertion-invalid")
    assert served.got == []


def test_the_claims_name_caller_target_and_message(platform: Platform, agent: ScriptedAgent) -> None:
    client = join_push(platform, agent)
    peer = platform.join("peer")
    body = message("hi", "m-1")
    body["params"]["message"]["contextId"] = "c-1"
    path = f"/workspaces/{client.workspace_id}/a2a"
    platform.ok("POST", path, peer.load_token(), json=body)
    headers, sent = agent.received[0]
    claims = claims_of(platform, headers["X-Molecule-Caller"])
    assert claims["sub"] == f"workspace:{peer.workspace_id}"
    assert claims["aud"] == f"workspace:{client.workspace_id}"
    assert claims["mid"] == sent["params"]["message"]["messageId"] == "m-1"
    assert claims["row"] == headers["X-Molecule-Message-Id"]
    assert (claims["ctx"], claims["name"], claims["delegation"]) == ("c-1", "peer", None)
    assert claims["exp"] - claims["iat"] == 300


def test_each_attempt_has_an_assertion_of_its_own(platform: Platform, agent: ScriptedAgent) -> None:
    client = join_push(platform, agent)
    agent.script = [(500, {"error": "x"})]
    sent = platform.send(client.workspace_id, "hi", headers={"Prefer": "respond-async"}).json()
    assert platform.ok("GET", f"/messages/{sent['message_id']}?wait=20")["status"] == "answered"
    claims = [claims_of(platform, headers["X-Molecule-Caller"]) for headers, _ in agent.received]
    assert len(claims) == len({one["jti"] for one in claims}) == 2
    assert {one["row"] for one in claims} == {sent["message_id"]}


def test_an_identity_that_a_caller_makes_up_never_reaches_the_agent(
    platform: Platform, agent: ScriptedAgent
) -> None:
    client = join_push(platform, agent)
    forged = {"X-Molecule-Caller": "forged", "X-Molecule-Message-Id": "forged"}
    platform.send(client.workspace_id, "hi", headers=forged)
    headers, _ = agent.received[0]
    assert "forged" not in (headers["X-Molecule-Caller"], headers["X-Molecule-Message-Id"])
    assert claims_of(platform, headers["X-Molecule-Caller"])["sub"] == "user:admin"


def test_a_rotation_of_the_keys_refuses_no_message(platform: Platform, served: Served) -> None:
    def ask() -> str:
        return text.text_of(platform.send(served.client.workspace_id, "hi").json()["result"])

    assert ask() == "hello user:admin"
    done = platform.ok("POST", "/admin/keys/rotate")
    assert [ask() for _ in range(3)] == ["hello user:admin"] * 3
    listed = {key["kid"] for key in platform.ok("GET", "/.well-known/jwks.json", "")["keys"]}
    assert listed == {*done["keys"].values(), *done["retired"]}
    assert platform.call("GET", "/ready", "").status_code == 200


def test_many_callers_at_once_are_each_told_apart(platform: Platform, served: Served) -> None:
    peers = [platform.join(f"peer-{number}") for number in range(4)]
    answers: dict[str, str] = {}

    def ask(peer: RemoteAgentClient) -> None:
        answer = platform.send(
            served.client.workspace_id, "hi", peer.load_token(), headers={"Prefer": "wait=30"}
        )
        answers[peer.workspace_id] = text.text_of(answer.json()["result"])

    threads = [threading.Thread(target=ask, args=(peer,)) for peer in peers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert answers == {peer.workspace_id: f"hello workspace:{peer.workspace_id}" for peer in peers}
