"""Agents that the platform starts itself: start, sleep, wake, restart; the provisioner only pretends."""

import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from molecule_platform.ports.provisioner import StartFailed
from molecule_platform.testing.provisioner import FakeProvisioner
from tests.spec.platforms import Platform, Start

pytestmark = pytest.mark.usefixtures("prompt_restarts")

PATIENCE_SECONDS = 30.0


class Ours(NamedTuple):
    """A platform that starts agents, and what it starts them with."""

    platform: Platform
    provisioner: FakeProvisioner

    def create(self, name: str = "ada", **fields: Any) -> str:
        """A new workspace whose agent was started and has answered."""
        made = self.platform.ok("POST", "/workspaces", json={"name": name, **fields})
        assert made["status"] == "provisioning"
        self.answer(made["id"])
        return made["id"]

    def answer(self, workspace_id: str, starts: int = 1) -> None:
        """Be the agent that was started: give a sign of life."""
        until(lambda: len(self.provisioner.launches_of(workspace_id)) >= starts)
        until(lambda: workspace_id in self.provisioner.running)
        token = self.provisioner.launches_of(workspace_id)[-1].auth_token
        self.platform.ok("POST", "/registry/heartbeat", token, json={"workspace_id": workspace_id})

    def status(self, workspace_id: str) -> str:
        return self.platform.ok("GET", f"/workspaces/{workspace_id}")["status"]

    def do(self, workspace_id: str, verb: str, **request: Any) -> Any:
        return self.platform.ok("POST", f"/workspaces/{workspace_id}/{verb}", **request)


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    pause = threading.Event()
    while not holds():
        assert time.monotonic() < deadline, f"waited {PATIENCE_SECONDS} s for it"
        pause.wait(0.01)


@pytest.fixture
def ours(patched: Start) -> Ours:
    provisioner = FakeProvisioner()
    return Ours(patched(provisioner, MOLECULE_A2A_HOLD_SECONDS=1), provisioner)


def test_without_a_provisioner_nothing_is_created_and_the_answer_says_what_to_do(platform: Platform) -> None:
    answer = platform.call("POST", "/workspaces", json={"name": "ada", "runtime": "llm"})
    assert (answer.status_code, answer.json()["code"]) == (503, "no-provisioner")
    assert "external:true" in answer.json()["error"]
    assert platform.ok("GET", "/workspaces") == []


def test_who_names_no_runtime_gets_a_place_for_an_agent_of_their_own(platform: Platform) -> None:
    made = platform.ok("POST", "/workspaces", json={"name": "ada"})
    assert (made["external"], made["status"]) == (True, "awaiting_agent")


def test_a_workspace_is_started_and_online_once_its_agent_answers(ours: Ours) -> None:
    body = {"name": "ada", "model": "fast", "secrets": {"KEY": "hush"}, "workspace_access": "read_only"}
    made = ours.platform.ok("POST", "/workspaces", json=body)
    assert made == {
        "id": made["id"],
        "status": "provisioning",
        "awareness_namespace": f"workspace:{made['id']}",
        "workspace_access": "read_only",
    }
    ours.answer(made["id"])
    row = ours.platform.ok("GET", f"/workspaces/{made['id']}")
    assert (row["status"], row["runtime"], row["external"]) == ("online", "llm", False)
    environment = ours.provisioner.launches[0].environment
    assert (environment["KEY"], environment["MODEL_PROVIDER"]) == ("hush", "fast")


def test_a_start_that_fails_is_told_with_its_reason(ours: Ours) -> None:
    ours.provisioner.start_problems = [StartFailed("no such runtime")]
    made = ours.platform.ok("POST", "/workspaces", json={"name": "ada"})
    until(lambda: ours.status(made["id"]) == "failed")
    [event] = ours.platform.ok("GET", "/events?type=WORKSPACE_PROVISION_FAILED")
    assert event["payload"]["error"] == "no such runtime"


def test_a_subtree_is_paused_with_its_processes_and_resumed_as_each_needs(ours: Ours) -> None:
    lead = ours.create("lead")
    outside = ours.platform.create("outside", lead)["id"]
    assert ours.do(lead, "pause") == {"status": "paused", "paused_count": 2}
    assert ours.provisioner.running == set()
    assert ours.do(lead, "resume") == {"status": "provisioning", "resumed_count": 2}
    assert ours.status(outside) == "awaiting_agent"
    ours.answer(lead, starts=2)
    assert ours.status(lead) == "online"


