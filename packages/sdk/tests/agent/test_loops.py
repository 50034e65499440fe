"""The run loops: what a tick does, what ends them, what they survive."""

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from molecule_agent import InboundMessage, PollDelivery, RemoteAgentClient

if TYPE_CHECKING:
    from .conftest import Answer, FastClock, MakeClient, ScriptedPlatform  # noqa: TID252 - types only

ME = "/workspaces/3f1c2d4e-5a6b-4c7d-8e9f-0a1b2c3d4e5f"
STATE = ("GET", f"{ME}/state")
HEARTBEAT = ("POST", "/registry/heartbeat")


class Delivery:
    """Counts; raises when told to."""

    def __init__(self, interval: Any = None, error: Exception | None = None) -> None:
        self.interval = interval
        self.runs = 0
        self.stops = 0
        self._error = error
        self.then: Callable[[], None] = lambda: None

    def run_once(self, handler: object) -> int:
        self.runs += 1
        self.then()
        if self._error:
            raise self._error
        return 0

    def stop(self) -> None:
        self.stops += 1


def handler(message: InboundMessage, client: RemoteAgentClient) -> None:
    return None


def online(platform: "ScriptedPlatform") -> None:
    platform.ok(*STATE, {"status": "online", "paused": False, "deleted": False})
    platform.ok(*HEARTBEAT, {"status": "ok"})


def test_each_tick_of_a_heartbeat_loop_beats_and_polls_once(
    platform: "ScriptedPlatform", make_client: "MakeClient", clock: "FastClock"
) -> None:
    online(platform)
    client = make_client(clock=clock)
    assert client.run_heartbeat_loop(3) == "max_iterations"
    assert len(platform.requests(*HEARTBEAT)) == len(platform.requests(*STATE)) == 3
    assert clock.slept == [30.0, 30.0, 30.0]


def test_a_loop_ends_with_the_status_of_a_paused_or_removed_workspace(
    platform: "ScriptedPlatform", make_client: "MakeClient", answer: "type[Answer]", clock: "FastClock"
) -> None:
    online(platform)
    fine = answer(200, {"status": "online", "paused": False})
    platform.on(*STATE, fine, answer(200, {"status": "paused", "paused": True}))
    assert make_client(clock=clock).run_heartbeat_loop() == "paused"
    platform.on(*STATE, fine, answer(404, {"deleted": True, "status": "removed"}))
    delivery = Delivery()
    assert make_client(clock=clock).run_agent_loop(handler, delivery) == "removed"
    assert (delivery.runs, delivery.stops) == (2, 1)


def test_what_the_supplier_reports_is_what_the_heartbeat_says(
    platform: "ScriptedPlatform", make_client: "MakeClient", clock: "FastClock"
) -> None:
    online(platform)
    reports: list[Any] = [
        {"current_task": "a", "active_tasks": 2},
        None,
        {"current_task": None},
        {"current_task": 5, "active_tasks": "3"},
        {"active_tasks": "many"},
    ]
    make_client(clock=clock).run_heartbeat_loop(5, lambda: reports.pop(0))
    sent = [(seen.json["current_task"], seen.json["active_tasks"]) for seen in platform.requests(*HEARTBEAT)]
    assert sent == [("a", 2), ("", 0), ("", 0), ("5", 3), ("", 0)]


def test_deliveries_run_at_their_interval_and_heartbeats_and_polls_at_theirs(
    platform: "ScriptedPlatform", make_client: "MakeClient", clock: "FastClock"
) -> None:
    online(platform)
    client = make_client(clock=clock, heartbeat_interval=10.0, state_poll_interval=20.0)
    delivery = Delivery(interval=5.0)
    assert client.run_agent_loop(handler, delivery, 8) == "max_iterations"
    assert delivery.runs == 8
    assert len(platform.requests(*HEARTBEAT)) == 4
    assert len(platform.requests(*STATE)) == 4  # with every heartbeat, though every 20 s would do
    assert set(clock.slept) == {5.0}


@pytest.mark.parametrize("interval", [0, -1, None, "soon", True])
def test_an_interval_that_is_no_positive_number_counts_for_nothing(
    interval: Any, platform: "ScriptedPlatform", make_client: "MakeClient", clock: "FastClock"
) -> None:
    online(platform)
    make_client(clock=clock).run_agent_loop(handler, Delivery(interval), 1)
    assert clock.slept == [30.0]


