"""The fake platform of `molecule_agent.testing` answers as the real one does.

Each scenario is played to both over HTTP and everything that either says is written down; ids, secrets and
times are replaced by their order of appearance. A difference in one word fails.
"""

import contextlib
import hashlib
import json
import re
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import pytest
import requests

from molecule_agent.testing import FakePlatform, mailbox
from molecule_platform.domain import messages
from molecule_platform.testing.github import GitHub, github
from tests.spec import platforms
from tests.spec.platforms import Platform, message

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
SECRET = re.compile(r"(?<![\w-])[\w-]{43}(?![\w-])")
COMMIT = re.compile(r"#[0-9a-f]{40}\b")
TRACE = re.compile(r"\b00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]\b")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
HEADERS = ("Content-Type", "WWW-Authenticate", "Retry-After", "ETag", "Content-Disposition")
PLUGIN_HEADERS = ("Name", "Source", "Version", "Sha256", "Archive-Sha256")
NOBODY = "00000000-0000-4000-8000-000000000000"


class Operator(Protocol):
    """Whoever runs a platform: what tests can do to it beside calling it."""

    url: str

    def create_workspace(self, name: str, parent: str | None = None, role: str = "") -> str: ...
    def set_secret(self, workspace_id: str, key: str, value: str) -> None: ...
    def pause(self, workspace_id: str) -> None: ...
    def resume(self, workspace_id: str) -> None: ...
    def delete(self, workspace_id: str) -> None: ...
    def revoke_tokens(self, workspace_id: str) -> None: ...
    def issue_enrolment_token(self, workspace_id: str) -> str: ...
    def send_user_message(self, workspace_id: str, text: str) -> str: ...
    def outcome(self, message_id: str) -> dict[str, Any]: ...
    def add_plugin(self, name: str, files: Mapping[str, bytes], source: str | None = None) -> object: ...


class RealOperator:
    """The administrator of a real platform."""

    def __init__(self, platform: Platform, hub: GitHub) -> None:
        self._platform = platform
        self._hub = hub
        self.url = platform.url

    def create_workspace(self, name: str, parent: str | None = None, role: str = "") -> str:
        # Nobody joins the root, and it is to be seen all the same.
        return self._platform.create(name, parent, role=role, claimable=parent is not None)["id"]

    def set_secret(self, workspace_id: str, key: str, value: str) -> None:
        self._platform.ok("POST", f"/workspaces/{workspace_id}/secrets", json={"key": key, "value": value})

    def pause(self, workspace_id: str) -> None:
        self._platform.ok("POST", f"/workspaces/{workspace_id}/pause")

    def resume(self, workspace_id: str) -> None:
        self._platform.ok("POST", f"/workspaces/{workspace_id}/resume")

    def delete(self, workspace_id: str) -> None:
        self._platform.ok("DELETE", f"/workspaces/{workspace_id}", params={"confirm": "true"})

    def revoke_tokens(self, workspace_id: str) -> None:
        for token in self._platform.ok("GET", f"/workspaces/{workspace_id}/tokens")["tokens"]:
            self._platform.ok("DELETE", f"/workspaces/{workspace_id}/tokens/{token['id']}")

    def issue_enrolment_token(self, workspace_id: str) -> str:
        answer = self._platform.ok("POST", f"/workspaces/{workspace_id}/enrolment-tokens", json={})
        return answer["enrolment_token"]

    def send_user_message(self, workspace_id: str, text: str) -> str:
        return self.send(workspace_id, text, None)

    def send(self, target_id: str, text: str, token: str | None) -> str:
        body = message(text)
        body["params"]["configuration"] = {"blocking": False}
        return self._platform.ok("POST", f"/workspaces/{target_id}/a2a", token, json=body)["message_id"]

    def outcome(self, message_id: str) -> dict[str, Any]:
        return self._platform.ok("GET", f"/messages/{message_id}")

    def add_plugin(self, name: str, files: Mapping[str, bytes], source: str | None = None) -> None:
        if source is not None:
            self._hub.push(source.removeprefix("github://"), files)
            return
        for path, content in files.items():
            file = self._platform.data_dir / "plugins" / name / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)


