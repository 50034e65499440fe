"""The demo organisation: three real agents that pass work to one another."""

import importlib.util
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import pytest

from molecule_platform.cli import demo
from molecule_platform.settings import load

Molecule = Callable[..., Any]
ADMIN_TOKEN = "token-of-the-operator"
DEADLINE_SECONDS = 30.0
# When the lead gives up on a colleague.
GIVES_UP_SECONDS = 20.0


def until(condition: Callable[[], Any], what: str) -> Any:
    """Wait for something to become true, or fail with what it was."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {DEADLINE_SECONDS:g} s: {what}")


class Organisation:
    """A running demo as an operator sees it."""

    def __init__(self, molecule: Molecule, platform: Any) -> None:
        self._molecule = molecule
        self.platform = platform
        self._here = ("--url", platform.url, "--data-dir", str(platform.data_dir), "--token", ADMIN_TOKEN)

    def molecule(self, *arguments: str) -> Any:
        return self._molecule(*arguments, *self._here)

    def statuses(self) -> dict[str, str]:
        rows = self.molecule("workspace", "list", "--json").json()
        return {row["name"]: row["status"] for row in rows}

    def wait_until_online(self) -> None:
        until(lambda: set(self.statuses().values()) == {"online"}, "every agent is online")

    def agents(self) -> dict[str, int]:
        """The running agents: name and process id."""
        named = {name_of(child): child.pid for child in psutil.Process(self.platform.process.pid).children()}
        return {name: pid for name, pid in named.items() if name}


def name_of(process: psutil.Process) -> str:
    try:
        return Path(process.cmdline()[-1]).stem
    except (psutil.Error, IndexError):
        return ""


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


@pytest.fixture(scope="module")
def demo_platform(start: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with start(tmp_path_factory.mktemp("demo") / "data", "--demo", ADMIN_TOKEN=ADMIN_TOKEN) as platform:
        yield platform


@pytest.fixture
def organisation(molecule: Molecule, demo_platform: Any) -> Organisation:
    made = Organisation(molecule, demo_platform)
    made.wait_until_online()
    return made


def test_a_question_to_the_lead_is_answered_with_facts_in_sentences(organisation: Organisation) -> None:
    began = time.monotonic()
    answered = organisation.molecule("send", "lead", "Tell me about tea, please")
    assert time.monotonic() - began < GIVES_UP_SECONDS
    assert answered.code == 0
    assert answered.out.startswith("About tea\n")
    assert "Camellia sinensis" in answered.out


def test_the_answer_comes_with_its_message_as_json(organisation: Organisation) -> None:
    told = organisation.molecule("send", "lead", "And about bees?", "--json").json()
    assert told["status"] == "answered"
    assert "dancing" in told["text"]


def test_a_question_beyond_the_notes_is_answered_too(organisation: Organisation) -> None:
    assert "They cover agents, message queues" in organisation.molecule("send", "lead", "42?").out


def test_one_member_has_a_door_and_two_fetch_their_messages(organisation: Organisation) -> None:
    rows = organisation.molecule("workspace", "list", "--json").json()
    modes = {row["name"]: row["delivery_mode"] for row in rows}
    assert modes == {"lead": "poll", "researcher": "push", "writer": "poll"}


def test_no_agent_can_see_the_administrators_token(organisation: Organisation) -> None:
    agents = organisation.agents()
    assert agents.keys() == {"lead", "researcher", "writer"}
    for pid in agents.values():
        assert ADMIN_TOKEN not in psutil.Process(pid).environ().values()


@pytest.mark.slow  # an agent notices a pause at its next look at the state, every two seconds
def test_a_paused_agent_ends_and_a_resumed_one_is_started_again(organisation: Organisation) -> None:
    assert organisation.molecule("workspace", "pause", "writer").code == 0
    until(lambda: "writer" not in organisation.agents(), "the paused agent ends")
    assert "the writer is paused" in organisation.molecule("send", "lead", "tea?").out
    assert organisation.molecule("workspace", "resume", "writer").code == 0
    organisation.wait_until_online()
    assert organisation.molecule("send", "lead", "tea?").out.startswith("About tea")


def test_an_agent_that_dies_is_started_again(organisation: Organisation) -> None:
    before = organisation.agents()["researcher"]
    os.kill(before, signal.SIGKILL)
    until(lambda: organisation.agents().get("researcher", before) != before, "the researcher is back")
    assert not alive(before)


@pytest.mark.slow  # the platform and its three agents start twice
@pytest.mark.timeout(120)
def test_stopped_agents_are_gone_and_the_next_start_continues_with_them(
    start: Callable[..., Any], molecule: Molecule, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    with start(data, "--demo", ADMIN_TOKEN=ADMIN_TOKEN) as platform:
        first = Organisation(molecule, platform)
        first.wait_until_online()
        agents, ids = first.agents(), json.loads((data / "demo.json").read_text())
        assert platform.stop() == 0
        assert not any(alive(pid) for pid in agents.values())
    with start(data, "--demo", ADMIN_TOKEN=ADMIN_TOKEN) as platform:
        second = Organisation(molecule, platform)
        second.wait_until_online()
        assert json.loads((data / "demo.json").read_text()) == ids
        assert second.statuses().keys() == {"lead", "researcher", "writer"}
        agents = second.agents()
        platform.process.kill()
        until(lambda: not any(alive(pid) for pid in agents.values()), "agents end with a killed platform")


@pytest.fixture
def members(platform: Any, tmp_path: Path) -> demo.Demo:
    """A demo on the running platform that remembers in a folder of its own."""
    token = (platform.data_dir / "admin.token").read_text()
    settings, _warnings = load({"MOLECULE_DATA_DIR": tmp_path}, {"ADMIN_TOKEN": token}, {})
    return demo.Demo(settings, platform.url)


def test_the_members_are_created_once_and_remembered(members: demo.Demo) -> None:
    first = members.members()
    assert [member.name for member in first] == ["lead", "researcher", "writer"]
    assert [member.id for member in members.members()] == [member.id for member in first]


def test_a_deleted_member_stays_away_and_a_deleted_demo_is_made_anew(
    members: demo.Demo, at_house: Molecule
) -> None:
    lead, _researcher, writer = members.members()
    assert at_house("workspace", "delete", writer.id, "--yes").code == 0
    assert [member.name for member in members.members()] == ["lead", "researcher"]
    assert at_house("workspace", "delete", lead.id, "--yes").code == 0
    fresh = members.members()
    assert [member.name for member in fresh] == ["lead", "researcher", "writer"]
    assert fresh[0].id != lead.id


def test_a_new_member_gets_its_token_and_one_that_lost_it_may_enrol_again(members: demo.Demo) -> None:
    new = members.members()[0]
    assert members.environment(new, {})["MOLECULE_WORKSPACE_TOKEN"] == new.new_token
    forgetful = members.members()[0]
    given = members.environment(forgetful, {})
    assert "MOLECULE_WORKSPACE_TOKEN" not in given
    assert len(given["MOLECULE_ENROLMENT_TOKEN"]) >= 43


def test_an_agent_inherits_no_setting_of_the_platform(members: demo.Demo) -> None:
    environ = {"ADMIN_TOKEN": "x", "DATABASE_URL": "x", "MOLECULE_DATA_DIR": "x", "PATH": "/bin"}
    given = members.environment(members.members()[0], environ)
    assert given["PATH"] == "/bin"
    assert not {"ADMIN_TOKEN", "DATABASE_URL", "MOLECULE_DATA_DIR"} & given.keys()


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"demo_{name}", demo.SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("question", "topic"),
    [
        ("Tell me about TEA!", "tea"),
        ("what is a molecule?", "molecules"),
        ("why a message queue", "message queues"),
        ("Is a bee an agent?", "agents"),
        ("steal my teapot", None),
        ("", None),
    ],
)
def test_the_researcher_finds_the_topic(question: str, topic: str | None) -> None:
    assert script("researcher").find_topic(question) == topic


def test_the_writer_makes_sentences() -> None:
    assert (
        script("writer").compose("tea", ["It is warm", "Is it good?"])
        == "About tea\n\nIt is warm. Is it good?"
    )