def test_a_message_wakes_a_hibernated_agent_once_and_is_delivered(ours: Ours) -> None:
    ada = ours.create()
    assert ours.do(ada, "hibernate") == {"status": "hibernated"}
    assert (ours.status(ada), ours.provisioner.running) == ("hibernated", set())
    at_once = {"Prefer": "respond-async"}
    sent = [ours.platform.send(ada, text, headers=at_once).json()["message_id"] for text in ("one", "two")]
    ours.answer(ada, starts=2)
    assert ours.status(ada) == "online"
    assert len(ours.platform.ok("GET", "/events?type=WORKSPACE_WAKING")) == 1
    token = ours.provisioner.launches[-1].auth_token
    leased = ours.platform.ok(
        "POST", f"/workspaces/{ada}/inbox/lease", token, json={"parallel_contexts": True}
    )
    assert {item["message_id"] for item in leased["messages"]} == set(sent)
    assert len(ours.provisioner.launches) == 2


def test_waking_by_hand(ours: Ours) -> None:
    ada = ours.create()
    assert ours.platform.call("POST", f"/workspaces/{ada}/wake").status_code == 200
    ours.do(ada, "hibernate")
    answer = ours.platform.call("POST", f"/workspaces/{ada}/wake")
    assert (answer.status_code, answer.json()) == (202, {"status": "provisioning"})
    ours.answer(ada, starts=2)


def test_a_busy_agent_sleeps_only_by_force(ours: Ours) -> None:
    ada = ours.create()
    token = ours.provisioner.launches[-1].auth_token
    ours.platform.send(ada, "work", headers={"Prefer": "respond-async"})
    ours.platform.ok("POST", f"/workspaces/{ada}/inbox/lease", token, json={})
    answer = ours.platform.call("POST", f"/workspaces/{ada}/hibernate")
    assert (answer.status_code, answer.json()["code"], answer.json()["active_tasks"]) == (409, "busy", 1)
    assert ours.do(ada, "hibernate?force=true") == {"status": "hibernated"}
    external = ours.platform.join("external").workspace_id
    answer = ours.platform.call("POST", f"/workspaces/{external}/hibernate")
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    assert ours.platform.call("POST", f"/workspaces/{ada}/hibernate").status_code == 404


def test_a_restarted_agent_is_told_about_it_and_an_external_one_is_asked(ours: Ours) -> None:
    ada = ours.create(secrets={"API_KEY": "canary"})
    assert ours.do(ada, "restart", json={}) == {
        "status": "provisioning",
        "config_dir": f"/configs/{ada}",
        "reset_session": False,
    }
    ours.answer(ada, starts=2)
    token = ours.provisioner.launches[-1].auth_token
    [item] = ours.platform.ok("POST", f"/workspaces/{ada}/inbox/lease", token, json={"wait": 5})["messages"]
    assert (item["kind"], item["metadata"]["restart_context"]) == ("system", True)
    assert "API_KEY" in item["text"]
    assert "canary" not in item["text"]
    external = ours.platform.join("external").workspace_id
    assert ours.do(external, "restart") == {"status": "online", "signal": "restart"}
    assert len(ours.platform.ok("GET", "/events?type=WORKSPACE_RESTART_REQUESTED")) == 1


def test_a_changed_secret_restarts_the_agent_that_we_run(ours: Ours) -> None:
    ada = ours.create()
    ours.platform.ok("POST", f"/workspaces/{ada}/secrets", json={"key": "NEW", "value": "v"})
    ours.answer(ada, starts=2)
    assert ours.provisioner.launches[-1].environment["NEW"] == "v"


def test_what_is_read_at_the_start_asks_for_a_restart(ours: Ours) -> None:
    ada = ours.create()
    changed = ours.platform.ok("PATCH", f"/workspaces/{ada}", json={"tier": 3})
    assert changed == {"status": "updated", "needs_restart": True}


def test_an_agent_that_does_not_stop_is_removed_all_the_same_and_named(ours: Ours) -> None:
    ada = ours.create()
    ours.provisioner.stop_problems = ["it hangs"]
    answer = ours.platform.call("DELETE", f"/workspaces/{ada}")
    body = answer.json()
    assert (answer.status_code, body["removed_count"], body["stop_failures"]) == (500, 1, [ada])
    assert ours.platform.call("GET", f"/workspaces/{ada}").status_code == 410
