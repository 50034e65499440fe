"""The commands around messages: answers as they come, inboxes, tasks and dead letters."""

import json
import threading
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
import requests

Molecule = Callable[..., Any]
Worker = Callable[..., Any]


class Agent:
    """A workspace and the worker behind it."""

    def __init__(self, molecule: Molecule, worker: Worker) -> None:
        self.name = f"w-{uuid4()}"
        created = molecule("workspace", "create", self.name, "--not-claimable", "--json").json()
        self.id, self.token = created["id"], created["connection"]["auth_token"]
        self._worker = worker
        self._lease: dict[str, Any] = {}
        self.message = ""

    def take(self) -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if items := self._worker(self.id, self.token, "lease", wait=5, limit=1)["messages"]:
                self._lease = {"lease_token": items[0]["lease"]["token"]}
                self.message = items[0]["message_id"]
                return
        raise AssertionError("no mail came")

    def say(self, verb: str, **body: Any) -> None:
        self._worker(self.id, self.token, f"{self.message}/{verb}", **self._lease, **body)

    def at_work(self, *said: tuple[str, dict[str, Any]]) -> threading.Thread:
        """Take the next message in the background, and say these things to it."""

        def work() -> None:
            self.take()
            for verb, body in said:
                self.say(verb, **body)

        thread = threading.Thread(target=work)
        thread.start()
        return thread


@pytest.fixture
def agent(at_house: Molecule, worker: Worker) -> Agent:
    return Agent(at_house, worker)


def piece(words: str, **flags: bool) -> tuple[str, dict[str, Any]]:
    return "progress", {"artifact": {"artifactId": "a", "parts": [{"text": words}], **flags}}


def test_an_answer_is_printed_in_the_pieces_it_comes_in_and_once(at_house: Molecule, agent: Agent) -> None:
    working = agent.at_work(
        ("progress", {"text": "thinking"}),
        piece("one, "),
        piece("two", append=True),
        ("answer", {"text": "That is all."}),
    )
    sent = at_house("send", agent.name, "count", "--wait", "30")
    working.join(30)
    assert (sent.code, sent.out) == (0, "one, two\nThat is all.\n")


def test_an_artifact_that_is_sent_anew_is_not_printed_twice(at_house: Molecule, agent: Agent) -> None:
    working = agent.at_work(
        piece("one, "), piece("one, two, "), piece("three", append=True), piece("four"), ("ack", {})
    )
    sent = at_house("send", agent.name, "count", "--wait", "30")
    working.join(30)
    assert (sent.code, sent.out) == (0, "one, two, three\nfour\n")


def test_what_was_said_before_a_message_is_shown_with_it(at_house: Molecule, agent: Agent) -> None:
    for words in ("tea?", "coffee?"):
        working = agent.at_work(("answer", {"text": f"{words} Yes."}))
        at_house("send", agent.name, words, "--wait", "30", "--context", "drinks")
        working.join(30)
    shown = at_house("message", "show", agent.message, "--history").out.splitlines()
    assert [line.partition(" ")[2] for line in shown[:2]] == ["user: tea?", "agent: tea? Yes."]
    assert shown[2] == "coffee? Yes."


def test_with_json_only_the_whole_message_is_printed(at_house: Molecule, agent: Agent) -> None:
    working = agent.at_work(piece("one"), ("answer", {"text": "done"}))
    sent = at_house("send", agent.name, "count", "--wait", "30", "--json")
    working.join(30)
    assert (sent.json()["status"], sent.json()["text"]) == ("answered", "done\none")


def test_a_task_that_waits_for_more_goes_on_with_the_next_message(at_house: Molecule, agent: Agent) -> None:
    working = agent.at_work(("answer", {"text": "where to?", "state": "input-required"}))
    sent = at_house("send", agent.name, "book", "--wait", "30")
    working.join(30)
    assert sent.out.startswith("where to?\n")
    assert f"--task {agent.message}" in sent.out
    task = agent.message
    working = agent.at_work(("answer", {"text": "booked"}))
    sent = at_house("send", agent.name, "Rome", "--wait", "30", "--task", task)
    working.join(30)
    assert sent.out == "booked\n"
    listed = at_house("task", "list", agent.name, "--json").json()["tasks"]
    assert [(one["id"], one["status"]["state"]) for one in listed] == [(task, "TASK_STATE_COMPLETED")]


def test_a_failure_says_why_and_how_to_try_again(at_house: Molecule, agent: Agent) -> None:
    working = agent.at_work(("fail", {"error": "no such file", "retryable": False}))
    sent = at_house("send", agent.name, "read", "--wait", "30")
    working.join(30)
    assert (sent.code, sent.out) == (1, "")
    assert "no such file" in sent.err
    assert f"dead-letter redrive {agent.message}" in sent.err
    assert "no such file" in at_house("dead-letter", "list", agent.name).out
    assert "no such file" in at_house("inbox", "list", agent.name, "--dead").out
    again = at_house("dead-letter", "redrive", agent.message)
    assert "1 message will be tried again" in again.out
    assert "No dead letters" in at_house("dead-letter", "list", agent.name).out
    working = agent.at_work(("answer", {"text": "found"}))
    watched = at_house("message", "watch", agent.message)
    working.join(30)
    assert (watched.code, watched.out) == (0, "found\n")


