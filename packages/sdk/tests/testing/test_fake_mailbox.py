"""The mailbox of the fake platform keeps its promises whatever workers do and however time passes."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from molecule_agent.testing import FakePlatform

URL = "https://molecule.test"
TERMINAL = ("answered", "failed", "expired", "cancelled")


class Workers(RuleBasedStateMachine):
    """Two workers of one agent, an operator, and a clock."""

    def __init__(self) -> None:
        super().__init__()
        self.platform = FakePlatform()
        self.session = self.platform.session()
        self.agent = self.platform.create_workspace()
        body = {"id": self.agent, "agent_card": {"name": "x"}}
        token = self.session.post(f"{URL}/registry/register", json=body).json()["auth_token"]
        self.headers = {"Authorization": f"Bearer {token}"}
        self.sent: list[str] = []
        self.leases: list[dict[str, Any]] = []
        self.ended: dict[str, dict[str, Any]] = {}
        self.epochs: dict[str, int] = {}

    def call(self, path: str, body: dict[str, Any]) -> Any:
        url = f"{URL}/workspaces/{self.agent}/inbox/{path}"
        return self.session.post(url, json=body, headers=self.headers)

    @rule(text=st.sampled_from(["a", "b"]))
    def send(self, text: str) -> None:
        self.sent.append(self.platform.send_user_message(self.agent, text))

    @rule(limit=st.integers(1, 3), seconds=st.sampled_from([10, 60]), worker=st.sampled_from(["v", "w"]))
    def lease(self, limit: int, seconds: int, worker: str) -> None:
        wish = {"limit": limit, "lease": seconds, "worker": worker}
        items = self.call("lease", wish).json()["messages"]
        assert len(items) <= limit
        for item in items:
            assert item["lease"]["epoch"] > self.epochs.get(item["message_id"], 0)
            self.epochs[item["message_id"]] = item["lease"]["epoch"]
        self.leases += items

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), verb=st.sampled_from(["answer", "ack", "fail", "release", "extend", "progress"]))
    def settle(self, data: st.DataObject, verb: str) -> None:
        item = data.draw(st.sampled_from(self.leases))
        body = {"lease_token": item["lease"]["token"]} | ({"text": "done"} if verb == "answer" else {})
        before = self.platform.outcome(item["message_id"])
        current = item["lease"]["epoch"] == self.epochs[item["message_id"]] and before.status == "leased"
        answer = self.call(f"{item['message_id']}/{verb}", body)
        repeats = before.status == "answered" and verb in ("ack", "answer")
        assert answer.status_code in ((200,) if current else (200, 409) if repeats else (409,))

    @rule(seconds=st.sampled_from([1, 5, 30, 90, 4000]))
    def wait(self, seconds: int) -> None:
        self.platform.advance(seconds)

    @rule()
    def pause_and_resume(self) -> None:
        self.platform.pause(self.agent)
        assert self.call("lease", {}).json()["messages"] == []
        self.platform.resume(self.agent)

    @invariant()
    def an_outcome_never_changes_and_attempts_are_few(self) -> None:
        for message_id in self.sent:
            outcome = self.platform.outcome(message_id)
            attempts = outcome["attempts"]
            assert isinstance(attempts, int)
            assert 0 <= attempts <= 5
            assert outcome.dead_letter == (outcome.status == "failed")
            if outcome.status in TERMINAL:
                assert self.ended.setdefault(message_id, dict(outcome)) == outcome

    @invariant()
    def everything_is_counted_once(self) -> None:
        answer = self.session.get(f"{URL}/workspaces/{self.agent}/inbox", headers=self.headers).json()
        statuses = [self.platform.outcome(message_id).status for message_id in self.sent]
        counted = [answer["pending"], answer["leased"], answer["dead"]]
        assert counted == [statuses.count(status) for status in ("accepted", "leased", "failed")]


TestWorkers = Workers.TestCase
TestWorkers.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)
