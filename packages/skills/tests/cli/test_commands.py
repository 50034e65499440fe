"""The command `molecule-skill`, as processes: what it does, what it prints, how it ends."""

import asyncio
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import httpx
import pytest

from molecule_skill.cli import call
from molecule_skill.cli.output import CommandFailed
from packages.skills.tests.cli import commands
from packages.skills.tests.cli.commands import project, run, value
from packages.skills.tests.serve.served import serving

pytestmark = pytest.mark.slow  # each test starts processes


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return project(tmp_path)


@pytest.mark.parametrize("template", ["basic", "chat", "files"])
def test_a_new_project_passes_its_checks_and_tests_offline(tmp_path: Path, template: str) -> None:
    made = run(tmp_path, "init", "fresh", "--template", template)
    assert made.returncode == 0
    root = tmp_path / "fresh"
    assert {path.name for path in root.iterdir()} == {
        "agent.py",
        "config.yaml",
        "pyproject.toml",
        "tests",
        ".env.local.example",
        ".gitignore",
        "README.md",
    }
    assert run(root, "test").returncode == 0
    assert run(root, "card", "--check").returncode == 0
    tested = subprocess.run(
        [commands.COMMAND[0], "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=root,
        env=commands.environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert tested.returncode == 0, tested.stdout
    again = run(tmp_path, "init", "fresh")
    assert (again.returncode, "not empty" in again.stderr) == (1, True)
    assert run(tmp_path, "init", "Not A Name").returncode == 2


def test_every_command_answers_in_json(root: Path) -> None:
    assert value(run(root, "test", "--json"))["ok"] is True
    assert value(run(root, "card", "--json"))["name"] == "greeter"
    assert value(run(root, "card", "--format", "a2a", "--json"))["defaultInputModes"]
    assert value(run(root, "call", ".", "greet", "--json", "name=Ada"))["result"] == "Hello, Ada!"
    failed = run(root, "call", ".", "absent", "--json")
    assert (failed.returncode, value(failed)["ok"]) == (1, False)


def test_lines_fit_a_terminal_of_80_columns(root: Path) -> None:
    for arguments in (
        ["test"],
        ["card", "--check"],
        ["call", ".", "greet", "name=1"],
        ["--help"],
        ["call", "-h"],
    ):
        done = run(root, *arguments)
        assert max(len(line) for line in (done.stdout + done.stderr).splitlines()) <= 80


def test_a_card_that_config_contradicts_fails(root: Path) -> None:
    config = root / "config.yaml"
    config.write_text(config.read_text().replace("version: 0.1.0", "version: 9.9.9"))
    for arguments in (["card"], ["card", "--check"], ["test"]):
        done = run(root, *arguments)
        assert done.returncode == 1
        assert "9.9.9" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("known", "instead", "says"),
    [
        ("runtime: python", "runtime: echo", "runtime: python"),
        ("agent:Agent", "agent:helper", "names no A2AAgent"),
        ("agent:Agent", "agent", "entrypoint"),
        ("name:", "{name:", "is no YAML"),
        ("", "", "no config.yaml"),
    ],
)
def test_a_project_that_is_not_one_says_what_is_missing(
    root: Path, known: str, instead: str, says: str
) -> None:
    config = root / "config.yaml"
    if known:
        config.write_text(config.read_text().replace(known, instead))
    else:
        config.unlink()
    done = run(root, "test")
    assert done.returncode == 1
    assert says in " ".join(done.stderr.split())


def test_errors_of_the_authors_code_have_the_authors_line_and_none_of_ours(root: Path) -> None:
    done = run(root, "test", "--skill", "fail")
    assert done.returncode == 1
    assert "agent.py:31 in helper" in done.stdout
    assert 'values["missing"]' in done.stdout
    assert "KeyError" in done.stdout
    assert "molecule_skill" not in done.stdout + done.stderr
    (root / "agent.py").write_text("class Agent:\n    def broken(:\n")
    done = run(root, "test")
    assert done.returncode == 1
    assert "agent.py:2" in done.stderr
    assert "SyntaxError" in done.stderr
    assert "molecule_skill" not in done.stderr


def test_what_hosting_would_miss_is_warned_of(root: Path) -> None:
    agent = root / "agent.py"
    text = (
        agent.read_text()
        .replace("name: str) -> str", "name: str)")
        .replace("@skill()", "@skill(idempotent=True)", 1)
    )
    agent.write_text(
        text.replace('return f"Hello', 'await ctx.write_artifact("../x", b"", "a/b")\n        return f"Hello')
    )
    done = run(root, "test")
    assert "no return annotation" in done.stdout
    assert "hosting refuses the artifact name" in done.stdout


def test_missing_secrets_and_environment_are_named(root: Path) -> None:
    agent = root / "agent.py"
    agent.write_text(
        agent.read_text().replace(
            'version = "0.1.0"',
            'version = "0.1.0"\n    required_secrets = ("API_KEY",)\n    required_env = ("REGION_X",)',
        )
    )
    done = run(root, "test")
    assert done.returncode == 1
    assert "API_KEY" in done.stdout
    assert "REGION_X" in done.stdout
    (root / ".env.local").write_text("# secrets\nexport API_KEY='sk-marked-value'\n")
    done = run(root, "test")
    assert "put API_KEY" not in done.stdout
    assert "sk-marked-value" not in done.stdout


def test_a_question_is_answered_at_the_terminal(root: Path) -> None:
    done = run(root, "call", ".", "ask", "topic=tea", stdin="green\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "GREEN"
    assert "What about tea?" in done.stderr
    nobody = run(root, "call", ".", "ask", "topic=tea")
    assert nobody.returncode == 1
    assert "no terminal" in nobody.stderr


async def test_a_served_agent_is_called_by_its_address(tmp_path: Path) -> None:
    async with serving() as served:

        def ask(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
            return run(tmp_path, "call", served.url, *arguments, stdin=stdin)

        done = await asyncio.to_thread(ask, "add", "a=2", "b=5", "--json")
        assert value(done)["result"] == {"sum": 7}
        output = await asyncio.to_thread(ask, "ask", "question=why?", "--stream", stdin="because\n")
        assert "answer: because" in output.stdout
        wrong = await asyncio.to_thread(ask, "add", "c=2")
        assert wrong.returncode == 2
        assert "no parameter 'c'" in wrong.stderr
        failed = await asyncio.to_thread(ask, "fail", "message=boom")
        assert failed.returncode == 1
        assert "skill-failed" in failed.stderr


def test_tokens_come_from_a_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    kept = tmp_path / ".molecule" / "credentials.json"
    assert call.credentials(tmp_path) == {}
    kept.parent.mkdir()
    kept.write_text(json.dumps({"http://a:1": {"token": "t1"}, "http://b:2": "t2"}))
    kept.chmod(0o644)
    with pytest.raises(CommandFailed, match="chmod 600"):
        call.credentials(tmp_path)
    kept.chmod(0o600)
    assert call.credentials(tmp_path) == {"http://a:1": "t1", "http://b:2": "t2"}


def test_run_refuses_to_serve_everybody_and_says_what_to_do(root: Path) -> None:
    done = run(root, "run", "--port", "0")
    assert done.returncode == 1
    assert "without authentication" in done.stderr
    assert "127.0.0.1" in done.stderr


def test_run_serves_and_drains_on_sigterm(root: Path) -> None:
    process = subprocess.Popen(
        [*commands.COMMAND, "run", "--host", "127.0.0.1", "--port", "0"],
        cwd=root,
        env={**commands.environment(), "MOLECULE_DRAIN_SECONDS": "5"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    url = process.stdout.readline().split()[-1]
    try:
        assert (
            httpx.post(f"{url}/invoke/greet", json={"arguments": {"name": "Ada"}}).json()["result"]
            == "Hello, Ada!"
        )
        assert httpx.get(f"{url}/readyz").status_code == 200
        assert httpx.get(f"{url}/_dev").status_code == 404
        taken = run(root, "run", "--host", "127.0.0.1", "--port", url.rpartition(":")[2])
        assert taken.returncode == 1
        assert "choose another with --port" in " ".join(taken.stderr.split())
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) == 0
        process.stdout.close()


def test_an_agent_that_cannot_start_ends_run_with_1(root: Path) -> None:
    agent = root / "agent.py"
    agent.write_text(
        agent.read_text().replace('version = "0.1.0"', 'version = "0.1.0"\n    required_secrets = ("K",)')
    )
    began = time.monotonic()
    done = run(root, "run", "--host", "127.0.0.1", "--port", "0")
    assert done.returncode == 1
    assert "missing secrets: K" in done.stderr
    assert time.monotonic() - began < 20
    assert os.environ.get("K") is None
