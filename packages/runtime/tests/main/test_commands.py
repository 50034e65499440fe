"""The commands of `molecule-runtime`, as people and image builds call them."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from molecule_runtime.main.commands import run_command

BROKEN = {
    "no_class": "",
    "missing_import": "import no_such_package\n",
    "late_import": "from molecule_runtime.runtimes.echo import EchoAdapter\n"
    "class Adapter(EchoAdapter):\n"
    "    async def setup(self, config):\n        import no_such_package\n",
    "abstract": "from molecule_runtime.adapters.base import BaseAdapter\n"
    "class Adapter(BaseAdapter):\n    pass\n",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "config.yaml").write_text("name: Echo\nruntime: echo\na2a: {port: 0}\n")
    monkeypatch.setenv("WORKSPACE_CONFIG_PATH", str(tmp_path))
    monkeypatch.setenv("PLATFORM_URL", "http://127.0.0.1:9")
    monkeypatch.delenv("WORKSPACE_ID", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return tmp_path


def test_chat_prints_a_streamed_answer_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["chat", "/stream 3"]) == 0
    assert capsys.readouterr().out == "1 2 3 \n"


def test_chat_ends_with_an_error_when_the_engine_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["chat", "/fail"]) == 1
    assert "Agent error (RuntimeError)" in capsys.readouterr().out


def test_chat_tells_its_events_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["chat", "hi", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["state"], report["text"]) == ("completed", "echo: hi")
    assert [event["event"] for event in report["events"]] == ["working", "end"]


def test_smoke_passes_for_every_engine_that_is_here(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HERMES_API_BASE", "http://127.0.0.1:9/v1")
    run_command(["runtimes", "--json"])
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    names = [row["name"] for row in rows if row["available"]]
    assert names == ["echo", "hermes"]
    assert all("config_schema" in row for row in rows)
    for name in names:
        (folder / "config.yaml").write_text(f"runtime: {name}\n")
        assert run_command(["smoke"]) == 0
        assert capsys.readouterr().out.endswith(f"smoke ok: {name}\n")


@pytest.mark.parametrize("name", BROKEN)
def test_smoke_fails_on_a_broken_build(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (folder / f"smoke_{name}.py").write_text(BROKEN[name])
    monkeypatch.setenv("ADAPTER_MODULE", f"smoke_{name}")
    assert run_command(["smoke"]) == 1
    assert capsys.readouterr().out.startswith("smoke failed: ")


def test_smoke_passes_an_engine_that_only_lacks_its_model(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "smoke_no_key.py").write_text(
        "from molecule_runtime.runtimes.echo import EchoAdapter\n"
        "class Adapter(EchoAdapter):\n"
        "    async def setup(self, config):\n        raise RuntimeError('no key')\n"
    )
    monkeypatch.setenv("ADAPTER_MODULE", "smoke_no_key")
    monkeypatch.setenv("MOLECULE_SMOKE_MODE", "1")
    assert run_command([]) == 0
    assert capsys.readouterr().out == "warning: RuntimeError: no key\nsmoke ok: echo\n"


def test_doctor_names_secrets_and_never_shows_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-value")
    monkeypatch.setenv("MOLECULE_LINK", "poll")
    assert run_command(["doctor"]) == 0
    output = capsys.readouterr().out
    assert "OPENAI_API_KEY" in output
    assert "sk-very-secret-value" not in output
    assert "MOLECULE_LINK=poll" in output
    assert "[WARN] Platform: not reached" in output


def test_doctor_ends_with_an_error_when_the_workspace_cannot_start(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "config.yaml").write_text("runtime: none\ntier: [1]\n")
    assert run_command(["doctor", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert not report["ok"]
    assert report["issues"]
