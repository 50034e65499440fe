"""What a workspace process tells its platform of itself, as the SDK's fake platform got it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from molecule_agent.testing import FakePlatform
from molecule_runtime.testing.probe import Probe
from tests.e2e.workspaces import SECONDS, RuntimeProcess, until, with_modules

ROOT = Path(__file__).parents[2]
FLAGS = (
    "heartbeat",
    "scheduler",
    "session",
    "status_mgmt",
    "retry",
    "activity_decoration",
    "channel_dispatch",
)
NOTHING = dict.fromkeys(FLAGS, False)


class Beating:
    """A process whose adapter asks for as much silence as a file says, and its platform."""

    def __init__(self, platform: FakePlatform, process: RuntimeProcess) -> None:
        self.platform = platform
        self.process = process
        self.idle = process.folder / "idle.txt"

    def beats(self) -> list[Any]:
        """The bodies of all heartbeats."""
        return [one.json for one in self.platform.requests if one.path == "/registry/heartbeat"]

    def block(self, override: str) -> Any:
        """What the beat says of the adapter that a message brings about, while the file says this."""
        self.idle.write_text(override)
        before = len(self.beats())
        probe = Probe(self.process.url)
        probe.result("1.0", "send", {"message": probe.message("1.0", "hello")})

        def is_over() -> bool:
            active = [beat["active_tasks"] for beat in self.beats()[before:]]
            return 1 in active and active[-1] == 0

        until(is_over)
        told = self.beats()[-1]["runtime_metadata"]
        return {name: told[name] for name in ("capabilities", "idle_timeout_seconds") if name in told}


@pytest.fixture(scope="module")
def beating(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beating]:
    platform = FakePlatform()
    folder = tmp_path_factory.mktemp("beating")
    variables = {
        "WORKSPACE_ID": platform.create_workspace("beating"),
        "ADAPTER_MODULE": "tests.e2e.recording_adapter",
        "PYTHONPATH": with_modules(ROOT),
        "TURN_LINES": str(folder / "lines.txt"),
    }
    with platform.serve() as url:
        process = RuntimeProcess(folder, PLATFORM_URL=url, **variables)
        try:
            process.start()
            yield Beating(platform, process)
        finally:
            process.close()


def test_the_first_beat_comes_at_once_and_says_what_the_contract_lists(beating: Beating) -> None:
    until(beating.beats)
    first = dict(beating.beats()[0])
    told = first.pop("runtime_metadata")
    assert first.pop("uptime_seconds") < SECONDS
    assert first == {
        "workspace_id": beating.process.variables["WORKSPACE_ID"],
        "error_rate": 0.0,
        "sample_error": "",
        "active_tasks": 0,
        "current_task": "",
    }
    assert (told["capabilities"], told["runtime"]) == (NOTHING, "echo")
    assert "idle_timeout_seconds" not in told


def test_the_adapter_is_asked_for_its_idle_timeout_at_each_beat(beating: Beating) -> None:
    assert beating.block("600") == {"capabilities": NOTHING, "idle_timeout_seconds": 600}
    assert beating.block("0") == {"capabilities": NOTHING}
    assert beating.block("-1") == {"capabilities": NOTHING}
    assert beating.block("60") == {"capabilities": NOTHING, "idle_timeout_seconds": 60}
    # It raises now: the beat goes out all the same, with what it said last.
    assert beating.block("no number") == {"capabilities": NOTHING, "idle_timeout_seconds": 60}
    beating.idle.unlink()


def test_anybody_may_read_the_capabilities_of_the_process(beating: Beating) -> None:
    told = requests.get(f"{beating.process.url}capabilities", timeout=SECONDS).json()
    assert (told["runtime"], told["capabilities"], told["idle_timeout_seconds"]) == ("echo", NOTHING, None)
