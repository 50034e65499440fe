"""The install proof without a gateway: its file, what it makes of hermes' words, and its sentences."""

import json
import logging
import shutil
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from molecule_runtime.kit.setup.adapter import AdapterConfig
from molecule_runtime.main.commands import run_command
from molecule_runtime.runtimes.hermes import Adapter, adapter, selftest_checks, selftest_file
from molecule_runtime.runtimes.hermes.errors import HermesError
from molecule_runtime.runtimes.hermes.gateway_settings import GatewaySettings
from molecule_runtime.runtimes.hermes.home_directory import PLUGIN_NAME, PLUGIN_SOURCE, prepare_home
from molecule_runtime.runtimes.hermes.installation import describe
from molecule_runtime.runtimes.hermes.selftest import InstallSelftest, SelftestFailed, SelftestResult
from molecule_runtime.runtimes.hermes.selftest_checks import SelftestTarget
from molecule_runtime.runtimes.hermes.selftest_file import SelftestRecord
from molecule_wire import engines
from packages.runtime.tests.runtimes.hermes.environments import VERSION, HermesEnvironmentFolder

ENABLED = [{"name": PLUGIN_NAME, "status": "enabled", "version": "1.0.0"}]


@pytest.fixture
def engine(tmp_path: Path) -> HermesEnvironmentFolder:
    return HermesEnvironmentFolder(tmp_path)


@pytest.fixture
def env(tmp_path: Path, engine: HermesEnvironmentFolder) -> dict[str, str]:
    return {
        "HERMES_BIN": str(engine.executable),
        "HERMES_HOME": str(tmp_path / "hermes-home"),
        "HOME": str(tmp_path),
        "PATH": "",
    }


@pytest.fixture
def home(env: dict[str, str]) -> Path:
    """A home as the start helper leaves it."""
    settings = GatewaySettings.read({**env, "MOLECULE_A2A_PLATFORM_ENABLED": "true"}, "tiny")
    prepare_home(settings)
    HermesEnvironmentFolder.tells(settings.home, ENABLED)
    return settings.home


async def target(env: Mapping[str, str]) -> SelftestTarget:
    executable = Path(env["HERMES_BIN"])
    environment = await describe(executable)
    assert environment is not None
    return SelftestTarget(executable, environment, Path(env["HERMES_HOME"]), env)


def proven(**changes: str) -> SelftestRecord:
    members = {
        "plugin_version": selftest_file.plugin_version(),
        "hermes_version": VERSION,
        "at": "2026-01-31T10:15:30.123Z",
        "digest": selftest_file.plugin_digest(),
    }
    return SelftestRecord(**{**members, **changes})


# The file


async def test_the_file_is_in_the_environment_of_hermes_and_has_four_members(
    env: dict[str, str], engine: HermesEnvironmentFolder
) -> None:
    assert "hermes-proof.json" in await selftest_file.unproven_reason(env)
    written = selftest_file.write_proof(engine.prefix, proven())
    assert written == engine.prefix / "share/molecule/hermes-proof.json"
    assert sorted(json.loads(written.read_text())) == ["at", "digest", "hermes_version", "plugin_version"]
    assert written.stat().st_mode & 0o777 == 0o644
    assert selftest_file.read_proof(engine.prefix) == proven()
    assert await selftest_file.unproven_reason(env) == ""


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hermes_version": "0.18.0"}, "proven on hermes 0.18.0, and 0.19.0 is installed"),
        ({"plugin_version": "0.9.0"}, "plugin 0.9.0 was proven"),
        ({"digest": "0" * 64}, "not the one of this release"),
    ],
)
async def test_a_proof_of_something_else_is_none(
    env: dict[str, str], engine: HermesEnvironmentFolder, changes: dict[str, str], words: str
) -> None:
    selftest_file.write_proof(engine.prefix, proven(**changes))
    assert words in await selftest_file.unproven_reason(env)


@pytest.mark.parametrize("text", ["", "[]", '{"digest": 1}', "\x00", '{"plugin_version": "1"}'])
async def test_a_broken_file_is_no_proof(
    env: dict[str, str], engine: HermesEnvironmentFolder, text: str
) -> None:
    path = selftest_file.write_proof(engine.prefix, proven())
    path.write_text(text)
    assert selftest_file.read_proof(engine.prefix) is None
    assert "hermes-proof.json" in await selftest_file.unproven_reason(env)


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "share").write_text("")
    with pytest.raises(HermesError, match=r"as the user who installed it\.$"):
        selftest_file.write_proof(tmp_path, proven())


def test_the_digest_sees_every_file_of_the_plugin(tmp_path: Path) -> None:
    folder = tmp_path / "plugin"
    shutil.copytree(PLUGIN_SOURCE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "__pycache__").mkdir()
    assert selftest_file.plugin_digest(folder) == selftest_file.plugin_digest()
    (folder / "replies.py").write_text((folder / "replies.py").read_text() + "\n")
    assert selftest_file.plugin_digest(folder) != selftest_file.plugin_digest()


