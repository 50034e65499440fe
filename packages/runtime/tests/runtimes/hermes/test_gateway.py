"""The supervisor of the gateway: its checks before it starts, and programs that end or do not end."""

import asyncio
import json
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import uvloop

from molecule_runtime.kit.state import engine_health, known_secrets
from molecule_runtime.runtimes.hermes import gateway as gateway_module
from molecule_runtime.runtimes.hermes import orphan_processes
from molecule_runtime.runtimes.hermes.errors import HermesError
from molecule_runtime.runtimes.hermes.gateway import WEDGE_REASON, Gateway, child_environment
from molecule_runtime.runtimes.hermes.gateway_settings import GatewaySettings
from molecule_runtime.runtimes.hermes.installation import find_hermes


@pytest.fixture(autouse=True)
def _clean_process() -> Iterator[None]:
    yield
    engine_health.reset_for_test()
    known_secrets.reset_for_test()


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {
        "HERMES_HOME": str(tmp_path / "hermes"),
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
        "MOLECULE_ENGINES_DIR": str(tmp_path / "engines"),
        "MOLECULE_A2A_PLATFORM_ENABLED": "true",
        "API_SERVER_PORT": str(_free_port()),
        "MOLECULE_A2A_PLATFORM_PORT": str(_free_port()),
        "OPENROUTER_API_KEY": "router-canary-value",
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _program(folder: Path, text: str, interpreter: str = "/bin/sh") -> str:
    path = folder / "program"
    path.write_text(f"#!{interpreter}\n{text}\n")
    path.chmod(0o755)
    return str(path)


def _gateway(env: dict[str, str]) -> Gateway:
    return Gateway(GatewaySettings.read(env, "tiny"), env)


async def _refusal(env: dict[str, str]) -> str:
    gateway = _gateway(env)
    with pytest.raises(HermesError) as caught:
        await gateway.start()
    assert gateway.pid is None
    return str(caught.value)


async def test_hermes_is_found_where_the_installer_noted_it(env: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(HermesError, match="hermes is not installed: run"):
        find_hermes({**env, "PATH": ""})
    program = _program(tmp_path, "")
    folder = tmp_path / "engines" / "hermes"
    folder.mkdir(parents=True)
    note = {"engine": "hermes", "version": "0.19.0", "executable": program, "installed_at": "2026-01-01"}
    (folder / "engine.json").write_text(json.dumps(note))
    assert find_hermes(env) == Path(program)
    assert find_hermes({**env, "HERMES_BIN": "/bin/sh"}) == Path("/bin/sh")
    with pytest.raises(HermesError, match="HERMES_BIN names /nowhere"):
        find_hermes({**env, "HERMES_BIN": "/nowhere"})


@pytest.mark.parametrize("variable", ["API_SERVER_PORT", "MOLECULE_A2A_PLATFORM_PORT"])
async def test_a_port_that_is_taken_is_told(env: dict[str, str], variable: str) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        text = await _refusal({**env, "HERMES_BIN": "/bin/sh", variable: str(port)})
    assert text.startswith(f"port {port} of 127.0.0.1 cannot be used by hermes")
    assert text.endswith(f"or set {variable} to a free port.")


@pytest.fixture
def home(env: dict[str, str]) -> Path:
    path = Path(env["HERMES_HOME"])
    path.mkdir()
    return path


@pytest.fixture
def bare_python(tmp_path: Path) -> str:
    """An interpreter that has nothing but the standard library."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    return str(tmp_path / "bare/bin/python")


async def test_an_environment_without_the_http_library_is_told(
    env: dict[str, str], tmp_path: Path, bare_python: str
) -> None:
    program = _program(tmp_path, "", bare_python)
    text = await _refusal({**env, "HERMES_BIN": program})
    assert text == "hermes' environment has no aiohttp: install hermes-agent[messaging,mcp] there."


async def test_a_plugin_that_the_user_disabled_is_told(env: dict[str, str], home: Path) -> None:
    (home / "config.yaml").write_text("plugins: {disabled: [molecule-a2a]}")
    assert "plugins.disabled: remove it there." in await _refusal({**env, "HERMES_BIN": "/bin/sh"})


async def test_a_program_that_keeps_ending_is_started_again_and_then_wedged(
    env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(gateway_module, "FIRST_DELAY_SECONDS", 0.01)
    monkeypatch.setattr(gateway_module, "MAX_DELAY_SECONDS", 0.02)
    key = "cat $HERMES_HOME/.env; exit 7"
    gateway = _gateway({**env, "HERMES_BIN": _program(tmp_path, key)})
    await gateway.start()
    try:
        await _until(engine_health.is_wedged)
        assert engine_health.wedge_reason() == WEDGE_REASON
        with pytest.raises(HermesError, match=r"crashed 5 times in 5 minutes: read .*gateway\.log\.$"):
            await gateway.wait_ready(60)
    finally:
        await gateway.stop()
    lines = [record.getMessage() for record in caplog.records]
    assert sum("ended with code 7" in line for line in lines) >= 4
    assert "hermes: API_SERVER_ENABLED=true" in lines
    assert not [line for line in lines if "canary" in line or gateway.settings.api_key in line]


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_it_starts_on_the_event_loop_of_a_workspace_and_its_files_are_private(
    env: dict[str, str], tmp_path: Path, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    written = tmp_path / "written"
    program = _program(tmp_path, f"echo x >{written}.part; mv {written}.part {written}; sleep 60")

    async def started() -> None:
        gateway = _gateway({**env, "HERMES_BIN": program})
        await gateway.start()
        await _until(written.exists)
        await gateway.stop()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(started())
    assert written.stat().st_mode & 0o777 == 0o600


async def test_a_stop_ends_the_whole_group_whatever_the_code(
    env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(gateway_module, "STOP_SECONDS", 0.5)
    caplog.set_level(logging.INFO)
    text = "trap '' TERM; sleep 60 & echo $! >child; echo ready; while :; do wait; done"
    program = _program(tmp_path, f"cd {tmp_path}; {text}")
    gateway = _gateway({**env, "HERMES_BIN": program})
    await gateway.start()
    await _until(lambda: "hermes: ready" in caplog.text)
    child, leader = int((tmp_path / "child").read_text()), gateway.pid
    assert leader is not None
    assert os.getpgid(child) == leader
    await gateway.stop()
    await gateway.stop()
    assert gateway.pid is None
    await _until(lambda: not _runs(child))
    assert "starts again" not in caplog.text
    assert not engine_health.is_wedged()
    assert not (Path(env["HERMES_HOME"]) / orphan_processes.NOTE).exists()


SUPERVISOR = """
import asyncio, os, sys
from molecule_runtime.runtimes.hermes.gateway import Gateway
from molecule_runtime.runtimes.hermes.gateway_settings import GatewaySettings

async def main():
    gateway = Gateway(GatewaySettings.read(os.environ, "tiny"))
    await gateway.start()
    print(gateway.pid, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


async def test_a_gateway_ends_with_a_supervisor_that_is_killed(env: dict[str, str], tmp_path: Path) -> None:
    env = {**env, "HERMES_BIN": _program(tmp_path, "exec sleep 60")}
    supervisor = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SUPERVISOR, env=env, stdout=asyncio.subprocess.PIPE
    )
    assert supervisor.stdout is not None
    pid = int(await asyncio.wait_for(supervisor.stdout.readline(), 20))
    await _until(lambda: _command(pid) == ["sleep", "60"])
    supervisor.kill()
    await supervisor.wait()
    await _until(lambda: not _runs(pid))


async def test_a_gateway_of_a_runtime_that_was_killed_is_ended_first(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    left = await asyncio.create_subprocess_exec("sleep", "60", start_new_session=True)
    orphan_processes.note(home, left.pid)
    await asyncio.to_thread(orphan_processes.end, home, 5.0)
    assert left.returncode is None, "its supervisor, this process, still runs"
    noted = json.loads((home / orphan_processes.NOTE).read_text())
    noted["supervisor"][1] = "0"
    (home / orphan_processes.NOTE).write_text(json.dumps(noted))
    await asyncio.to_thread(orphan_processes.end, home, 5.0)
    assert await left.wait() != 0
    assert "is left from an earlier run" in caplog.text
    assert not (home / orphan_processes.NOTE).exists()


def test_the_gateway_inherits_no_key(tmp_path: Path) -> None:
    env = {
        "PATH": "/bin",
        "HOME": str(tmp_path / "missing"),
        "HERMES_MAX_ITERATIONS": "5",
        "HERMES_CUSTOM_API_KEY": "no",
        "OPENAI_API_KEY": "no",
        "MOLECULE_WORKSPACE_TOKEN": "no",
        "LC_ALL": "C",
    }
    environment = child_environment(env, tmp_path)
    assert set(environment) == {
        "PATH",
        "HOME",
        "HERMES_HOME",
        "HERMES_MAX_ITERATIONS",
        "LC_ALL",
        "PYTHONUNBUFFERED",
    }
    assert Path(environment["HOME"]).is_dir()


def _command(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - processes and logs signal nobody
            await asyncio.sleep(0.01)