def test_time_counts_by_what_was_slept_when_the_clock_does_not_show_it(
    platform: "ScriptedPlatform", client: RemoteAgentClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    online(platform)
    slept: list[float] = []
    monkeypatch.setattr("molecule_agent.client.time.sleep", slept.append)
    assert client.run_heartbeat_loop(3) == "max_iterations"
    assert slept == [30.0, 30.0, 30.0]
    assert len(platform.requests(*HEARTBEAT)) == 3


def test_the_loop_survives_everything_and_says_each_trouble_once_a_minute(
    platform: "ScriptedPlatform",
    make_client: "MakeClient",
    answer: "type[Answer]",
    clock: "FastClock",
    caplog: pytest.LogCaptureFixture,
) -> None:
    platform.on(*HEARTBEAT, answer(drop=True))
    platform.on(*STATE, answer(500, {"error": "broken"}))

    def supplier() -> dict[str, object]:
        raise KeyError("supplier")

    delivery = Delivery(error=RuntimeError("delivery broke"))
    client = make_client(clock=clock, heartbeat_interval=10.0, state_poll_interval=10.0)
    assert client.run_agent_loop(handler, delivery, 10, supplier) == "max_iterations"
    assert delivery.stops == 1
    for trouble in ("delivery: RuntimeError: delivery broke", "state poll: ", "task supplier: KeyError"):
        assert 1 <= caplog.text.count(trouble) <= 2


def test_stop_ends_the_loop_at_the_next_tick_and_a_later_loop_runs_again(
    platform: "ScriptedPlatform", make_client: "MakeClient", clock: "FastClock"
) -> None:
    online(platform)
    client = make_client(clock=clock)
    delivery = Delivery()
    delivery.then = client.stop
    assert client.run_agent_loop(handler, delivery) == "stopped"
    assert (delivery.runs, delivery.stops) == (1, 1)
    assert client.run_heartbeat_loop(1) == "max_iterations"


def test_a_401_in_the_loop_starts_the_ladder(
    platform: "ScriptedPlatform", make_client: "MakeClient", answer: "type[Answer]", clock: "FastClock"
) -> None:
    def check(seen: Any) -> "Answer":
        fresh = seen.headers.get("authorization") == "Bearer minted"
        return answer(200, {"status": "online"}) if fresh else answer(401, {"code": "token-revoked"})

    platform.on(*HEARTBEAT, check)
    platform.on(*STATE, check)
    platform.ok("POST", "/registry/register", {"auth_token": "minted", "recovery_secret": "next"})
    client = make_client(clock=clock)
    client.save_token("revoked")
    client._store.save_recovery("secret")
    assert client.run_heartbeat_loop(2) == "max_iterations"
    assert len(platform.requests("POST", "/registry/register")) == 1
    assert client.load_token() == "minted"


def test_a_401_without_any_proof_is_only_told(
    platform: "ScriptedPlatform",
    make_client: "MakeClient",
    answer: "type[Answer]",
    clock: "FastClock",
    caplog: pytest.LogCaptureFixture,
) -> None:
    platform.on(*HEARTBEAT, answer(401, {"error": "no", "code": "token-revoked"}))
    platform.ok(*STATE, {"status": "online"})
    platform.on("POST", "/registry/register", answer(401, {"error": "no", "code": "enrolment-invalid"}))
    client = make_client(clock=clock, enrolment_token="used")
    client.save_token("revoked")
    assert client.run_heartbeat_loop(2) == "max_iterations"
    assert "re-enrolment: " in caplog.text


def test_without_a_delivery_the_loop_polls(
    platform: "ScriptedPlatform", make_client: "MakeClient", clock: "FastClock"
) -> None:
    online(platform)
    platform.ok("GET", f"{ME}/activity", [])
    make_client(clock=clock).run_agent_loop(handler, max_iterations=2)
    assert len(platform.requests("GET", f"{ME}/activity")) == 2
    assert clock.slept == [5.0, 5.0]


def test_a_delivery_that_does_not_stop_cleanly_is_logged(
    platform: "ScriptedPlatform",
    make_client: "MakeClient",
    clock: "FastClock",
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Stuck(PollDelivery):
        def stop(self) -> None:
            raise RuntimeError("stuck")

    online(platform)
    caplog.set_level(logging.ERROR)
    client = make_client(clock=clock)
    assert client.run_agent_loop(handler, Stuck(client), 0) == "max_iterations"
    assert "did not stop cleanly" in caplog.text


def test_a_heartbeat_that_is_told_gone_ends_the_loop(
    platform: "ScriptedPlatform", make_client: "MakeClient", answer: "type[Answer]", clock: "FastClock"
) -> None:
    online(platform)
    platform.on(*HEARTBEAT, answer(410, {"error": "it was removed", "code": "workspace-removed"}))
    delivery = Delivery(interval=5.0)
    assert make_client(clock=clock).run_agent_loop(handler, delivery) == "removed"
    assert (delivery.runs, delivery.stops) == (0, 1)


@pytest.mark.parametrize("when", ["before", "while it waits"])
def test_an_event_of_the_caller_ends_a_loop(
    when: str, platform: "ScriptedPlatform", make_client: "MakeClient"
) -> None:
    online(platform)
    stop = threading.Event()
    client = make_client(heartbeat_interval=60.0)
    if when == "before":
        stop.set()
    else:
        threading.Timer(0.1, stop.set).start()
    assert client.run_heartbeat_loop(stop_event=stop) == "stopped"
    assert len(platform.requests(*HEARTBEAT)) == (0 if when == "before" else 1)
    stop.set()
    assert client.run_agent_loop(handler, Delivery(), None, None, stop) == "stopped"


def test_a_trouble_is_told_by_its_cause_and_not_by_its_words(
    platform: "ScriptedPlatform",
    make_client: "MakeClient",
    answer: "type[Answer]",
    clock: "FastClock",
    caplog: pytest.LogCaptureFixture,
) -> None:
    online(platform)
    refusals = [
        answer(503, {"error": f"busy, number {number}", "code": "unavailable"}) for number in range(9)
    ]
    platform.on(*HEARTBEAT, *refusals)
    make_client(clock=clock, heartbeat_interval=1.0).run_heartbeat_loop(9)
    records = [record for record in caplog.records if record.message.startswith("heartbeat")]
    assert len(records) == 1