async def test_the_plugin_path_is_the_default_only_where_it_is_proven(
    env: dict[str, str], engine: HermesEnvironmentFolder
) -> None:
    async def plugin(**variables: str) -> bool:
        return GatewaySettings.read(await selftest_file.with_proven_default({**env, **variables})).plugin

    assert not await plugin()
    assert await plugin(MOLECULE_A2A_PLATFORM_ENABLED="true"), "opt-in is allowed without a proof"
    selftest_file.write_proof(engine.prefix, proven())
    assert await plugin()
    assert await plugin(MOLECULE_A2A_PLATFORM_ENABLED=" ")
    assert not await plugin(MOLECULE_A2A_PLATFORM_ENABLED="false")
    selftest_file.write_proof(engine.prefix, proven(hermes_version="0.18.0"))
    assert not await plugin()


async def test_a_workspace_on_an_unproven_plugin_path_warns(
    env: dict[str, str],
    engine: HermesEnvironmentFolder,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    for name, value in {**env, "HERMES_API_BASE": "http://127.0.0.1:9/v1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MOLECULE_A2A_PLATFORM_ENABLED", "true")
    monkeypatch.setenv("MOLECULE_A2A_PLATFORM_PORT", "9")
    monkeypatch.setattr(adapter, "_budget", lambda: 0.0)

    async def warnings() -> list[str]:
        caplog.clear()
        with pytest.raises(RuntimeError, match="not reachable"):
            await Adapter().setup(AdapterConfig(model="m"))
        return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]

    (warning,) = await warnings()
    assert warning.startswith("hermes' plugin path is not proven here: there is no ")
    assert warning.endswith("run `molecule-runtime hermes-proof`")
    selftest_file.write_proof(engine.prefix, proven())
    assert await warnings() == []


# Checks 1 to 3


async def test_a_prepared_home_passes_the_first_three_checks(env: dict[str, str], home: Path) -> None:
    selftest_target = await target(env)
    plugin = await selftest_checks.find_plugin(selftest_target)
    assert (plugin.name, plugin.version) == (PLUGIN_NAME, "1.0.0")
    assert plugin.place == f"folder {home / 'plugins' / PLUGIN_NAME}"
    assert (
        await selftest_checks.check_enabled(selftest_target, plugin)
        == f"{PLUGIN_NAME} is enabled in {home}/config.yaml"
    )
    assert str(home) in await selftest_checks.check_stanza(selftest_target)


def _remove_folder(home: Path) -> None:
    shutil.rmtree(home / "plugins")


def _change_plugin(home: Path) -> None:
    (home / "plugins" / PLUGIN_NAME / "replies.py").write_text("")


def _hide(home: Path) -> None:
    HermesEnvironmentFolder.tells(home, [])


@pytest.mark.parametrize(
    ("break_it", "sentence"),
    [
        (_remove_folder, "neither the folder .*/hermes-home/plugins/molecule-a2a nor"),
        (_change_plugin, r"is not the plugin of this release \(1\.0\.0\): remove that folder"),
        (_hide, "`hermes plugins list` has no row molecule-a2a, although there is the folder "),
    ],
)
async def test_a_plugin_that_hermes_does_not_see(
    env: dict[str, str], home: Path, break_it: Callable[[Path], None], sentence: str
) -> None:
    break_it(home)
    with pytest.raises(HermesError, match=sentence):
        await selftest_checks.find_plugin(await target(env))


async def test_a_distribution_in_hermes_environment_is_seen(
    env: dict[str, str], home: Path, engine: HermesEnvironmentFolder
) -> None:
    _remove_folder(home)
    HermesEnvironmentFolder.tells(home, [{"name": "molecule_a2a", "status": "enabled"}])
    entry = "[hermes_agent.plugins]\nmolecule_a2a = hermes_platform:register\n"
    folder = engine.add_distribution("hermes-platform-molecule-a2a", "0.3.1", entry)
    first = await selftest_checks.find_plugin(await target(env))
    assert (first.name, first.version, first.entry_point) == ("molecule_a2a", "0.3.1", "molecule_a2a")
    assert first.place == f"distribution hermes-platform-molecule-a2a 0.3.1 in {engine.prefix}"
    (folder / "METADATA").write_text((folder / "METADATA").read_text() + "Summary: changed\n")
    assert (await selftest_checks.find_plugin(await target(env))).digest != first.digest