class FakeOperator(FakePlatform):
    """The fake platform, at its address."""

    url = ""


class Stage:
    """A platform whose every answer is written down."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.tokens: dict[str, str] = {}
        self.recovery: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self.script: list[str] = []
        self.root = self.create("root")

    def create(self, name: str, parent: str | None = None, role: str = "") -> str:
        return self.operator.create_workspace(name, parent, role)

    def call(
        self, method: str, path: str, by: str | None = None, token: str = "", **request: Any
    ) -> requests.Response:
        """A request of a workspace, or with any token, or with none; written down with its answer."""
        headers = dict(request.pop("headers", {}))
        if shown := token or self.tokens.get(by or "", ""):
            headers["Authorization"] = f"Bearer {shown}"
        answer = requests.request(method, self.operator.url + path, headers=headers, timeout=30, **request)
        is_json = answer.headers.get("Content-Type") == "application/json"
        body = answer.json() if is_json and answer.content else None
        self.note(f"{method} {path}", answer.status_code, body)
        told = (*HEADERS, *(f"X-Plugin-{name}" for name in PLUGIN_HEADERS))
        self.script += [f"{name}: {answer.headers[name]}" for name in told if name in answer.headers]
        return answer

    def ok(self, method: str, path: str, by: str | None = None, **request: Any) -> Any:
        answer = self.call(method, path, by, **request)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def join(self, name: str, parent: str | None = None, role: str = "") -> str:
        """A workspace below the root whose agent has registered."""
        workspace_id = self.create(name, parent or self.root, role)
        self.register(workspace_id)
        return workspace_id

    def register(self, workspace_id: str, **more: Any) -> dict[str, Any]:
        """Register without a token; what is minted is used from then on."""
        card: dict[str, Any] = {"name": "agent", "skills": []}
        body = {"id": workspace_id, "url": "", "agent_card": card, **more}
        answer = self.call("POST", "/registry/register", json=body).json()
        if "auth_token" in answer:
            self.tokens[workspace_id] = answer["auth_token"]
            self.recovery[workspace_id] = answer["recovery_secret"]
        return answer

    def peer_message(self, source: str, target: str, text: str) -> str:
        if isinstance(self.operator, RealOperator):
            return self.operator.send(target, text, self.tokens[source])
        assert isinstance(self.operator, FakePlatform)
        return self.operator.send_peer_message(source, target, text)

    def lease(self, workspace_id: str, **wish: Any) -> list[dict[str, Any]]:
        """Lease what there is."""
        return self.ok("POST", f"/workspaces/{workspace_id}/inbox/lease", workspace_id, json=wish)["messages"]

    def settle(self, item: dict[str, Any], verb: str, **body: Any) -> requests.Response:
        """Settle a leased item, with its lease unless the body says otherwise."""
        workspace_id = item["workspace_id"]
        path = f"/workspaces/{workspace_id}/inbox/{item['message_id']}/{verb}"
        body = {"lease_token": item["lease"]["token"], **body}
        given = {name: value for name, value in body.items() if value is not ...}
        return self.call("POST", path, workspace_id, json=given)

    def outcome(self, message_id: str) -> dict[str, Any]:
        found = self.operator.outcome(message_id)
        self.note("outcome", 200, found)
        return found

    def note(self, what: str, status: int, body: Any) -> None:
        """Write down what was said, in words that are the same on every platform."""
        if isinstance(body, dict) and "request_id" in body:
            del body["request_id"]
        self.script += f"{what} -> {status}\n{json.dumps(body, indent=1, sort_keys=True)}".splitlines()

    def played(self) -> list[str]:
        """The script, with names for ids and secrets."""
        text = "\n".join(self.script).replace(self.operator.url, "<platform>")
        text = TRACE.sub("<trace>", TIME.sub("<time>", text))
        text = COMMIT.sub(lambda found: self._named("commit", found[0]), text)
        text = UUID.sub(lambda found: self._named("id", found[0]), text)
        return SECRET.sub(lambda found: self._named("secret", found[0]), text).splitlines()

    def _named(self, kind: str, text: str) -> str:
        return self._names.setdefault(
            text.lower() if kind == "id" else text, f"<{kind} {len(self._names) + 1}>"
        )


Scenario: TypeAlias = Callable[[Stage], None]


@contextlib.contextmanager
def opened(home: Path, **settings: Any) -> Generator[RealOperator]:
    """A platform with everything that belongs to it."""
    with github() as hub:
        platform = platforms.opened(home, {"MOLECULE_GITHUB_API_URL": hub.url, **settings})
        try:
            yield RealOperator(platform, hub)
        finally:
            platform.stop()


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealOperator]:
    """A platform that all scenarios share."""
    with opened(tmp_path_factory.mktemp("platform")) as operator:
        yield operator


def play(scenario: Scenario, operator: Operator) -> list[str]:
    """What a platform says in a scenario."""
    stage = Stage(operator)
    scenario(stage)
    return stage.played()


# Joining


def claims_its_workspace(stage: Stage) -> None:
    agent = stage.create("agent", stage.root)
    assert len(stage.register(agent)["auth_token"]) == 43
    assert stage.register(agent)["applied"] is False
    again = {"id": agent, "url": "http://127.0.0.1:9/a2a", "agent_card": {"name": "new"}}
    assert stage.ok("POST", "/registry/register", agent, json=again)["delivery_mode"] == "push"
    stage.ok("POST", "/registry/register", agent, json=again | {"delivery_mode": "poll"})


def recovers_its_token(stage: Stage) -> None:
    agent = stage.join("agent")
    lost, secret = stage.tokens[agent], stage.recovery[agent]
    assert "auth_token" in stage.register(agent, recovery_secret=secret)
    stage.call("GET", f"/workspaces/{agent}/state", token=lost)
    stage.register(agent, recovery_secret=secret)
    assert stage.ok("GET", f"/workspaces/{agent}/state", agent)["status"] == "online"


def enrols_again(stage: Stage) -> None:
    agent = stage.join("agent")
    secret = stage.recovery[agent]
    stage.operator.revoke_tokens(agent)
    stage.call("GET", f"/workspaces/{agent}/state", agent)
    stage.register(agent, recovery_secret=secret)
    enrolment = stage.operator.issue_enrolment_token(agent)
    assert "auth_token" in stage.register(agent, enrolment_token=enrolment)
    assert stage.register(agent, enrolment_token=enrolment)["code"] == "enrolment-invalid"


def registers_wrongly(stage: Stage) -> None:
    agent, other = stage.join("agent"), stage.join("other")
    card = {"name": "x"}
    bodies: list[dict[str, Any]] = [
        {},
        {"agent_card": card},
        {"id": "nonsense", "agent_card": card},
        {"id": NOBODY, "agent_card": card},
        {"id": agent},
        {"id": agent, "agent_card": []},
        {"id": agent, "agent_card": card, "url": "ftp://agent.example.org"},
        {"id": agent, "agent_card": card, "url": 5},
        {"id": agent, "agent_card": card, "delivery_mode": "pigeon"},
        {"id": agent, "agent_card": {"name": "x" * 300_000}},
        {"id": agent, "agent_card": card, "unknown": True},
        {"workspace_id": agent, "agent_card": card},
    ]
    for body in bodies:
        stage.call("POST", "/registry/register", json=body)
    registering: dict[str, Any] = {"json": {"id": agent, "agent_card": card}}
    stage.call("POST", "/registry/register", other, **registering)
    stage.call("POST", "/registry/register", token="x" * 43, **registering)
    stage.call("POST", "/registry/register", headers={"X-Workspace-ID": other}, **registering)
    stage.call("POST", "/registry/register", headers={"X-Workspace-ID": "system:x"}, **registering)


def beats(stage: Stage) -> None:
    agent = stage.create("agent", stage.root)
    stage.register(agent)
    for body in (
        {},
        {"active_tasks": 2, "current_task": "reading", "uptime_seconds": 12},
        {"error_rate": 0.7, "sample_error": "no"},
        {"error_rate": 0.2},
        {"error_rate": 0.05},
        {"runtime_state": "wedged"},
        {"runtime_state": "starting"},
        {"runtime_metadata": {"capabilities": {"status_mgmt": True}}, "error_rate": 0.9},
        {"runtime_metadata": {"restart_required": True}},
        {"active_tasks": "two"},
        {"workspace_id": NOBODY},
    ):
        stage.call("POST", "/registry/heartbeat", agent, json={"workspace_id": agent, **body})
        stage.ok("GET", f"/workspaces/{agent}/state", agent)
    stage.call("POST", "/registry/heartbeat", agent, json={})
    stage.call("POST", "/registry/heartbeat", json={"workspace_id": agent})


def lives_under_an_operator(stage: Stage) -> None:
    agent = stage.join("agent")
    beat: dict[str, Any] = {"json": {"workspace_id": agent}}
    stage.operator.pause(agent)
    assert stage.ok("GET", f"/workspaces/{agent}/state", agent)["paused"] is True
    assert stage.ok("POST", "/registry/heartbeat", agent, **beat)["workspace_status"] == "paused"
    stage.operator.resume(agent)
    stage.ok("GET", f"/workspaces/{agent}/state", agent)
    stage.ok("POST", "/registry/heartbeat", agent, **beat)
    stage.operator.delete(agent)
    assert stage.call("GET", f"/workspaces/{agent}/state", agent).json()["deleted"] is True
    assert stage.call("POST", "/registry/heartbeat", agent, **beat).status_code == 410
    stage.register(agent)
    stage.call("GET", f"/workspaces/{agent}/secrets/values", agent)
    stage.call("GET", f"/workspaces/{agent}/inbox", agent)


def pauses_a_branch(stage: Stage) -> None:
    lead = stage.join("lead")
    agent = stage.join("agent", lead)
    stage.operator.pause(lead)
    stage.ok("GET", f"/workspaces/{agent}/state", agent)
    stage.operator.resume(lead)
    stage.ok("GET", f"/workspaces/{agent}/state", agent)


# Looking around


def reads_its_secrets(stage: Stage) -> None:
    agent, other = stage.join("agent"), stage.join("other")
    assert stage.ok("GET", f"/workspaces/{agent}/secrets/values", agent) == {}
    stage.operator.set_secret(agent, "OPENAI_API_KEY", "not-a-key")
    stage.ok("GET", f"/workspaces/{agent}/secrets/values", agent)
    stage.call("GET", f"/workspaces/{agent}/secrets/values", other)


def sees_its_peers(stage: Stage) -> None:
    lead = stage.join("lead", role="boss")
    agent, sibling = stage.join("agent", lead, role="sre"), stage.join("sibling", lead)
    below = stage.join("below", sibling)
    for workspace_id in (agent, sibling, below, lead):
        stage.ok("GET", f"/registry/{workspace_id}/peers", workspace_id)
    for query in ("?q=BOSS", "?q=nothing-like-it", "?relation=sibling", "?relation=parent&q=lead", "?q="):
        stage.ok("GET", f"/registry/{agent}/peers{query}", agent)
    first = stage.call("GET", f"/registry/{agent}/peers?limit=2", agent)
    rest = {"limit": "2", "cursor": first.headers["X-Next-Cursor"]}
    assert "X-Next-Cursor" not in stage.call("GET", f"/registry/{agent}/peers", agent, params=rest).headers
    stage.call("GET", f"/registry/{agent}/peers?cursor=nonsense", agent)
    stage.call("GET", f"/registry/{agent}/peers?limit=many", agent)
    stage.call("GET", f"/registry/{agent}/peers?relation=cousin", agent)
    stage.call("GET", f"/registry/{agent}/peers", sibling)


def calls_from_the_wrong_side(stage: Stage) -> None:
    agent, other = stage.join("agent"), stage.join("other")
    reading = (f"/registry/{agent}/peers", f"/workspaces/{agent}/secrets/values")
    for path in (*reading, f"/workspaces/{agent}/state", f"/workspaces/{agent}/inbox"):
        stage.call("GET", path)
        stage.call("GET", path, token="x" * 43)
        stage.call("GET", path, other)
        stage.call("GET", path.replace(agent, NOBODY), agent)
        stage.call("GET", path.replace(agent, "nonsense"), agent)
        stage.call("GET", f"{path}/".replace(agent, agent.upper()), agent)
        stage.call("GET", path, agent, headers={"X-Workspace-ID": other})
        stage.call("GET", path, agent, headers={"X-Workspace-ID": agent.upper()})
        stage.call("GET", path, agent, headers={"X-Source-Workspace-Id": "webhook:x"})
    stage.call("GET", "/no/such/route", agent)


# The inbox


def looks_into_its_inbox(stage: Stage) -> None:
    agent, peer = stage.join("agent"), stage.join("peer", role="sre")
    path = f"/workspaces/{agent}/inbox"
    stage.ok("GET", path, agent)
    stage.peer_message(peer, agent, "from a peer")
    stage.operator.send_user_message(agent, "from a person")
    found = stage.ok("GET", path, agent)
    assert [one["text"] for one in found["messages"]] == ["from a person", "from a peer"]
    for query in ("limit=1", "limit=999", "limit=0", f"peer_id={peer}", "kind=message", "kind=schedule"):
        stage.ok("GET", f"{path}?{query}", agent)
    for query in ("limit=x", "kind=pigeon", "status=lost", "wait=soon"):
        stage.call("GET", f"{path}?{query}", agent)
    stage.ok("GET", f"/workspaces/{agent}/state", agent)


def answers(stage: Stage) -> None:
    agent, peer = stage.join("agent"), stage.join("peer", role="sre")
    first = stage.peer_message(peer, agent, "first")
    second = stage.operator.send_user_message(agent, "second")
    items = stage.lease(agent, worker="w", limit=10)
    assert [one["text"] for one in items] == ["second", "first"]
    stage.settle(items[0], "answer", text="done")
    stage.settle(items[0], "answer", text="done")
    stage.settle(items[0], "answer", text="something else")
    stage.settle(items[1], "reply", parts=[{"kind": "text", "text": "a"}, {"kind": "data", "data": {"b": 1}}])
    assert stage.outcome(first)["status"] == stage.outcome(second)["status"] == "answered"
    stage.ok("GET", f"/workspaces/{agent}/inbox", agent)


def answers_in_other_states(stage: Stage) -> None:
    agent = stage.join("agent")
    for state in ("rejected", "input-required", "working"):
        sent = stage.operator.send_user_message(agent, "please")
        [item] = stage.lease(agent)
        stage.settle(item, "answer", text="well", state=state)
        stage.outcome(sent)
        stage.settle(item, "ack")


def answers_with_more_than_text(stage: Stage) -> None:
    agent = stage.join("agent")
    part = {"kind": "text", "text": "a"}
    said = {"kind": "message", "role": "agent", "messageId": "mine", "parts": [part], "metadata": {"x": 1}}
    status = {"state": "failed", "message": {**said, "taskId": "theirs"}}
    artifact = {"artifactId": "report", "name": "Report", "parts": [part]}
    answers: list[dict[str, Any]] = [
        {"message": said},
        {"text": "done", "artifacts": [{"parts": [part]}, artifact], "usage": {"tokens": 7}},
        {"task": {"id": "theirs", "kind": "task", "status": status, "artifacts": [artifact], "metadata": {}}},
        {"parts": [{"text": "modern"}, {"data": [1, 2]}, {"url": "https://example.org/x", "filename": "x"}]},
    ]
    for answer in answers:
        sent = stage.operator.send_user_message(agent, "please")
        [item] = stage.lease(agent)
        stage.settle(item, "progress", artifact=artifact | {"name": "Draft"})
        stage.settle(item, "answer", **answer)
        stage.outcome(sent)
        stage.settle(item, "answer", **answer)


def answers_with_a_message(stage: Stage) -> None:
    agent = stage.join("agent")
    said = {"kind": "message", "role": "agent", "messageId": "mine", "parts": [{"kind": "text", "text": "a"}]}
    answers: list[dict[str, Any]] = [
        {"message": said},
        {"message": {**said, "metadata": {"x": 1}}, "usage": {"tokens": 7}},
        {"message": said, "state": "input-required"},
        {"message": said, "artifacts": [{"parts": [{"text": "x"}]}]},
        {"message": {**said, "metadata": 5}},
    ]
    for answer in answers:
        sent = stage.operator.send_user_message(agent, "please")
        [item] = stage.lease(agent)
        stage.settle(item, "answer", **answer)
        stage.outcome(sent)
        stage.settle(item, "answer", **answer)
        stage.settle(item, "answer", text="a")


def acknowledges(stage: Stage) -> None:
    agent = stage.join("agent")
    sent = stage.operator.send_user_message(agent, "one")
    [item] = stage.lease(agent)
    stage.settle(item, "ack")
    stage.settle(item, "ack")
    stage.settle(item, "answer", text="too late")
    stage.outcome(sent)
    unleased = stage.operator.send_user_message(agent, "two")
    stage.call("POST", f"/workspaces/{agent}/inbox/{unleased}/ack", agent, json={})
    stage.outcome(unleased)


def fails_for_good(stage: Stage) -> None:
    agent = stage.join("agent")
    sent = stage.operator.send_user_message(agent, "one")
    [item] = stage.lease(agent)
    stage.settle(item, "fail", error="broken", retryable=False)
    assert stage.outcome(sent)["dead_letter"] is True
    stage.settle(item, "fail", error="broken again")
    stage.ok("GET", f"/workspaces/{agent}/inbox?status=dead", agent)
    stage.ok("GET", f"/workspaces/{agent}/inbox", agent)


def fails_until_its_attempts_are_used_up(stage: Stage) -> None:
    agent = stage.join("agent")
    sent = stage.operator.send_user_message(agent, "one")
    for attempt in range(1, 6):
        [item] = stage.lease(agent, wait=2)
        assert item["lease"]["attempt"] == attempt
        stage.settle(item, "nack", reason="later", code="agent-busy", delay_seconds=0)
    outcome = stage.outcome(sent)
    assert (outcome["status"], outcome["attempts"], outcome["dead_letter"]) == ("failed", 5, True)
    stage.lease(agent)


def waits_out_its_back_off(stage: Stage) -> None:
    agent = stage.join("agent")
    sent = stage.operator.send_user_message(agent, "one")
    [item] = stage.lease(agent)
    stage.settle(item, "fail")
    assert stage.lease(agent) == []
    stage.outcome(sent)


def gives_back(stage: Stage) -> None:
    agent = stage.join("agent")
    sent = stage.operator.send_user_message(agent, "one")
    [item] = stage.lease(agent)
    stage.settle(item, "release")
    stage.settle(item, "release")
    stage.outcome(sent)
    [again] = stage.lease(agent)
    assert again["lease"]["attempt"] == 1
    assert again["lease"]["epoch"] == 2
    stage.settle(item, "answer", text="with the old lease")
    stage.settle(again, "answer", text="with the new lease")


def gives_back_again_and_again(stage: Stage) -> None:
    agent = stage.join("agent")
    sent = stage.operator.send_user_message(agent, "one")
    for _ in range(4):
        [item] = stage.lease(agent)
        stage.settle(item, "release")
    assert stage.lease(agent) == []
    stage.outcome(sent)


def gives_back_for_ever(stage: Stage) -> None:
    agent = stage.join("agent")
    sent = stage.operator.send_user_message(agent, "one")
    leases = 0
    while items := stage.lease(agent):
        stage.settle(items[0], "release")
        leases += 1
    assert leases == 20
    stage.outcome(sent)


def keeps_its_lease(stage: Stage) -> None:
    agent = stage.join("agent")
    stage.operator.send_user_message(agent, "one")
    [item] = stage.lease(agent, lease=10)
    stage.settle(item, "extend", seconds=30)
    stage.settle(item, "extend")
    stage.settle(item, "extend", seconds=0)
    stage.settle(item, "extend", lease_token="x" * 43)
    stage.settle(item, "extend", lease_token=...)
    stage.settle(item, "ack", lease_token=...)
    stage.lease(agent)


def reports_progress(stage: Stage) -> None:
    agent = stage.join("agent")
    sent = stage.operator.send_user_message(agent, "one")
    [item] = stage.lease(agent)
    part = {"kind": "text", "text": "a"}
    for report in (
        {"text": "on it"},
        {},
        {"state": "working"},
        {"state": "completed"},
        {"artifact": {"artifactId": "a", "parts": [part]}},
        {"artifact": {"artifactId": "a", "parts": [part], "append": True}, "text": "more"},
        {"artifact": {"artifactId": "b", "parts": [part], "append": True}},
        {"artifact": {"parts": [part]}},
        {"artifact": {"artifactId": "c"}},
        {"lease_token": "x" * 43},
    ):
        stage.settle(item, "progress", **report)
    stage.outcome(sent)
    stage.settle(item, "answer", text="done")
    stage.outcome(sent)
    stage.settle(item, "progress", text="too late")


def loses_its_leases_to_a_pause(stage: Stage) -> None:
    agent = stage.join("agent")
    sent = stage.operator.send_user_message(agent, "one")
    [item] = stage.lease(agent)
    stage.operator.pause(agent)
    stage.outcome(sent)
    stage.settle(item, "answer", text="done")
    assert stage.lease(agent) == []
    stage.operator.resume(agent)
    assert len(stage.lease(agent)) == 1


def takes_over_from_a_worker(stage: Stage) -> None:
    agent = stage.join("agent")
    for text in ("one", "two"):
        stage.operator.send_user_message(agent, text)
    [first] = stage.lease(agent, limit=1, worker="before")
    [second] = stage.lease(agent, limit=1, worker="another")
    again = {"id": agent, "agent_card": {"name": "agent"}, "replaces_worker": "before"}
    stage.ok("POST", "/registry/register", agent, json=again)
    [taken] = stage.lease(agent, worker="after")
    assert (taken["message_id"], taken["attempt"]) == (first["message_id"], 1)
    stage.settle(first, "answer", text="too late")
    stage.settle(second, "answer", text="done")
    stage.call("POST", "/registry/register", agent, json=again | {"replaces_worker": 7})


def is_removed_with_mail(stage: Stage) -> None:
    agent = stage.join("agent")
    sent = stage.operator.send_user_message(agent, "one")
    stage.operator.delete(agent)
    assert stage.outcome(sent)["status"] == "cancelled"


def asks_the_inbox_wrongly(stage: Stage) -> None:
    agent, other = stage.join("agent"), stage.join("other")
    sent = stage.operator.send_user_message(agent, "one")
    for body in ({"limit": 0}, {"limit": 101}, {"lease": 5}, {"lease": 4000}, {"limit": "x"}, {"pigeon": 1}):
        stage.call("POST", f"/workspaces/{agent}/inbox/lease", agent, json=body)
    stage.call("POST", f"/workspaces/{agent}/inbox/lease", other, json={})
    stage.call("POST", f"/workspaces/{agent}/inbox/lease", json={})
    [item] = stage.lease(agent, kinds=["message"])
    wrong: list[dict[str, Any]] = [
        {},
        {"text": "a", "parts": []},
        {"text": 5},
        {"text": "a", "pigeon": 1},
        {"message": {"role": "agent"}},
        {"message": {}},
    ]
    for body in wrong:
        stage.settle(item, "answer", **body)
    for verb in ("extend", "progress", "release"):
        stage.settle(item, verb, lease_token=...)
    stage.call("POST", f"/workspaces/{agent}/inbox/{NOBODY}/ack", agent, json={})
    stage.call("POST", f"/workspaces/{other}/inbox/{sent}/ack", other, json={})
    stage.settle({**item, "message_id": item["activity_id"]}, "answer", text="by its activity row")


# Plugins


def fetches_plugins(stage: Stage) -> None:
    agent, other = stage.join("agent"), stage.join("other")
    files = {"plugin.yaml": b"name: demo\nversion: 1.0.0\n", "rules/r.md": b"- be kind"}
    stage.operator.add_plugin("demo", files)
    path = f"/workspaces/{agent}/plugins"
    first = stage.call("GET", f"{path}/demo/download", agent)
    assert first.headers["X-Plugin-Archive-Sha256"] == hashlib.sha256(first.content).hexdigest()
    known = {"If-None-Match": first.headers["ETag"]}
    assert stage.call("GET", f"{path}/demo/download", agent, headers=known).status_code == 304
    for query in ("source=local://demo", "source=demo", "source=local://nothing", "source=pigeon://demo"):
        stage.call("GET", f"{path}/demo/download?{query}", agent)
    for asked in ("nothing/download", "Demo/download", "other/download?source=local://demo"):
        stage.call("GET", f"{path}/{asked}", agent)
    stage.call("GET", f"{path}/demo/download", other)
    stage.call("GET", f"{path}/demo/download")


def reports_plugins(stage: Stage) -> None:
    agent, other = stage.join("agent"), stage.join("other")
    files = {"plugin.yaml": b"name: reported\nversion: 2.0.0\n", "a": b"a"}
    stage.operator.add_plugin("reported", files)
    path = f"/workspaces/{agent}/plugins"
    for body in ({"source": "local://reported"}, {"source": "reported"}, {"source": "local://nothing"}, {}):
        stage.call("POST", path, agent, json=body)
    stage.call("POST", path, other, json={"source": "local://reported"})
    for name in ("reported", "reported", "Reported"):
        stage.call("DELETE", f"{path}/{name}", agent)
    stage.call("DELETE", f"{path}/reported", other)


def asks_what_is_revoked(stage: Stage) -> None:
    agent = stage.join("agent")
    listed = stage.call("GET", "/plugins/revocations", agent)
    known = {"If-None-Match": listed.headers["ETag"]}
    assert stage.call("GET", "/plugins/revocations", agent, headers=known).status_code == 304
    stage.call("GET", "/plugins/revocations")


def follows_a_branch(stage: Stage) -> None:
    agent, source = stage.join("agent"), "github://acme/demo"
    manifest = "name: demo\nversion: {}\n"
    path = f"/workspaces/{agent}/plugins"
    for version in ("1.0.0", "2.0.0"):
        files = {"plugin.yaml": manifest.format(version).encode(), "a": version.encode()}
        stage.operator.add_plugin("demo", files, source)
        answer = stage.call("GET", f"{path}/demo/download?source={source}", agent)
        if pinned := answer.headers.get("X-Plugin-Source"):
            exact = {"source": pinned}
            assert stage.call("GET", f"{path}/demo/download", agent, params=exact).status_code == 200
        stage.call("POST", path, agent, json={"source": source})


SCENARIOS: list[Scenario] = [
    fetches_plugins,
    reports_plugins,
    asks_what_is_revoked,
    claims_its_workspace,
    recovers_its_token,
    enrols_again,
    registers_wrongly,
    beats,
    lives_under_an_operator,
    pauses_a_branch,
    reads_its_secrets,
    sees_its_peers,
    calls_from_the_wrong_side,
    looks_into_its_inbox,
    answers,
    answers_in_other_states,
    answers_with_more_than_text,
    answers_with_a_message,
    acknowledges,
    fails_for_good,
    fails_until_its_attempts_are_used_up,
    waits_out_its_back_off,
    gives_back,
    gives_back_again_and_again,
    keeps_its_lease,
    reports_progress,
    loses_its_leases_to_a_pause,
    takes_over_from_a_worker,
    is_removed_with_mail,
    asks_the_inbox_wrongly,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_the_fake_platform_says_what_the_real_one_says_to_an_agent_that(
    scenario: Scenario, real: RealOperator
) -> None:
    expected = play(scenario, real)
    fake = FakeOperator()
    with fake.serve() as fake.url:
        assert play(scenario, fake) == expected


def test_a_message_that_is_given_back_for_ever_ends_alike(
    real: RealOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rules in (messages, mailbox):
        monkeypatch.setattr(rules, "RELEASES_WITHOUT_PAUSE", 1000)
    expected = play(gives_back_for_ever, real)
    fake = FakeOperator()
    with fake.serve() as fake.url:
        assert play(gives_back_for_ever, fake) == expected


@pytest.mark.parametrize("policy", ["lock", "float", "deny"])
def test_an_unpinned_plugin_is_served_alike_under_each_policy(policy: Any, tmp_path: Path) -> None:
    with opened(tmp_path, PLUGIN_UNPINNED_POLICY=policy) as real:
        expected = play(follows_a_branch, real)
    fake = FakeOperator(unpinned_policy=policy)
    with fake.serve() as fake.url:
        assert play(follows_a_branch, fake) == expected
