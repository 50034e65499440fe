"""The heartbeat loop: what it says, when, and how it lives on."""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from molecule_agent.testing import FakePlatform
from molecule_runtime.domain.capabilities import RuntimeCapabilities
from molecule_runtime.kit.state import engine_health
from molecule_runtime.links import heartbeat
from molecule_runtime.links.heartbeat import EDGE_SECONDS, HeartbeatLoop
from molecule_runtime.links.platform_client import PlatformClient
from molecule_wire import JSON, JSONObject
from molecule_wire.calls import HeartbeatAnswer
from packages.runtime.tests.links.manual_time import EPOCH, ManualTime, until

NOTHING = {
    "heartbeat": False,
    "scheduler": False,
    "session": False,
    "status_mgmt": False,
    "retry": False,
    "activity_decoration": False,
    "channel_dispatch": False,
}


class Adapter:
    """An adapter that says what the test wants."""

    def __init__(self, override: Any = None, **flags: bool) -> None:
        self.override = override
        self.flags = flags
        self.problem: Exception | None = None

    def capabilities(self) -> RuntimeCapabilities:
        if self.problem is not None:
            raise self.problem
        return RuntimeCapabilities(**self.flags)

    def idle_timeout_override(self) -> int | None:
        return self.override


@pytest.fixture(autouse=True)
def no_wedge() -> Iterator[None]:
    engine_health.reset_for_test()
    yield
    engine_health.reset_for_test()


@pytest.fixture
async def loop(
    registered: PlatformClient, url: str, workspace_id: str, manual_time: ManualTime
) -> AsyncIterator[HeartbeatLoop]:
    made = HeartbeatLoop(
        url, workspace_id, client=registered, adapter=Adapter(), time_source=manual_time.source
    )
    yield made
    await made.stop()


def install(monkeypatch: pytest.MonkeyPatch, get_adapter: Callable[[str], Any]) -> None:
    """Let the registry of adapters answer with this."""
    name = "molecule_runtime.registry.adapters"
    module = ModuleType(name)
    module.get_adapter = get_adapter  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, name, module)


def beats(platform: FakePlatform) -> list[JSONObject]:
    sent = [request.json for request in platform.requests if request.path == "/registry/heartbeat"]
    return [body for body in sent if isinstance(body, dict)]


# Acceptance list, number 4


def body(workspace_id: str, **changes: JSON) -> JSONObject:
    return {
        "workspace_id": workspace_id,
        "error_rate": 0.0,
        "sample_error": "",
        "active_tasks": 0,
        "current_task": "",
        "uptime_seconds": 12,
        "runtime_metadata": {"capabilities": dict[str, JSON](NOTHING)},
        **changes,
    }


async def test_the_body_of_a_default_adapter(
    platform: FakePlatform, loop: HeartbeatLoop, workspace_id: str, manual_time: ManualTime
) -> None:
    manual_time.now += 12.4
    assert await loop.beat() == "taken"
    assert beats(platform) == [body(workspace_id)]


async def test_the_body_of_an_adapter_with_an_idle_timeout(
    platform: FakePlatform, loop: HeartbeatLoop, workspace_id: str, manual_time: ManualTime
) -> None:
    manual_time.now += 12
    loop.adapter = Adapter(600)
    await loop.beat()
    block: JSON = {"capabilities": dict[str, JSON](NOTHING), "idle_timeout_seconds": 600}
    assert beats(platform) == [body(workspace_id, runtime_metadata=block)]


@pytest.mark.parametrize("override", [0, -1, True, 600.0, "600", None])
async def test_what_is_no_idle_timeout_is_not_sent(
    platform: FakePlatform, loop: HeartbeatLoop, override: object
) -> None:
    loop.adapter = Adapter(override)
    await loop.beat()
    assert beats(platform)[0]["runtime_metadata"] == {"capabilities": NOTHING}


async def test_an_adapter_that_raises_costs_the_block_and_not_the_beat(
    platform: FakePlatform, loop: HeartbeatLoop
) -> None:
    adapter = Adapter()
    adapter.problem = RuntimeError("broken")
    loop.adapter = adapter
    assert await loop.beat() == "taken"
    assert "runtime_metadata" not in beats(platform)[0]