@pytest.mark.parametrize(
    ("status", "enabled", "sentence"),
    [
        (
            "not enabled",
            ["molecule_a2a"],
            r'molecule-a2a is missing in plugins\.enabled of .*, which has \["molecule_a2a"\]: add it in',
        ),
        ("not enabled", None, r"which has \[\]"),
        ("disabled", ["molecule-a2a"], r"molecule-a2a is in plugins\.disabled of .*: remove it there"),
    ],
)
async def test_a_plugin_that_is_not_enabled(
    env: dict[str, str], home: Path, status: str, enabled: list[str] | None, sentence: str
) -> None:
    (home / "config.yaml").write_text(yaml.safe_dump({"plugins": {"enabled": enabled}}))
    plugin = await selftest_checks.find_plugin(await target(env))
    HermesEnvironmentFolder.tells(home, [{"name": PLUGIN_NAME, "status": status}])
    with pytest.raises(HermesError, match=sentence):
        await selftest_checks.check_enabled(await target(env), plugin)


@pytest.mark.parametrize(
    "platforms", [{}, {PLUGIN_NAME: {"enabled": False}}, {"telegram": {"enabled": True}}]
)
async def test_a_stanza_that_is_missing(env: dict[str, str], home: Path, platforms: dict[str, Any]) -> None:
    (home / "config.yaml").write_text(yaml.safe_dump({"platforms": platforms}))
    with pytest.raises(HermesError, match=r"config\.yaml has no enabled stanza platforms\.molecule-a2a: "):
        await selftest_checks.check_stanza(await target(env))


async def test_a_hermes_that_reads_another_file(env: dict[str, str], home: Path) -> None:
    HermesEnvironmentFolder.tells(home, ENABLED, Path("/opt/elsewhere/config.yaml"))
    with pytest.raises(
        HermesError, match="hermes reads /opt/elsewhere/config.yaml and not .*set HERMES_HOME"
    ):
        await selftest_checks.check_stanza(await target(env))


async def test_a_hermes_that_says_nothing_of_its_config(env: dict[str, str], home: Path) -> None:
    (home / "config-path").unlink()
    with pytest.raises(HermesError, match="`hermes config show` ended with code 1: run it as this user"):
        await selftest_checks.check_stanza(await target(env))


# The command


async def failed_check(env: Mapping[str, str]) -> SelftestResult:
    results = list[SelftestResult]()
    with pytest.raises(SelftestFailed):
        await InstallSelftest(env, "http://127.0.0.1:9/v1", results.append).run()
    assert [result.passed for result in results[:-1]] == [True] * (len(results) - 1)
    return results[-1]


async def test_a_program_that_no_python_runs_is_told(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "wrapper").write_text("#!/bin/sh\n")
    (tmp_path / "wrapper").chmod(0o755)
    failed = await failed_check({**env, "HERMES_BIN": str(tmp_path / "wrapper")})
    assert failed.number == 1
    assert "is not run by a Python that has hermes-agent: set HERMES_BIN" in failed.message


async def test_a_taken_port_fails_the_fourth_check(env: dict[str, str], home: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        failed = await failed_check({**env, "MOLECULE_A2A_PLATFORM_PORT": str(port), "API_SERVER_PORT": "0"})
    assert (failed.number, failed.name) == (4, "gateway started")
    assert failed.message.startswith(f"port {port} of 127.0.0.1 cannot be used by hermes")


def content(home: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}


async def test_the_proof_leaves_the_home_of_the_user_alone(env: dict[str, str], home: Path) -> None:
    (home / "config.yaml").write_text((home / "config.yaml").read_text() + "agent: {max_turns: 7}\n")
    before = content(home)
    failed = await failed_check({**env, "MOLECULE_A2A_PLATFORM_PORT": "0", "API_SERVER_PORT": "0"})
    assert failed.number == 4
    assert "has no aiohttp" in failed.message
    assert content(home) == before


def test_the_command_tells_which_check_failed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("HERMES_BIN", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    monkeypatch.setenv(engines.DIRECTORY_VARIABLE, str(tmp_path))
    assert run_command(["hermes-proof"]) == 1
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith(
        "FAIL  1 plugin visible to hermes: hermes is not installed: run `molecule runtime"
    )
    assert last == "hermes plugin path not proven: check 1 failed"
    assert run_command(["hermes-proof", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["ok"], report["message"]) == (False, last)
    assert [(check["number"], check["passed"]) for check in report["checks"]] == [(1, False)]


def test_the_command_refuses_to_run_without_a_secret(
    env: dict[str, str], home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    config = yaml.safe_load((home / "config.yaml").read_text())
    config["platforms"][PLUGIN_NAME]["extra"]["shared_secret"] = ""
    (home / "config.yaml").write_text(yaml.safe_dump(config))
    assert run_command(["hermes-proof"]) == 1
    output = capsys.readouterr().out
    assert output.startswith("hermes plugin path not proven: hermes-proof does not run without a secret")
    assert "set MOLECULE_A2A_PLATFORM_SHARED_SECRET" in output
