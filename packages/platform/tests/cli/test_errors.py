"""What the program says when the platform refuses, is not there, or is something else."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from molecule_platform.cli import connection, output

Molecule = Callable[..., Any]
NOWHERE = "http://127.0.0.1:9"


def test_no_platform_says_how_to_start_one(molecule: Molecule) -> None:
    failed = molecule("status", "--url", NOWHERE)
    assert (failed.code, failed.out) == (1, "")
    assert failed.err == (
        f"molecule: no platform answers at {NOWHERE}: start one with `molecule up --port 9`, "
        "or name another with --url\n"
    )


def test_no_platform_elsewhere_does_not_say_to_start_one_here(molecule: Molecule) -> None:
    failed = molecule("status", "--url", "http://platform.invalid")
    assert "molecule up" not in failed.err
    assert "look whether it runs there" in failed.err


def test_with_json_an_error_is_json_on_standard_error_alone(molecule: Molecule) -> None:
    failed = molecule("workspace", "list", "--url", NOWHERE, "--json")
    assert (failed.code, failed.out) == (1, "")
    assert json.loads(failed.err)["code"] == "platform-unreachable"


@pytest.mark.parametrize("body", ["<html>hello</html>", "[]", '"ok"', '{"status": "ok"}'])
def test_something_else_on_the_port_is_named(molecule: Molecule, scripted: Any, body: str) -> None:
    scripted.on("/health", body)
    failed = molecule("status", "--url", scripted.url)
    assert failed.code == 1
    assert "is not a Molecule platform" in failed.err


def test_a_missing_token_says_where_it_was_looked_for(
    molecule: Molecule, scripted: Any, tmp_path: Path
) -> None:
    scripted.on("/workspaces", {"error": "no credential was sent", "code": "unauthenticated"}, 401)
    failed = molecule("workspace", "list", "--url", scripted.url, "--data-dir", str(tmp_path))
    assert failed.code == 1
    assert f"No token was found in {tmp_path}/admin.token" in failed.err
    assert "MOLECULE_ADMIN_TOKEN" in failed.err


def test_the_token_of_the_file_is_sent_and_never_printed(
    molecule: Molecule, scripted: Any, tmp_path: Path
) -> None:
    (tmp_path / "admin.token").write_text("file-token-123\n")
    scripted.on("/workspaces", {"error": "this token is unknown", "code": "invalid-token"}, 401)
    failed = molecule("workspace", "list", "--url", scripted.url, "--data-dir", str(tmp_path), "--json")
    assert scripted.asked[0][2]["authorization"] == "Bearer file-token-123"
    assert "file-token-123" not in failed.err
    assert json.loads(failed.err)["code"] == "invalid-token"


def test_an_internal_error_names_the_request(molecule: Molecule, scripted: Any) -> None:
    body = {"error": "something went wrong here", "code": "internal", "request_id": "r-77"}
    scripted.on("/workspaces", body, 500)
    assert "request r-77" in molecule("workspace", "list", "--url", scripted.url).err


def test_an_error_of_json_rpc_is_read(molecule: Molecule, scripted: Any) -> None:
    scripted.on("/workspaces", [{"id": "w1", "name": "lead"}])
    refusal = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "the mailbox is full"}}
    scripted.on("/workspaces/w1/a2a", refusal | {"code": "mailbox-full", "retry_after": 3}, 503)
    failed = molecule("send", "lead", "hello", "--url", scripted.url, "--json")
    told = json.loads(failed.err)
    assert (told["error"], told["code"], told["retry_after"]) == ("the mailbox is full", "mailbox-full", 3)


def test_a_message_that_was_answered_while_the_sender_tried_again_is_told(
    molecule: Molecule, scripted: Any
) -> None:
    answer: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "result": {"kind": "message", "parts": []}}
    scripted.on("/workspaces", [{"id": "w1", "name": "lead"}])
    scripted.on("/workspaces/w1/a2a", '{"cut off', 202)
    scripted.then("/workspaces/w1/a2a", answer, 200, **{"X-Molecule-Message-Id": "m1"})
    told = {"id": "m1", "status": "answered", "task_state": None}
    scripted.on("/messages/m1", told | {"result": {"parts": [{"kind": "text", "text": "re: hello"}]}})
    sent = molecule("send", "lead", "hello", "--no-wait", "--url", scripted.url)
    assert (sent.code, sent.out.strip()) == (0, "re: hello")


def test_a_redirect_is_not_followed(molecule: Molecule, scripted: Any) -> None:
    scripted.on("/workspaces", {"error": "moved", "code": "moved"}, 302, Location=f"{scripted.url}/other")
    assert molecule("workspace", "list", "--url", scripted.url).code == 1
    assert len(scripted.asked) == 1


def test_a_platform_that_asks_for_a_little_patience_gets_it_once(molecule: Molecule, scripted: Any) -> None:
    busy = {"error": "too many requests: try again in 0 s", "code": "rate-limited", "retry_after": 0}
    scripted.on("/orgs", busy, 429, **{"Retry-After": "0"})
    scripted.then("/orgs", [])
    listed = molecule("org", "list", "--url", scripted.url)
    assert listed.code == 0
    assert listed.err == "molecule: too many requests: trying again in 0 s\n"
    scripted.on("/orgs", busy, 429, **{"Retry-After": "0"})
    refused = molecule("org", "list", "--url", scripted.url, "--json")
    assert refused.code == 1
    assert [json.loads(line).keys() >= {"warning"} for line in refused.err.splitlines()] == [True, False]
    assert len(scripted.asked) == 4


def test_a_platform_that_asks_for_more_patience_is_told_of_with_the_time(
    molecule: Molecule, scripted: Any
) -> None:
    busy = {"error": "too many requests: try again in 3000 s", "code": "rate-limited", "retry_after": 3000}
    scripted.on("/orgs", busy, 429, **{"Retry-After": "3000"})
    refused = molecule("org", "list", "--url", scripted.url)
    assert refused.code == 1
    assert re.search(r"try again in 3000 s\. It can be repeated at .*\d\d:\d\d", refused.err)
    assert len(scripted.asked) == 1


def test_what_the_tree_denies_names_the_command_that_explains_it(molecule: Molecule, scripted: Any) -> None:
    denied = {"error": "the org tree does not let a reach b", "code": "hierarchy-denied", "rule": "denied"}
    scripted.on("/orgs", denied | {"explain_url": "/access/explain?caller=a&target=b"}, 403)
    flags = ("--url", scripted.url, "--token", "of-workspace-a")
    failed = molecule("org", "list", *flags)
    assert f"`molecule access explain a b --url {scripted.url} --token …`" in failed.err
    assert "of-workspace-a" not in failed.err


def test_a_hint_repeats_the_flags_in_use(molecule: Molecule, scripted: Any, tmp_path: Path) -> None:
    scripted.on("/access/grants", [])
    scripted.on("/workspaces", [])
    folder = tmp_path / "the data"
    flags = ("--url", scripted.url, "--data-dir", str(folder), "--org", "acme")
    hint = f"--url {scripted.url} --data-dir '{folder}' --org acme"
    assert f"`molecule grant create CALLER TARGET --reason … {hint}`" in molecule("grant", "list", *flags).out
    assert f"`molecule workspace list {hint}`" in molecule("workspace", "show", "nobody", *flags).err
    assert f"molecule workspace create helper {hint}\n" in molecule("workspace", "list", *flags).out


def test_a_hint_does_not_repeat_what_the_environment_gives(molecule: Molecule, scripted: Any) -> None:
    scripted.on("/access/grants", [])
    scripted.on("/workspaces", [])
    listed = molecule("grant", "list", environ={"MOLECULE_PLATFORM_URL": scripted.url})
    assert "`molecule grant create CALLER TARGET --reason …`" in listed.out


def test_every_page_of_a_list_is_read(molecule: Molecule, scripted: Any) -> None:
    row = {"id": "w1", "name": "lead"}
    scripted.on("/workspaces", [row], **{"X-Next-Cursor": "w1"})
    molecule("workspace", "list", "--url", scripted.url, "--json")
    assert [path for _method, path, _headers in scripted.asked[:2]] == [
        "/workspaces",
        "/workspaces?cursor=w1",
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("nonsense",), "No such command 'nonsense'"),
        (("workspace", "create"), "Missing argument"),
        (("send", "lead"), "Missing argument"),
        (("status", "--url", "ftp://x"), "--url must be an http:// or https:// URL"),
        (("status", "--token", "a b"), "--token must be at least 8 visible ASCII characters"),
        (("workspace", "list", "--nope"), "No such option"),
    ],
)
def test_misuse_is_exit_code_2_with_a_sentence(
    molecule: Molecule, arguments: tuple[str, ...], sentence: str
) -> None:
    failed = molecule(*arguments)
    assert (failed.code, failed.out) == (2, "")
    assert sentence in failed.err
    assert json.loads(molecule(*arguments, "--json").err)["code"] == "usage"


@pytest.mark.parametrize("arguments", [(), ("workspace",), ("--help",)])
def test_help_is_shown_without_a_command(molecule: Molecule, arguments: tuple[str, ...]) -> None:
    shown = molecule(*arguments)
    assert "Usage: molecule" in shown.out
    assert shown.err == ""


def test_flags_go_over_the_environment_and_that_over_defaults(tmp_path: Path) -> None:
    environ = {"MOLECULE_PLATFORM_URL": "http://env:1", "MOLECULE_ADMIN_TOKEN": "env-token", "PORT": "7"}
    found = connection.resolve("http://flag:2/", "flag-token", tmp_path, environ)
    assert (found.url, found.token, found.data_dir) == ("http://flag:2", "flag-token", tmp_path)
    found = connection.resolve(None, None, None, environ | {"MOLECULE_DATA_DIR": str(tmp_path)})
    assert (found.url, found.token, found.data_dir) == ("http://env:1", "env-token", tmp_path)
    found = connection.resolve(None, None, tmp_path, {"PORT": "7", "ADMIN_TOKEN": "plain-token"})
    assert (found.url, found.token) == ("http://127.0.0.1:7", "plain-token")
    found = connection.resolve(None, None, None, {"HOME": str(tmp_path)})
    assert found.url == "http://127.0.0.1:8080"
    assert found.data_dir == Path("~/.molecule/platform").expanduser()


def test_a_target_does_not_show_its_token(tmp_path: Path) -> None:
    assert "flag-token" not in repr(connection.resolve(None, "flag-token", tmp_path, {}))


def test_words_of_others_cannot_steer_the_terminal() -> None:
    assert output.clean("a\x1b[2Jb\r\x07\u202ec\n\td é 😀") == "a[2Jbc\n\td é 😀"


def test_times_are_shown_in_the_readers_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert output.moment("2001-02-03T20:00:00.000Z") == "2001-02-04 05:00 JST"
        assert output.moment(None) == "never"
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()