def test_dead_letters_of_all_workspaces_are_listed_together(
    at_house: Molecule, agent: Agent, fail: Callable[[str, str], str]
) -> None:
    at_house("send", agent.name, "read", "--no-wait")
    dead = fail(agent.id, agent.token)
    assert dead in [row["id"] for row in at_house("dead-letter", "list", "--json").json()]


def test_an_empty_inbox_teaches_the_next_step(at_house: Molecule, agent: Agent) -> None:
    assert f"send {agent.name}" in at_house("inbox", "list", agent.name).out
    assert f"send {agent.name}" in at_house("task", "list", agent.name).out
    assert f"send {agent.name}" in at_house("message", "list", agent.name).out


def test_an_inbox_shows_what_was_said_without_taking_it(at_house: Molecule, agent: Agent) -> None:
    sent = at_house("send", agent.name, "a long story", "--no-wait", "--json").json()["id"]
    for _ in range(2):
        assert "1 waiting, 0 in work" in at_house("inbox", "list", agent.name).out
    assert at_house("inbox", "show", agent.name, sent).out.endswith("\na long story\n")
    missing = at_house("inbox", "show", agent.name, "nothing")
    assert (missing.code, "message show nothing" in missing.err) == (1, True)


def test_a_message_called_off_is_over_for_both(at_house: Molecule, agent: Agent) -> None:
    sent = at_house("send", agent.name, "work", "--no-wait", "--json").json()["id"]
    assert "called off" in at_house("message", "cancel", sent, "--reason", "enough").out
    again = at_house("message", "cancel", sent, "--json")
    assert (again.code, json.loads(again.err)["code"]) == (1, "not-cancelable")
    shown = at_house("message", "show", sent, "--history")
    assert (shown.code, "cancelled" in shown.err) == (1, True)


def test_a_task_is_watched_to_its_end_and_a_failed_one_is_a_failure(at_house: Molecule, agent: Agent) -> None:
    first = at_house("send", agent.name, "work", "--no-wait", "--json").json()["id"]
    working = agent.at_work(piece("half"), ("answer", {"text": "whole"}))
    watched = at_house("task", "watch", agent.name, first)
    working.join(30)
    assert (watched.code, watched.out) == (0, "half\nwhole\n")
    second = at_house("send", agent.name, "more", "--no-wait", "--json").json()["id"]
    assert "canceled" in at_house("task", "cancel", agent.name, second).out
    watched = at_house("task", "watch", agent.name, second)
    assert (watched.code, "canceled" in watched.err) == (1, True)
    lines = at_house("task", "watch", agent.name, first, "--json").out.splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["task", "status", "artifact", "status"]


@pytest.mark.parametrize("how", [(), ("--json",)])
def test_watching_what_was_called_off_is_a_failure_in_either_form(
    at_house: Molecule, agent: Agent, how: tuple[str, ...]
) -> None:
    sent = at_house("send", agent.name, "work", "--no-wait", "--json").json()["id"]
    at_house("task", "cancel", agent.name, sent)
    assert at_house("task", "watch", agent.name, sent, *how).code == 1
    assert at_house("message", "watch", sent, *how).code == 1


def test_an_unknown_task_leads_to_those_there_are(at_house: Molecule, agent: Agent) -> None:
    failed = at_house("task", "show", agent.name, "nothing")
    assert failed.code == 1
    assert f"task list {agent.name}" in failed.err


def delegate_as(agent: Agent, colleague: Agent, url: str) -> None:
    """The agent asks another for a piece of work, with its own token."""
    path, headers = f"/workspaces/{agent.id}/delegations", {"Authorization": f"Bearer {agent.token}"}
    body = {"target_id": colleague.id, "task": "the numbers"}
    requests.post(url + path, json=body, headers=headers, timeout=20).raise_for_status()


def test_the_tree_of_a_message_shows_who_asked_whom_and_what_failed(
    at_house: Molecule, agent: Agent, worker: Worker, platform: Any
) -> None:
    colleague = Agent(at_house, worker)
    sent = at_house("send", agent.name, "ask them", "--no-wait", "--json").json()["id"]
    agent.take()
    delegate_as(agent, colleague, platform.url)
    colleague.take()
    colleague.say("fail", error="the books are closed", retryable=False)
    agent.say("answer", text="none")
    shown = at_house("message", "tree", sent)
    assert shown.code == 0
    first, second, third = (line.strip(" ─└│├") for line in shown.out.splitlines())
    assert first.startswith(f"admin → {agent.name}  answered  waited ")
    assert second.startswith(f"{agent.name} → {colleague.name}  failed  waited ")
    assert third == "the books are closed"


def test_a_conversation_that_a_message_began_can_be_gone_on_with(at_house: Molecule, agent: Agent) -> None:
    first = at_house("send", agent.name, "tea?", "--no-wait", "--json").json()
    agent.take()
    agent.say("answer", text="Yes.")
    second = at_house(
        "send", agent.name, "sugar?", "--context", first["context_id"], "--no-wait", "--json"
    ).json()
    assert second["context_id"] == first["context_id"] != first["id"]
