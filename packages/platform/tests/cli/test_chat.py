"""`molecule chat`: through a pipe, and in a terminal with a person in front of it."""

import contextlib
import json
import os
import pty
import re
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

from packages.platform.tests.cli.conftest import Platform, clean
from packages.platform.tests.cli.test_mail_commands import Agent, piece

Molecule = Callable[..., Any]
SECONDS = 30.0
_STEERING = re.compile(r"\x1b(\[[0-9;?]*[a-zA-Z]|\][^\x07]*\x07|[=>])|\r")


@pytest.fixture
def agent(at_house: Molecule, worker: Callable[..., Any]) -> Agent:
    return Agent(at_house, worker)


def test_each_line_of_a_pipe_is_a_message_of_one_conversation(at_house: Molecule, agent: Agent) -> None:
    working = agent.at_work(piece("one, "), piece("two", append=True), ("ack", {}))
    first = at_house("chat", agent.name, "--context", "c-1", stdin="count\n\n")
    working.join(SECONDS)
    assert (first.code, first.out) == (0, "one, two\n")
    taken = at_house("message", "show", agent.message, "--json").json()
    assert taken["context_id"] == "c-1"


def test_with_json_each_message_is_a_line_and_a_failure_is_told_at_the_end(
    at_house: Molecule, agent: Agent
) -> None:
    working = agent.at_work(("fail", {"error": "no such file", "retryable": False}))
    done = at_house("chat", agent.name, "--json", stdin="read\n")
    working.join(SECONDS)
    [line] = done.out.splitlines()
    assert (json.loads(line)["status"], done.code) == ("failed", 1)
    plain = agent.at_work(("fail", {"error": "no such file", "retryable": False}))
    told = at_house("chat", agent.name, stdin="read\n")
    plain.join(SECONDS)
    assert (told.code, told.out, "no such file" in told.err) == (1, "", True)


def test_a_question_is_answered_by_the_next_line(at_house: Molecule, agent: Agent) -> None:
    def work() -> None:
        agent.take()
        agent.say("answer", text="Which city?", state="input-required")
        agent.take()
        agent.say("answer", text="Sunny in Rome.")

    working = threading.Thread(target=work)
    working.start()
    done = at_house("chat", agent.name, "--json", stdin="weather\nRome\n")
    working.join(SECONDS)
    seen = [json.loads(line) for line in done.out.splitlines()]
    assert [one["text"] for one in seen] == ["Which city?", "Sunny in Rome."]
    assert seen[0]["task_id"] == seen[1]["task_id"]
    assert seen[0]["context_id"] == seen[1]["context_id"]


class Terminal:
    """The program in a terminal of 80 columns; what is on the screen, as one text."""

    def __init__(self, platform: Platform, *arguments: str) -> None:
        self._master, slave = pty.openpty()
        environ = clean() | {
            "MOLECULE_PLATFORM_URL": platform.url,
            "MOLECULE_DATA_DIR": str(platform.data_dir),
            "TERM": "xterm",
            "COLUMNS": "80",
        }
        command = [sys.executable, "-m", "molecule_platform.cli.main", *arguments]
        # A session of its own, whose terminal this is: so Ctrl-C reaches the program as a signal.
        self.process = subprocess.Popen(
            ["setsid", "--ctty", "--wait", *command], stdin=slave, stdout=slave, stderr=slave, env=environ
        )
        os.close(slave)
        self.shown = ""
        self._place = 0

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def until(self, words: str) -> str:
        """Read until the words have come; what came up to them, since the words of the last time."""
        deadline, before = time.monotonic() + SECONDS, self._place
        while words not in self.shown[before:]:
            assert time.monotonic() < deadline, f"{words!r} did not come: {self.shown[before:]!r}"
            if select.select([self._master], [], [], 0.2)[0] and not self._read():
                break
        self._place = self.shown.index(words, before) + len(words)
        return self.shown[before : self._place]

    def rest(self, code: int = 0) -> str:
        """Read to the end of the program."""
        while self._read():
            pass
        assert self.process.wait(SECONDS) == code
        return self.shown[self._place :]

    def _read(self) -> bool:
        try:
            some = os.read(self._master, 65536)
        except OSError:
            return False
        self.shown = self.shown + _STEERING.sub("", some.decode(errors="replace"))
        return bool(some)

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()
        os.close(self._master)


@pytest.fixture
def terminal(platform: Platform) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def start(*arguments: str) -> Terminal:
        opened.append(Terminal(platform, *arguments))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


def stream(agent: Agent, words: str, **flags: bool) -> None:
    verb, body = piece(words, **flags)
    agent.say(verb, **body)


@contextlib.contextmanager
def chatting(terminal: Callable[..., Terminal], agent: Agent) -> Generator[Terminal]:
    person = terminal("chat", agent.name)
    person.until("you: ")
    yield person
    person.type("\x04")
    assert f"chat {agent.name} --context" in person.rest()


def test_in_a_terminal_the_answer_grows_and_a_question_is_shown_as_one(
    terminal: Callable[..., Terminal], agent: Agent
) -> None:
    with chatting(terminal, agent) as person:
        person.type("weather?\n")
        agent.take()
        agent.say("progress", text="Looking at the sky")
        person.until("Looking at the sky")
        stream(agent, "It is ")
        person.until(f"{agent.name}: It is ")
        stream(agent, "sunny", append=True)
        person.until("sunny")
        agent.say("answer", text="In which city are you?", state="input-required")
        assert f"{agent.name} asks: In which city are you?" in person.until("answer: ")
        person.type("Rome\n")
        agent.take()
        agent.say("answer", text="Then it rains.")
        assert f"{agent.name}: Then it rains.\n" in person.until("you: ")
    assert person.shown.count("It is") == 1


def test_ctrl_c_stops_the_answer_and_the_conversation_goes_on(
    terminal: Callable[..., Terminal], agent: Agent, at_house: Molecule
) -> None:
    with chatting(terminal, agent) as person:
        person.type("count\n")
        agent.take()
        stream(agent, "one, two")
        person.until("one, two")
        person.type("\x03")
        assert "Traceback" not in person.until("you: ")
        assert at_house("message", "show", agent.message, "--json").code == 1
        person.type("and now?\n")
        agent.take()
        agent.say("answer", text="All good.")
        person.until("All good.")
        person.until("you: ")
    assert "stopped" in person.shown


def test_ctrl_c_leaves_a_message_alone_that_was_sent_by_itself(
    terminal: Callable[..., Terminal], agent: Agent, at_house: Molecule
) -> None:
    person = terminal("send", agent.name, "count", "--wait", "30")
    agent.take()
    stream(agent, "one, two")
    person.until("one, two")
    person.type("\x03")
    told = person.rest(code=1)
    assert f"the message is safe: `molecule message watch {agent.message}" in told.replace("\n", "")
    assert "nothing was changed" not in told
    assert at_house("message", "show", agent.message, "--json").json()["status"] == "leased"


def test_in_a_terminal_what_an_agent_says_about_its_work_is_one_line_that_changes(
    terminal: Callable[..., Terminal], agent: Agent
) -> None:
    person = terminal("send", agent.name, "write", "--wait", "30")
    agent.take()
    words = ""
    for word in ("Once ", "upon ", "a ", "time"):
        words += word
        agent.say("progress", text=words)
        person.until(words.strip())
    agent.say("answer", text="The end.")
    person.rest()
    # What is left on the screen when the line that changed is wiped out.
    assert person.shown.rstrip().endswith("The end.")
    assert person.shown.count("\n") < 15
