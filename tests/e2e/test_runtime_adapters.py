"""An adapter file that was written for the original runs as it is: it answers, is cancelled, is restored."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from molecule_runtime.testing.probe import Probe, Version, body_of, state_of
from scripts.live_platform import LivePlatform
from tests.e2e.workspaces import CONFIG, SECONDS, Member, member, text_of, until, with_modules

pytestmark = pytest.mark.timeout(60)

ROOT = Path(__file__).parents[2]
VERSIONS: tuple[Version, ...] = ("1.0", "0.3")


@pytest.fixture(scope="module")
def original(live: LivePlatform, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Member]:
    folder = tmp_path_factory.mktemp("original")
    variables = {
        "ADAPTER_MODULE": "tests.e2e.original_adapter",
        "PYTHONPATH": with_modules(ROOT),
        "CANCELLED": str(folder / "cancelled.txt"),
    }
    config = CONFIG.replace("runtime: echo", "runtime: original")
    with member(live, folder / "workspace", config, **variables) as made:
        yield made


@pytest.mark.parametrize("version", VERSIONS)
def test_it_answers_in_both_versions(original: Member, version: Version) -> None:
    probe = Probe(original.url)
    result = probe.result(version, "send", {"message": probe.message(version, "hi")})
    kind, message = body_of(result)
    assert (kind, message["parts"][0]["text"][:9]) == ("message", "hi in s-1")
    events = list(probe.events(version, "stream", {"message": probe.message(version, "hi")}))
    kind, last = body_of(events[-1])
    assert (kind, state_of(last)) == ("status", "completed")
    assert last["status"]["message"]["parts"][0]["text"][:9] == "hi in s-1"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_cancel_reaches_its_executor(original: Member, version: Version) -> None:
    probe = Probe(original.url)
    events = probe.events(version, "stream", {"message": probe.message(version, "hold")})
    _, task = body_of(next(events))
    probe.result(version, "cancel", {"id": task["id"]})
    assert [state_of(body_of(event)[1]) for event in events][-1] == "canceled"
    cancelled = Path(original.variables["CANCELLED"])
    until(lambda: cancelled.exists() and task["id"] in cancelled.read_text().splitlines())


@pytest.mark.slow  # the message comes again after a pause of the platform
def test_after_a_stop_in_a_turn_its_session_is_there_when_its_executor_is_made(original: Member) -> None:
    """The message whose turn was cut comes again, and is answered in the restored session."""
    answers = list[Any]()
    sending = threading.Thread(target=lambda: answers.append(original.send("wait")))
    sending.start()
    until(lambda: original.row()["active_tasks"] == 1)
    assert original.end() == 0
    snapshot = original.folder / ".agent_snapshot.json"
    assert snapshot.exists()
    original.start()
    sending.join(SECONDS)
    assert [text_of(answer) for answer in answers] == ["wait in s-1, restored s-1"]
    assert not snapshot.exists()
