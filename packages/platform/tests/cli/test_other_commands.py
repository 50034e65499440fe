"""Secrets, messages, status, doctor and the login link, against a real platform."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from molecule_platform.cli import connection, doctor

Molecule = Callable[..., Any]


@pytest.fixture
def workspace(at_house: Molecule) -> str:
    name = f"w-{uuid4()}"
    assert at_house("workspace", "create", name).code == 0
    return name


def key() -> str:
    return f"K_{uuid4().hex}"


def test_a_secret_from_standard_input_is_kept_and_never_shown(at_house: Molecule, workspace: str) -> None:
    name = key()
    kept = at_house("secret", "set", name, "--workspace", workspace, stdin="hunter-2-hunter\n")
    assert kept.code == 0
    listed = at_house("secret", "list", "--workspace", workspace, "--json")
    assert [(row["key"], row["scope"]) for row in listed.json() if row["key"] == name] == [
        (name, "workspace")
    ]
    everything = kept.out + kept.err + listed.out + at_house("secret", "list", "--workspace", workspace).out
    assert "hunter-2" not in everything


def test_a_secret_of_the_organisation_is_seen_by_every_workspace(at_house: Molecule, workspace: str) -> None:
    name = key()
    assert at_house("secret", "set", name, "--value", "x").code == 0
    shown = at_house("secret", "list", "--workspace", workspace).out
    line = next(line for line in shown.splitlines() if name in line)
    assert "the organisation" in line
    assert at_house("secret", "delete", name, "--json").json() == {"status": "deleted", "key": name}
    assert name not in at_house("secret", "list").out


def test_an_empty_value_is_not_kept(at_house: Molecule) -> None:
    refused = at_house("secret", "set", key(), stdin="\n")
    assert refused.code == 1
    assert "`molecule secret delete K_" in refused.err


def test_empty_lists_teach_the_next_step(molecule: Molecule, scripted: Any) -> None:
    scripted.on("/settings/secrets", [])
    scripted.on("/workspaces", [])
    assert "`molecule secret set KEY --url" in molecule("secret", "list", "--url", scripted.url).out
    assert "molecule workspace create" in molecule("workspace", "list", "--url", scripted.url).out


def test_a_message_to_an_absent_agent_is_kept_and_can_be_looked_at(
    at_house: Molecule, workspace: str
) -> None:
    sent = at_house("send", workspace, "hello", "--json").json()
    assert (sent["status"], sent["text"]) == ("accepted", None)
    looked = at_house("message", "show", sent["id"])
    assert looked.code == 0
    assert "The message is kept until" in looked.out
    assert f"molecule message show {sent['id']}" in looked.out


def test_a_wait_ends_with_the_message_still_open(at_house: Molecule, workspace: str) -> None:
    sent = at_house("send", workspace, "hello", "--wait", "0.2")
    assert sent.code == 0
    assert f"{workspace} is awaiting_agent" in sent.out


def test_a_message_that_ends_badly_is_a_failure(at_house: Molecule, workspace: str) -> None:
    sent = at_house("send", workspace, "hello", "--no-wait", "--json").json()
    assert at_house("workspace", "delete", workspace, "--yes").code == 0
    failed = at_house("message", "show", sent["id"], "--json")
    assert failed.code == 1
    told = json.loads(failed.err)
    assert (told["code"], told["status"], told["message_id"]) == (
        "workspace-removed",
        "cancelled",
        sent["id"],
    )


def test_an_unknown_message_is_said_to_be_unknown(at_house: Molecule) -> None:
    failed = at_house("message", "show", "nothing", "--json")
    assert failed.code == 1
    assert json.loads(failed.err)["status"] in (400, 404)


def test_a_login_link_leads_to_the_platform(at_house: Molecule, platform: Any) -> None:
    made = at_house("login-url", "--json").json()
    assert made["url"].startswith(f"{platform.url}/auth/login?code=")
    assert made["url"] != platform.told["login_url"]


def test_status_counts_the_workspaces(at_house: Molecule, workspace: str, platform: Any) -> None:
    told = at_house("status", "--json").json()
    assert told["ready"] is True
    assert told["url"] == platform.url
    assert told["workspaces"]["awaiting_agent"] >= 1
    assert "awaiting_agent" in at_house("status").out


def test_the_doctor_finds_a_fresh_platform_well(at_house: Molecule) -> None:
    examined = at_house("doctor", "--json")
    assert examined.code == 0
    told = examined.json()
    assert told["ok"] is True
    assert [check["name"] for check in told["checks"] if check["result"] == "fail"] == []
    assert {check["name"] for check in told["checks"]} >= {
        "platform", "version", "ready", "clock", "token", "loops", "agents", "data", "modes", "disk",
    }  # fmt: skip


def test_the_doctor_finds_a_wrong_token(molecule: Molecule, platform: Any, tmp_path: Path) -> None:
    examined = molecule(
        "doctor", "--url", platform.url, "--token", "wrong-token", "--data-dir", str(tmp_path)
    )
    assert examined.code == 1
    line = next(line for line in examined.out.splitlines() if " token " in line)
    assert "fail" in line
    assert "--token" in line


def test_the_doctor_says_how_to_start_what_does_not_run(molecule: Molecule, tmp_path: Path) -> None:
    examined = molecule("doctor", "--url", "http://127.0.0.1:9", "--data-dir", str(tmp_path / "none"))
    assert examined.code == 1
    assert f"`molecule up --port 9 --data-dir {tmp_path / 'none'}`" in examined.out


def test_the_doctor_finds_files_that_others_can_read(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    (tmp_path / "secrets.key").write_text("x")
    (tmp_path / "secrets.key").chmod(0o644)
    found = [
        check
        for check in doctor._of_folder(connection.resolve(None, None, tmp_path, {}))
        if check.result == "fail"
    ]
    assert [check.name for check in found] == ["modes"]
    assert f"chmod go= {tmp_path / 'secrets.key'}" in found[0].detail


def test_a_model_is_chosen_shown_and_given_back(at_house: Molecule, workspace: str) -> None:
    assert "default" in at_house("model", "show", workspace).out
    assert at_house("model", "set", workspace, "sonnet").code == 0
    assert at_house("model", "show", workspace).out == "sonnet\n"
    assert at_house("model", "set", workspace, "--default", "--json").json() == {"status": "cleared"}
    assert at_house("model", "show", workspace, "--json").json() == {"model": "", "source": "default"}
    assert at_house("model", "set", workspace).code == 2
    assert at_house("model", "set", workspace, "sonnet", "--default").code == 2


def test_a_new_key_is_named_and_never_shown(at_house: Molecule) -> None:
    at_house("secret", "set", key(), "--value", "x")
    done = at_house("secret", "rotate-key")
    assert done.code == 0
    assert "sealed again, with key" in done.out


def test_the_platform_signs_with_new_keys_when_it_is_told_to(at_house: Molecule) -> None:
    first = at_house("key", "rotate", "--json").json()
    again = at_house("key", "rotate")
    assert again.code == 0
    assert set(first["keys"]) == {"EdDSA", "ES256"}
    assert first["keys"]["EdDSA"] not in again.out
    assert "The new keys are" in again.out


def test_activity_is_listed_and_filtered(at_house: Molecule, workspace: str) -> None:
    assert "Nothing" in at_house("activity", "list", workspace).out
    at_house("send", workspace, "good morning", "--no-wait")
    assert "good morning" in at_house("activity", "list", workspace, "--type", "a2a_receive").out
    assert at_house("activity", "list", workspace, "--source", "agent", "--json").json() == []
    refused = at_house("activity", "list", workspace, "--source", "nobody")
    assert (refused.code, "source" in refused.err) == (1, True)