async def test_without_an_adapter_the_beat_has_no_block(
    platform: FakePlatform, loop: HeartbeatLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(runtime: str) -> Any:
        raise KeyError(runtime)

    install(monkeypatch, none)
    loop.adapter = None
    assert await loop.beat() == "taken"
    assert "runtime_metadata" not in beats(platform)[0]


@pytest.mark.parametrize(
    ("override", "extra"),
    [(None, {}), (600, {"idle_timeout_seconds": 600}), (0, {}), (-1, {}), (True, {})],
)
def test_the_payload_of_the_installed_adapter(
    monkeypatch: pytest.MonkeyPatch, override: object, extra: dict[str, int]
) -> None:
    calls: list[str] = []

    def get_adapter(runtime: str) -> Any:
        calls.append(runtime)
        return lambda: Adapter(override)

    install(monkeypatch, get_adapter)
    assert heartbeat._runtime_metadata_payload() == {"runtime_metadata": {"capabilities": NOTHING, **extra}}
    assert calls == [""]


def test_there_is_no_payload_when_the_adapter_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = Adapter()
    adapter.problem = RuntimeError("broken")
    install(monkeypatch, lambda _runtime: lambda: adapter)
    assert heartbeat._runtime_metadata_payload() == {}

    def broken() -> int:
        raise ValueError

    install(
        monkeypatch,
        lambda _runtime: (
            lambda: SimpleNamespace(capabilities=RuntimeCapabilities, idle_timeout_override=broken)
        ),
    )
    assert heartbeat._runtime_metadata_payload() == {}


def test_there_is_no_payload_without_an_adapter(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(runtime: str) -> Any:
        raise KeyError(runtime)

    install(monkeypatch, none)
    assert heartbeat._runtime_metadata_payload() == {}


# What else is said


async def test_the_live_adapter_is_asked_at_each_beat(platform: FakePlatform, loop: HeartbeatLoop) -> None:
    adapter = Adapter(600, provides_native_session=True)
    loop.adapter = adapter
    await loop.beat()
    adapter.override = None
    await loop.beat()
    first, second = (beat["runtime_metadata"] for beat in beats(platform))
    assert first == {"capabilities": {**NOTHING, "session": True}, "idle_timeout_seconds": 600}
    assert second == {"capabilities": {**NOTHING, "session": True}}


async def test_an_adapter_that_raises_later_keeps_its_last_word(
    platform: FakePlatform, loop: HeartbeatLoop
) -> None:
    adapter = Adapter(600)
    loop.adapter = adapter
    await loop.beat()
    adapter.problem = RuntimeError("broken")
    await loop.beat()
    first, second = (beat["runtime_metadata"] for beat in beats(platform))
    assert first == second


async def test_one_adapters_idle_timeout_is_not_anothers(
    platform: FakePlatform, loop: HeartbeatLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop.adapter = Adapter(600)
    await loop.beat()
    install(monkeypatch, lambda _runtime: Adapter)
    loop.adapter = None
    await loop.beat()
    assert beats(platform)[1]["runtime_metadata"] == {"capabilities": NOTHING}


async def test_details_are_added_to_the_block(platform: FakePlatform, loop: HeartbeatLoop) -> None:
    loop.extras = lambda: {"runtime": "echo", "capabilities": "not these"}
    loop.monthly_spend = 250
    await loop.beat()
    assert beats(platform)[0]["runtime_metadata"] == {"runtime": "echo", "capabilities": NOTHING}
    assert beats(platform)[0]["monthly_spend"] == 250

    def broken() -> JSONObject:
        raise ValueError

    loop.extras = broken
    assert await loop.beat() == "taken"
    assert beats(platform)[1]["runtime_metadata"] == {"capabilities": NOTHING}


async def test_a_wedged_runtime_says_why(platform: FakePlatform, loop: HeartbeatLoop) -> None:
    loop.record_error("an error")
    engine_health.mark_wedged("two stalls")
    await loop.beat()
    assert (beats(platform)[0]["runtime_state"], beats(platform)[0]["sample_error"]) == (
        "wedged",
        "two stalls",
    )
    loop.runtime_state = "stopping"
    await loop.beat()
    assert beats(platform)[1]["runtime_state"] == "stopping"


async def test_errors_are_counted_until_a_beat_is_taken(platform: FakePlatform, loop: HeartbeatLoop) -> None:
    loop.record_success()
    loop.record_error("one")
    platform.fail_next("POST", "/registry/heartbeat", 503)
    assert await loop.beat() == "failed"
    loop.record_error("two")
    loop.record_success()
    assert loop.error_rate == 0.5
    assert await loop.beat() == "taken"
    assert loop.error_rate == 0.0
    assert [(beat["error_rate"], beat["sample_error"]) for beat in beats(platform)] == [
        (0.5, "one"),
        (0.5, "two"),
    ]


# When


async def test_it_beats_at_once_and_then_every_thirty_seconds(
    platform: FakePlatform, loop: HeartbeatLoop, manual_time: ManualTime
) -> None:
    loop.start()
    loop.start()
    await until(lambda: manual_time.waited)
    assert len(beats(platform)) == 1
    assert manual_time.waited == [30.0]
    manual_time.now += 29.9
    await asyncio.sleep(0.01)
    assert len(beats(platform)) == 1
    manual_time.now += 0.1
    await until(lambda: len(beats(platform)) == 2)


async def test_an_adapter_with_its_own_heartbeat_is_only_backed_up(
    loop: HeartbeatLoop, manual_time: ManualTime
) -> None:
    loop.adapter = Adapter(provides_native_heartbeat=True)
    loop.start()
    await until(lambda: manual_time.waited)
    assert manual_time.waited == [90.0]


async def test_work_that_begins_or_ends_is_told_at_once(
    platform: FakePlatform, loop: HeartbeatLoop, manual_time: ManualTime
) -> None:
    loop.start()
    await until(lambda: manual_time.waited)
    manual_time.now += EDGE_SECONDS
    loop.active_tasks += 1
    await until(lambda: len(beats(platform)) == 2)
    loop.active_tasks += 1
    loop.current_task = "reading"
    loop.current_task = "writing"
    await asyncio.sleep(0.02)
    assert len(beats(platform)) == 2, "other changes share one beat a second"
    manual_time.now += 1
    await until(lambda: len(beats(platform)) == 3)
    loop.active_tasks -= 2
    manual_time.now += EDGE_SECONDS
    await until(lambda: len(beats(platform)) == 4)
    loop.active_tasks -= 1
    assert loop.active_tasks == 0
    assert [(beat["active_tasks"], beat["current_task"]) for beat in beats(platform)] == [
        (0, ""),
        (1, ""),
        (2, "writing"),
        (0, "writing"),
    ]


async def test_a_change_by_another_thread_wakes_the_loop(
    platform: FakePlatform, loop: HeartbeatLoop, manual_time: ManualTime
) -> None:
    loop.start()
    await until(lambda: manual_time.waited)
    manual_time.now += EDGE_SECONDS
    await asyncio.to_thread(setattr, loop, "active_tasks", 1)
    await until(lambda: len(beats(platform)) == 2)


async def test_a_platform_that_asks_for_patience_gets_it(
    platform: FakePlatform, loop: HeartbeatLoop, manual_time: ManualTime
) -> None:
    platform.fail_next("POST", "/registry/heartbeat", 429, retry_after=50)
    loop.start()
    await until(lambda: manual_time.waited)
    loop.active_tasks = 1
    await asyncio.sleep(0.02)
    assert len(beats(platform)) == 1
    manual_time.now += 50
    await until(lambda: len(beats(platform)) == 2)


# What comes back


async def test_the_answer_is_passed_on(
    platform: FakePlatform, loop: HeartbeatLoop, workspace_id: str
) -> None:
    answers: list[HeartbeatAnswer] = []
    loop.on_answer = answers.append
    platform.pause(workspace_id)
    await loop.beat()
    assert (answers[0].paused, answers[0].workspace_status) == (True, "paused")

    def broken(_answer: HeartbeatAnswer) -> None:
        raise ValueError

    loop.on_answer = broken
    assert await loop.beat() == "taken"


async def test_a_wrong_clock_is_warned_of_once(
    platform: FakePlatform,
    loop: HeartbeatLoop,
    manual_time: ManualTime,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert abs(EPOCH - platform.clock.time()) > 60
    for _ in range(2):
        await loop.beat()
    assert [record.levelno for record in caplog.records if "clock" in record.message] == [logging.WARNING]


async def test_a_removed_workspace_ends_the_loop(
    platform: FakePlatform, loop: HeartbeatLoop, workspace_id: str
) -> None:
    removed: list[bool] = []
    loop.on_removed = lambda: removed.append(True)
    platform.delete(workspace_id)
    loop.start()
    await until(lambda: loop._task is not None and loop._task.done())
    assert removed == [True]


@pytest.mark.parametrize("status", [401, 403, 404, 500])
async def test_other_refusals_do_not_end_it(platform: FakePlatform, loop: HeartbeatLoop, status: int) -> None:
    loop.on_removed = pytest.fail
    platform.fail_next("POST", "/registry/heartbeat", status)
    assert await loop.beat() == "failed"
    assert await loop.beat() == "taken"


async def test_after_ten_failures_the_client_is_rebuilt(
    platform: FakePlatform, loop: HeartbeatLoop, registered: PlatformClient
) -> None:
    before = registered._http._pool
    platform.drop_next("POST", "/registry/heartbeat", times=10)
    for _ in range(9):
        assert await loop.beat() == "failed"
    assert registered._http._pool is before
    assert await loop.beat() == "failed"
    assert registered._http._pool is None
    assert await loop.beat() == "taken"


async def test_a_loop_that_crashes_starts_again(
    platform: FakePlatform,
    loop: HeartbeatLoop,
    registered: PlatformClient,
    manual_time: ManualTime,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = registered.heartbeat
    crashes = [ZeroDivisionError(), ZeroDivisionError()]

    async def crash(report: Any) -> HeartbeatAnswer:
        if crashes:
            raise crashes.pop()
        return await real(report)

    monkeypatch.setattr(registered, "heartbeat", crash)
    loop.start()
    await until(lambda: len(beats(platform)) == 1)
    assert manual_time.slept == [1.0, 1.0]


@pytest.mark.parametrize("problem", [OSError("away"), ValueError("a mistake")])
async def test_what_follows_a_beat_runs_beside_the_loop(
    loop: HeartbeatLoop, manual_time: ManualTime, problem: Exception
) -> None:
    began: list[float] = []
    may_end = asyncio.Event()

    async def follow_up() -> None:
        began.append(manual_time.now)
        await may_end.wait()
        raise problem

    loop.after_beat = follow_up
    for _ in range(3):
        assert await loop.beat() == "taken"
        await asyncio.sleep(0)
        manual_time.now += 1
    assert len(began) == 1
    may_end.set()
    await until(lambda: loop._follow_up is not None and loop._follow_up.done())
    await loop.beat()
    await until(lambda: len(began) == 2)


async def test_by_the_real_clock(
    platform: FakePlatform, registered: PlatformClient, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "HEARTBEAT_INTERVAL", 0.02)
    loop = HeartbeatLoop(url, registered.workspace_id, adapter=Adapter())
    loop.start()
    await until(lambda: len(beats(platform)) >= 3)
    await loop.stop()
    seen = len(beats(platform))
    await asyncio.sleep(0.05)
    assert len(beats(platform)) == seen
    loop.runtime_state = "stopping"
    assert await loop.beat() == "taken", "the last word is said after the loop has ended"
    await loop.stop()


async def test_the_public_form_needs_two_arguments(url: str, workspace_id: str) -> None:
    loop = HeartbeatLoop(url, workspace_id)
    assert (loop.active_tasks, loop.current_task, loop.error_rate) == (0, "", 0.0)
    await loop.stop()
    assert (heartbeat.HEARTBEAT_INTERVAL, heartbeat.MAX_CONSECUTIVE_FAILURES) == (30, 10)
    assert (heartbeat.MAX_SEEN_DELEGATION_IDS, heartbeat.SELF_MESSAGE_COOLDOWN) == (200, 60)
