"""The golden calls of contracts/calls: the platform takes each of them, and the SDK reads what comes back."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from molecule_agent import RemoteAgentClient
from molecule_wire import JSON
from molecule_wire.calls import (
    Reply,
    Request,
    a2a,
    activity,
    delegations,
    inbox,
    plugins,
    registry,
    workspaces,
)
from molecule_wire.calls import platform as platform_calls
from tests.spec.platforms import Platform, message

GOLDEN = Path(__file__).parents[2] / "contracts" / "calls"
NOT_SERVED_YET: set[str] = set()

SELF = "3f1c2d4e-5a6b-4c7d-8e9f-0a1b2c3d4e5f"
PEER = "7b8c9d0e-1f2a-4b3c-9d4e-5f6a7b8c9d0e"
MESSAGE = "01890a5d-ac96-7000-8000-00000000000a"
ACTIVITY = "01890a5d-ac96-7000-8000-00000000000b"
DELEGATION = "01890a5d-ac96-7000-8000-00000000000d"
PARENT = "01890a5d-ac96-7000-8000-00000000000e"
CURSOR = "Zm9ybWF0LW9ubHktbm90LWEtcmVhbC1jdXJzb3ItZWU"
LEASE = "Zm9ybWF0LW9ubHktbm90LWEtcmVhbC1sZWFzZS1jY2M"
RECOVERY = "Zm9ybWF0LW9ubHktbm90LWEtcmVhbC1zZWNyZXQtYmI"
ADDRESS = "https://agent.example.org"


def golden(name: str) -> dict[str, Any]:
    return json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))


def members(body: JSON) -> set[str]:
    """The names of an object's members, or of those of a list's first object."""
    first = body[0] if isinstance(body, list) and body else body
    return set(first) if isinstance(first, dict) else set()


def read_state(reply: Reply) -> object:
    return workspaces.read_state(reply, SELF)


READERS: dict[str, Callable[[Reply], object]] = {
    "activity": activity.read_rows,
    "answer-peer": workspaces.read_nothing,
    "cancel-task": a2a.read_envelope,
    "change-workspace": workspaces.read_object,
    "choose-model": workspaces.read_object,
    "delegate": workspaces.read_object,
    "delegate-further": workspaces.read_object,
    "discover": registry.read_discovery,
    "get-delegation": workspaces.read_object,
    "get-task": a2a.read_envelope,
    "health": platform_calls.read_time,
    "heartbeat": registry.read_heartbeat,
    "heartbeat-runtime": registry.read_heartbeat,
    "inbox-ack": workspaces.read_nothing,
    "inbox-answer": workspaces.read_nothing,
    "inbox-answer-message": workspaces.read_nothing,
    "inbox-extend": inbox.read_extended,
    "inbox-fail": workspaces.read_nothing,
    "inbox-lease": inbox.read_leased,
    "inbox-peek": inbox.read_peeked,
    "inbox-progress": inbox.read_progress,
    "inbox-release": workspaces.read_nothing,
    "list-delegations": delegations.read_page,
    "log-activity": workspaces.read_nothing,
    "notify": workspaces.read_nothing,
    "peers": registry.read_peers,
    "plugin-download": plugins.read_delivered,
    "plugin-forget": workspaces.read_nothing,
    "plugin-report": workspaces.read_nothing,
    "plugin-revocations": workspaces.read_object,
    "register": registry.read_registration,
    "register-runtime": registry.read_registration,
    "register-with-proof": registry.read_registration,
    "run-skill": a2a.read_envelope,
    "secrets": workspaces.read_secrets,
    "send-message": a2a.read_envelope,
    "state": read_state,
    "update-card": workspaces.read_nothing,
    "whoami": workspaces.read_object,
}


class Stage:
    """An agent and its peer, with mail from the peer, as the golden calls assume them."""

    def __init__(self, platform: Platform) -> None:
        self.platform = platform
        self.peer = platform.join("ops")
        created = platform.create("docs-bot", secrets={"OPENAI_API_KEY": "x", "DOCS_URL": "y"})
        claim = {"id": created["id"], "agent_card": {"name": "docs-bot"}}
        claimed = platform.ok("POST", "/registry/register", token="", json=claim)
        self.agent = platform.client(created["id"])
        self.agent.save_token(claimed["auth_token"])
        self.first, self.second = (self.post(self.peer, self.agent, words) for words in ("one", "two"))
        self.real = {
            SELF: created["id"],
            PEER: self.peer.workspace_id,
            MESSAGE: self.first,
            RECOVERY: claimed["recovery_secret"],
            ADDRESS: "http://127.0.0.1:9",
        }

    def post(self, sender: RemoteAgentClient, target: RemoteAgentClient, words: str) -> str:
        path, headers = f"/workspaces/{target.workspace_id}/a2a", {"Prefer": "respond-async"}
        sent = self.platform.ok("POST", path, token=sender.load_token(), json=message(words), headers=headers)
        return sent["message_id"]

    def prepare(self, name: str) -> None:
        """What must have happened before a call makes sense."""
        if name in (
            "inbox-ack",
            "inbox-answer",
            "inbox-answer-message",
            "inbox-extend",
            "inbox-fail",
            "inbox-progress",
            "inbox-release",
        ):
            request = inbox.lease(self.agent.workspace_id, limit=1, wait=0, lease=60, worker="w")
            lease = self.agent._perform(request, inbox.read_leased).messages[0].lease
            assert lease is not None
            self.real[LEASE] = lease.token
        elif name == "activity":
            self.real[ACTIVITY] = self.agent.fetch_inbound(limit=1)[0].activity_id
        elif name == "answer-peer":
            self.agent.fetch_inbound()
        elif name in ("get-task", "cancel-task"):
            self.real[MESSAGE] = self.post(self.agent, self.peer, "three")
        elif name in ("get-delegation", "delegate-further", "list-delegations"):
            self.prepare_delegations()
        elif name.startswith("plugin-"):
            shelf = self.platform.data_dir / "plugins" / "my-plugin"
            shelf.mkdir(parents=True, exist_ok=True)
            (shelf / "plugin.yaml").write_text("name: my-plugin\nversion: 1.0.0\n")
            self.agent._perform(
                plugins.report(self.agent.workspace_id, "local://my-plugin"), workspaces.read_nothing
            )
        elif name == "notify":
            self.real[MESSAGE] = self.platform.send(self.agent.workspace_id, "four").json()["message_id"]

    def prepare_delegations(self) -> None:
        """Two that the agent gave, one that it was given, and the cursor to the second page of them."""
        for task in ("one", "index the docs"):
            made = self.agent.delegate(task, self.peer.workspace_id)
            self.real[DELEGATION] = str(made["delegation_id"])
        path = f"/workspaces/{self.peer.workspace_id}/delegations"
        asked = {"target_id": self.agent.workspace_id, "task": "keep the docs in order"}
        self.real[PARENT] = self.platform.ok("POST", path, json=asked)["delegation_id"]
        request = delegations.list_page(self.agent.workspace_id, role="any", limit=1)
        self.real[CURSOR] = self.agent._perform(request, delegations.read_page).next_cursor

    def caller(self, name: str) -> RemoteAgentClient:
        """Who makes the call: with its token, unless the call is there to get one."""
        without_token = name == "register-with-proof"
        return self.platform.client(self.agent.workspace_id, "elsewhere") if without_token else self.agent

    def request(self, example: dict[str, Any]) -> Request:
        """The golden request with the ids and secrets of this stage."""
        written = json.dumps(example["request"])
        for golden, real in self.real.items():
            written = written.replace(golden, real)
        return Request(**json.loads(written))


@pytest.fixture
def stage(platform: Platform) -> Stage:
    return Stage(platform)


def test_every_golden_call_is_tried_unless_its_route_is_not_served_yet() -> None:
    assert {path.stem for path in GOLDEN.glob("*.json")} == set(READERS) | NOT_SERVED_YET


@pytest.mark.parametrize("name", READERS)
def test_the_platform_takes_the_call_and_the_sdk_reads_its_reply(stage: Stage, name: str) -> None:
    example = golden(name)
    stage.prepare(name)
    replies: list[Reply] = []

    def read(reply: Reply) -> object:
        replies.append(reply)
        return READERS[name](reply)

    stage.caller(name)._perform(stage.request(example), read)
    accepted = [one["reply"]["body"] for one in example["replies"] if one["reply"]["status"] < 300]
    known = [members(body) for body in accepted if members(body)]
    assert not known or any(shape <= members(replies[0].body) for shape in known), replies[0].body


@pytest.mark.parametrize("name", ["delegate", "get-task", "send-message"])
def test_a_post_that_is_safe_to_repeat_is_known_for_the_first(stage: Stage, name: str) -> None:
    stage.prepare(name)
    request = stage.request(golden(name))
    assert request.repeatable
    first, second = (stage.agent._perform(request, workspaces.read_object) for _ in range(2))
    for member in ("delegation_id", "message_id", "result"):
        assert first.get(member) == second.get(member) or member not in second
    waiting = inbox.peek(stage.peer.workspace_id)
    assert len(stage.peer._perform(waiting, inbox.read_peeked).messages) == 1


def test_no_other_post_claims_to_be_safe_to_repeat() -> None:
    examples = {name: golden(name)["request"] for name in READERS}
    claimed = {name for name, request in examples.items() if request["idempotent"]}
    assert {name for name in claimed if examples[name]["method"] in ("POST", "PATCH")} == {
        "cancel-task",
        "delegate",
        "delegate-further",
        "get-task",
        "run-skill",
        "send-message",
    }
