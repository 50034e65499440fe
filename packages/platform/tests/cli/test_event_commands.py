"""What happened and what happens, from the command line: lists, streams, cuts and Ctrl-C."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest

Molecule = Callable[..., Any]
STOP_SECONDS = 30.0
STREAM = {"Content-Type": "text/event-stream"}


@pytest.fixture
def workspace(at_house: Molecule) -> str:
    name = f"w-{uuid4()}"
    assert at_house("workspace", "create", name).code == 0
    return name


def block(number: int) -> str:
    event = {"id": str(number), "event": "WORKSPACE_ONLINE", "workspace_id": "", "payload": {"url": "x"}}
    event |= {"timestamp": "2026-05-02T10:15:30.123Z"}
    return f"id: {number}\nevent: WORKSPACE_ONLINE\ndata: {json.dumps(event)}\n\n"


@contextmanager
def program(platform: Any, *arguments: str) -> Generator[subprocess.Popen[str]]:
    """The program as a process of its own, which can be interrupted."""
    here = ("--url", platform.url, "--data-dir", str(platform.data_dir))
    command = [sys.executable, "-m", "molecule_platform.cli.main", *arguments, *here]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def lines_of(process: subprocess.Popen[str]) -> Generator[dict[str, Any]]:
    assert process.stdout is not None
    for line in process.stdout:
        yield json.loads(line)


def interrupt(process: subprocess.Popen[str]) -> tuple[int, str]:
    process.send_signal(signal.SIGINT)
    code = process.wait(STOP_SECONDS)
    assert process.stderr is not None
    return code, process.stderr.read()


def test_events_are_listed_with_names_and_filtered(at_house: Molecule, workspace: str) -> None:
    at_house("workspace", "update", workspace, "--role", "is new here")
    listed = at_house("event", "list", workspace).out
    assert "WORKSPACE_UPDATED" in listed
    assert workspace in listed
    assert "role=is new here" in listed
    rows = at_house("event", "list", workspace, "--type", "WORKSPACE_UPDATED", "--json").json()
    assert [row["event_type"] for row in rows] == ["WORKSPACE_UPDATED"]
    assert at_house("event", "list", workspace, "--since", rows[0]["id"], "--json").json() == []
    assert "Nothing like that happened" in at_house("event", "list", workspace, "--type", "NONE").out


def test_events_of_many_workspaces_are_named_by_one_list(at_house: Molecule) -> None:
    names = [f"m-{uuid4()}" for _number in range(12)]
    for name in names:
        at_house("workspace", "create", name)
    listed = at_house("event", "list", "--limit", "60").out
    assert all(name in listed for name in names)


def test_watching_prints_what_happens_until_ctrl_c(at_house: Molecule, platform: Any, workspace: str) -> None:
    with program(platform, "event", "watch", workspace, "--since", "0", "--json") as process:
        events = lines_of(process)
        assert next(events)["event"] == "WORKSPACE_AWAITING_AGENT"
        at_house("workspace", "pause", workspace)
        assert next(event for event in events)["event"] == "WORKSPACE_PAUSED"
        assert interrupt(process) == (0, "")


def test_a_stream_that_is_cut_goes_on_after_the_last_event(molecule: Molecule, scripted: Any) -> None:
    scripted.on("/events/stream", f"retry: 1\nid: 6\n\n{block(7)}{block(8)}id: 9\nda", **STREAM)
    scripted.then("/events/stream", {"error": "not now", "code": "platform-unavailable"}, 503)
    scripted.then("/events/stream", block(9), **STREAM)
    watched = molecule("event", "watch", "--count", "3", "--url", scripted.url, "--json")
    assert watched.code == 0
    assert [json.loads(line)["id"] for line in watched.out.splitlines()] == ["7", "8", "9"]
    assert [headers.get("last-event-id") for _method, _path, headers in scripted.asked] == [None, "8", "8"]
    assert "went away" in watched.err


def test_events_that_are_no_longer_kept_are_told_of_and_passed(molecule: Molecule, scripted: Any) -> None:
    lost = 'retry: 1\n\nevent: resync\ndata: {"oldest_id": "40"}\n\n'
    scripted.on("/events/stream", lost, **STREAM)
    scripted.then("/events/stream", block(41), **STREAM)
    watched = molecule("event", "watch", "--since", "3", "--count", "1", "--url", scripted.url)
    assert "up to 40 are no longer kept" in watched.err
    assert "WORKSPACE_ONLINE" in watched.out
    assert [headers["last-event-id"] for _method, _path, headers in scripted.asked] == ["3", "40"]


def test_a_stream_that_never_began_and_one_that_is_refused_are_failures(
    molecule: Molecule, scripted: Any
) -> None:
    assert molecule("event", "watch", "--url", "http://127.0.0.1:9").code == 1
    scripted.on("/events/stream", "retry: 1\n\n", **STREAM)
    scripted.then("/events/stream", {"error": "this token was revoked", "code": "token-revoked"}, 401)
    refused = molecule("event", "watch", "--url", scripted.url)
    assert (refused.code, "revoked" in refused.err) == (1, True)


def test_activity_is_followed_from_the_first_row_until_ctrl_c(
    at_house: Molecule, platform: Any, workspace: str
) -> None:
    with program(platform, "activity", "list", workspace, "--follow", "--json") as process:
        rows = lines_of(process)
        for text in ("good morning", "good evening"):
            at_house("send", workspace, text, "--no-wait")
            assert next(rows)["summary"] == text
        assert interrupt(process) == (0, "")


def test_following_and_looking_back_exclude_each_other(at_house: Molecule, workspace: str) -> None:
    before = ("--before", "2026-05-02T10:15:30Z", "--follow")
    assert at_house("activity", "list", workspace, *before).code == 2


def test_a_reader_who_has_seen_enough_hears_no_complaint(platform: Any) -> None:
    with program(platform, "openapi") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "{\n"
        process.stdout.close()
        process.wait(STOP_SECONDS)
        assert process.stderr.read() == ""
