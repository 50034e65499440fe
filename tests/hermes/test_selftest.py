"""`molecule-runtime hermes-proof` in a clean installation of the real hermes, whole and broken on purpose."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests
import yaml

from molecule_runtime.runtimes.hermes.gateway_settings import GatewaySettings
from molecule_runtime.runtimes.hermes.home_directory import PLUGIN_NAME, prepare_home
from molecule_runtime.runtimes.hermes.selftest_file import RECORD_PATH
from molecule_runtime.testing.scripted_model import ScriptedModel
from molecule_wire import engines
from scripts import repository
from tests.hermes.gateway_process import CANARIES, GatewayProcess, free_port

# An installation takes a minute, each proof 10 to 20 s, and one that fails at its fourth check 45 s.
pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(300)]

TOLD_WITHIN_SECONDS = 60.0
PROVEN = "hermes plugin path proven: 1.0.0 on hermes 0.19.0"

WITHOUT_AIOHTTP = """#!{python}
import sys
sys.modules["aiohttp"] = None
from hermes_cli.main import main
sys.exit(main())
"""


@pytest.fixture(scope="module")
def clean_engines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of engines with a hermes that `molecule runtime install hermes` has just put there."""
    folder = tmp_path_factory.mktemp("engines")
    command = [sys.executable, "-m", "molecule_platform.cli.main", "runtime", "install", "hermes"]
    path = f"{repository.ROOT / '.tools/uv/bin'}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, engines.DIRECTORY_VARIABLE: str(folder), "PATH": path}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=240)
    if done.returncode:
        pytest.skip(f"hermes cannot be installed here: {done.stderr[-500:]}")
    return folder


class Prover:
    """The command, with a home, a temporary folder and ports of its own."""

    def __init__(self, folder: Path, engines_dir: Path) -> None:
        self.folder = folder
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self.ports = {"API_SERVER_PORT": free_port(), "MOLECULE_A2A_PLATFORM_PORT": free_port()}
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "HERMES_HOME": str(folder / "hermes"),
            "TMPDIR": str(self.temporary),
            engines.DIRECTORY_VARIABLE: str(engines_dir),
            **{name: str(port) for name, port in self.ports.items()},
            **CANARIES,
        }

    @property
    def home(self) -> Path:
        return self.folder / "hermes"

    def prepare(self) -> None:
        """Make the home as the start of a workspace does."""
        prepare_home(GatewaySettings.read({**self.env, "MOLECULE_A2A_PLATFORM_ENABLED": "true"}, "tiny"))

    def config(self) -> dict[str, Any]:
        return yaml.safe_load((self.home / "config.yaml").read_text())

    def write_config(self, config: dict[str, Any]) -> None:
        (self.home / "config.yaml").write_text(yaml.safe_dump(config))

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        command = (sys.executable, "-c", "from molecule_runtime.main import main_sync; main_sync()")
        return subprocess.Popen(
            [*command, "hermes-proof", *arguments],
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str) -> tuple[int, str]:
        """Its exit code and what it printed; it leaves nothing behind, whatever it found."""
        with self.start(*arguments) as process:
            printed, _ = process.communicate(timeout=180)
        self.check_nothing_left()
        assert not [name for name, value in CANARIES.items() if value in printed], printed
        return process.returncode, printed

    def check_nothing_left(self) -> None:
        assert list(self.temporary.iterdir()) == []
        left = list[str]()
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get("TMPDIR") == str(self.temporary):
                    left.append(" ".join(process.cmdline()))
        assert left == []
        for port in self.ports.values():
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))


@pytest.fixture
def prover(tmp_path: Path, clean_engines: Path) -> Iterator[Prover]:
    yield Prover(tmp_path, clean_engines)
    proof_path(clean_engines).unlink(missing_ok=True)


def proof_path(engines_dir: Path) -> Path:
    found = engines.installed("hermes", {engines.DIRECTORY_VARIABLE: str(engines_dir)})
    assert found is not None
    return found.executable.parent.parent / RECORD_PATH


def test_it_passes_in_a_clean_installation_where_the_plugin_is_the_default_then(
    prover: Prover, clean_engines: Path, model: ScriptedModel
) -> None:
    code, printed = prover.run()
    print(printed)
    lines = printed.splitlines()
    assert code == 0, printed
    assert [line[:7] for line in lines[:-1]] == [f"pass  {number}" for number in range(1, 7)]
    assert lines[-1] == PROVEN
    proof = json.loads(proof_path(clean_engines).read_text())
    assert (proof["plugin_version"], proof["hermes_version"]) == ("1.0.0", "0.19.0")
    assert len(proof["digest"]) == 64
    assert not prover.home.exists(), "no home and no key stays in an image"
    executable = proof_path(clean_engines).parents[2] / "bin/hermes"
    gateway = GatewayProcess(prover.folder, executable, model.base_url, plugin=None)
    gateway.start()
    try:
        until = time.monotonic() + 90
        while "hermes gateway is ready" not in gateway.log:
            assert time.monotonic() < until, gateway.log
            time.sleep(0.1)
        assert requests.get(f"{gateway.plugin_url}/a2a/health", timeout=5).status_code == 200
    finally:
        gateway.stop()


