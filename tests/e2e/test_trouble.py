"""An agent in trouble: whatever the platform and the network do, it loses nothing and does not race."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import requests

from molecule_agent import InboundMessage, InboxDelivery, RemoteAgentClient
from molecule_platform.testing import servers
from molecule_wire.a2a import text
from tests.e2e.faulty_proxy import Fault, FaultyProxy, refusals, storm_until
from tests.e2e.platform_process import PlatformProcess

HOUR = 3600.0
PATIENCE_SECONDS = 60.0
MOST_REQUESTS_A_SECOND = 25.0
MOST_CPU = 0.2

LOST_ANSWERS = [Fault(0.2, reset_before=True), Fault(0.1, reset_after=True)]
SLOW = [Fault(0.5, delay=1.0)]


class JumpingClock:
    """The machine's clock, which somebody keeps setting; only the time of day jumps."""

    def __init__(self) -> None:
        self.offset = 0.0

    def time(self) -> float:
        return time.time() + self.offset

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float, /) -> None:
        time.sleep(seconds)


@dataclass
class Agent:
    """An agent behind the proxy that remembers when it was handed which message."""

    workspace_id: str
    url: str
    home: Path
    clock: JumpingClock = field(default_factory=JumpingClock)
    handled: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    cpu_seconds: float = 0.0

    def start(self) -> None:
        self.client = RemoteAgentClient(
            self.workspace_id,
            self.url,
            agent_card={"name": "troubled"},
            token_dir=self.home,
            heartbeat_interval=1.0,
            state_poll_interval=1.0,
            clock=self.clock,
        )
        self.client.register()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        delivery = InboxDelivery(self.client, wait=1.0, lease=10.0, limit=5)
        self.client.run_agent_loop(self._handle, delivery)
        self.cpu_seconds += time.thread_time()

    def _handle(self, message: InboundMessage, _client: RemoteAgentClient) -> str:
        self.handled.append((message.message_id, time.monotonic()))
        return f"re: {message.text}"

    def stop(self) -> None:
        self.client.stop()
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()
        self.client.close()

    def lose_token_file(self) -> None:
        self.client.token_file.unlink(missing_ok=True)

    def restart_without_token_file(self) -> None:
        self.stop()
        self.client.token_file.unlink(missing_ok=True)
        self.start()


@dataclass
class Mail:
    """Posts numbered messages straight to the platform, each until it is accepted, until told to stop."""

    process: PlatformProcess
    workspace_id: str
    pause: float
    accepted: list[str] = field(default_factory=list[str])
    _enough: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> None:
        self._headers = {"Authorization": f"Bearer {self.process.admin_token()}", "Prefer": "respond-async"}
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def __exit__(self, *exc_info: object) -> None:
        self._enough.set()
        self._thread.join(PATIENCE_SECONDS)

    def _run(self) -> None:
        while not self._enough.wait(self.pause):
            self.accepted.append(self._post(len(self.accepted)))

    def _post(self, number: int) -> str:
        parts = [{"kind": "text", "text": str(number)}]
        said = {"role": "user", "messageId": f"m-{number}", "parts": parts}
        body = {"jsonrpc": "2.0", "id": "1", "method": "message/send", "params": {"message": said}}
        url = f"{self.process.url}/workspaces/{self.workspace_id}/a2a"
        while True:
            try:
                return requests.post(url, json=body, headers=self._headers, timeout=30).json()["message_id"]
            except requests.RequestException:
                time.sleep(0.05)


@dataclass
class Stage:
    """The platform, the trouble, the agent and its mail."""

    process: PlatformProcess
    proxy: FaultyProxy
    agent: Agent
    mail: Mail

    def during(self, mix: Sequence[Fault], seconds: float) -> None:
        """Make this trouble for a while."""
        self.proxy.trouble(mix)
        time.sleep(seconds)
        self.proxy.trouble(())

    def pull_the_plug(self, seconds_away: float) -> None:
        """Kill the platform and start it again."""
        self.process.kill()
        time.sleep(seconds_away)
        self.process.start()

    def outcomes(self) -> list[str]:
        """What was answered to each message, once all are settled."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        return [self._outcome(message_id, deadline) for message_id in self.mail.accepted]

    def _outcome(self, message_id: str, deadline: float) -> str:
        while True:
            told: Any = self.process.ok("GET", f"/messages/{message_id}?wait=10")
            if told["finished_at"] or time.monotonic() > deadline:
                return text.text_of(told["result"]) if told["status"] == "answered" else told["status"]

    def handled_after_settled(self) -> list[str]:
        """The messages that were handed to the agent again after the platform had taken their outcome."""
        settled = self.proxy.tally.settled
        return [mid for mid, at in self.agent.handled if at > settled.get(mid, float("inf"))]


def run_through(process: PlatformProcess, home: Path, pause: float, script: Callable[[Stage], None]) -> None:
    """Play a script of trouble, then hold the agent to its promises."""
    process.start()
    created = process.ok("POST", "/workspaces", json={"name": "troubled", "runtime": "external"})
    with FaultyProxy(process.port, seed=5) as proxy:
        agent = Agent(created["id"], proxy.url, home)
        stage = Stage(process, proxy, agent, Mail(process, created["id"], pause))
        began = time.monotonic()
        agent.start()
        try:
            with stage.mail:
                script(stage)
            outcomes = stage.outcomes()
        finally:
            proxy.trouble(())
            agent.stop()
        seconds = time.monotonic() - began
    print(
        f"{len(outcomes)} messages in {seconds:.0f} s, {proxy.tally.requests} requests, {proxy.tally.faults}"
    )
    assert outcomes == [f"re: {number}" for number in range(len(outcomes))]
    assert stage.handled_after_settled() == []
    assert proxy.tally.faults
    assert agent.client.token_file.exists()
    assert proxy.tally.requests / seconds < MOST_REQUESTS_A_SECOND
    assert agent.cpu_seconds / seconds < MOST_CPU


def two_minutes(stage: Stage) -> None:
    for round_ in range(5):
        stage.agent.clock.offset = HOUR * (-1) ** round_
        stage.during(refusals(429, retry_after="1"), 2)
        stage.during(storm_until(2), 2)
        stage.during(refusals(500, 502, 503, 504, chance=0.6), 4)
        stage.agent.lose_token_file()
        stage.during(LOST_ANSWERS, 4)
        stage.during(SLOW, 4)
        stage.pull_the_plug(seconds_away=1.0 + round_)
        if round_ == 2:
            stage.agent.restart_without_token_file()
        time.sleep(2)


def ten_seconds(stage: Stage) -> None:
    stage.agent.clock.offset = -HOUR
    stage.during(refusals(429, retry_after="1"), 0.7)
    stage.agent.lose_token_file()
    stage.during(refusals(500, 502, 503, 504, chance=0.6), 1.0)
    stage.agent.clock.offset = HOUR
    stage.pull_the_plug(seconds_away=0.2)
    stage.during([Fault(0.3, reset_before=True), Fault(0.3, delay=0.3)], 1.0)


@pytest.mark.slow  # trouble takes its time: a platform that dies and comes back, and pauses that grow
def test_an_agent_in_trouble_loses_nothing_repeats_nothing_and_does_not_race(tmp_path: Path) -> None:
    process = PlatformProcess(servers.free_port(), tmp_path / "data")
    run_through(process, tmp_path / "home", 0.05, ten_seconds)
    assert process.stop() == 0


@pytest.mark.long
@pytest.mark.timeout(300)
def test_an_agent_survives_two_minutes_of_every_trouble(process: PlatformProcess, tmp_path: Path) -> None:
    run_through(process, tmp_path / "home", 0.3, two_minutes)
    assert process.stop() == 0