def test_it_passes_with_the_home_of_a_user_and_leaves_it_as_it_was(prover: Prover) -> None:
    prover.prepare()
    config = prover.config()
    user = {"platforms": {**config["platforms"], "telegram": {"enabled": True}}, "agent": {"max_turns": 7}}
    prover.write_config({**config, **user})
    (prover.home / "sessions").mkdir()
    (prover.home / "sessions/kept.json").write_text("{}")
    before = {path: path.read_bytes() for path in prover.home.rglob("*") if path.is_file()}
    code, printed = prover.run("--json")
    report = json.loads(printed)
    assert (code, report["ok"], report["message"]) == (0, True, PROVEN), printed
    assert [(check["number"], check["passed"]) for check in report["checks"]] == [
        (n, True) for n in range(1, 7)
    ]
    assert {path: path.read_bytes() for path in before} == before
    assert list((prover.home / "sessions").iterdir()) == [prover.home / "sessions/kept.json"]
    assert not (prover.home / "state.db").exists(), "the proof has no conversation in the home of the user"


def without_folder(prover: Prover) -> None:
    (prover.home / "plugins" / PLUGIN_NAME).rename(prover.home / "aside")


def with_another_spelling(prover: Prover) -> None:
    prover.write_config({**prover.config(), "plugins": {"enabled": ["molecule_a2a"]}})


def disabled(prover: Prover) -> None:
    plugins = {"enabled": [PLUGIN_NAME], "disabled": [PLUGIN_NAME]}
    prover.write_config({**prover.config(), "plugins": plugins})


def without_stanza(prover: Prover) -> None:
    prover.write_config({**prover.config(), "platforms": {"telegram": {"enabled": False}}})


def without_aiohttp(prover: Prover) -> None:
    """The real hermes, which finds no aiohttp: its gateway runs, and opens no port of ours."""
    executable = proof_path(Path(prover.env[engines.DIRECTORY_VARIABLE])).parents[2] / "bin/hermes"
    program = prover.folder / "hermes-without-aiohttp"
    program.write_text(WITHOUT_AIOHTTP.format(python=executable.with_name("python")))
    program.chmod(0o755)
    prover.env["HERMES_BIN"] = str(program)


@pytest.mark.parametrize(
    ("break_it", "number", "sentence"),
    [
        (without_folder, 1, "hermes does not see the plugin molecule-a2a: there is neither the folder"),
        (with_another_spelling, 2, 'which has ["molecule_a2a"]: add it in exactly this spelling'),
        (disabled, 2, "molecule-a2a is in plugins.disabled of"),
        (without_stanza, 3, "has no enabled stanza platforms.molecule-a2a"),
        (without_aiohttp, 4, "/a2a/health did not answer 200 within 40 s"),
    ],
)
def test_what_is_broken_is_told_within_a_minute(
    prover: Prover, clean_engines: Path, break_it: Callable[[Prover], None], number: int, sentence: str
) -> None:
    prover.prepare()
    break_it(prover)
    began = time.monotonic()
    code, printed = prover.run()
    seconds = time.monotonic() - began
    print(f"{printed}told after {seconds:.1f} s")
    lines = printed.splitlines()
    assert code == 1
    assert [line[:7] for line in lines[: number - 1]] == [f"pass  {passed}" for passed in range(1, number)]
    assert lines[number - 1].startswith(f"FAIL  {number}")
    assert sentence in lines[number - 1]
    assert lines[-1] == f"hermes plugin path not proven: check {number} failed"
    assert seconds < TOLD_WITHIN_SECONDS
    assert not proof_path(clean_engines).exists()


def test_a_proof_that_is_ended_stops_its_gateway(prover: Prover, clean_engines: Path) -> None:
    with prover.start() as process:
        until = time.monotonic() + 60
        while not any("gateway" in child.cmdline() for child in psutil.Process(process.pid).children()):
            assert time.monotonic() < until
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        printed, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert printed.splitlines()[-1] == "hermes plugin path not proven: interrupted"
    prover.check_nothing_left()
    assert not proof_path(clean_engines).exists()
