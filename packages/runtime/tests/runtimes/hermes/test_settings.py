"""What the environment says, and what holds without it."""

import subprocess
import sys
from pathlib import Path

import pytest

from molecule_runtime.runtimes.hermes import executor
from molecule_runtime.runtimes.hermes.executor import _bool_env
from packages.runtime.tests.runtimes.hermes.gateways import make_executor


def test_an_empty_environment_means_chat_on_the_usual_ports() -> None:
    made = make_executor()
    assert made._use_plugin is False
    assert made._base == "http://127.0.0.1:8642/v1"
    assert (made._plugin_host, made._plugin_port) == ("127.0.0.1", 8645)
    assert (made._callback_host, made._callback_port) == ("127.0.0.1", 8646)
    assert (made._shared_secret, made._pending, made._started, made._session_id) == ("", {}, False, None)
    assert (made._reply_runner, made._reply_site) == (None, None)


@pytest.mark.parametrize("value", ["1", "TRUE", "Yes", "on", " on "])
def test_a_switch_is_on(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOLECULE_A2A_PLATFORM_ENABLED", value)
    assert _bool_env("MOLECULE_A2A_PLATFORM_ENABLED", False) is True
    assert make_executor()._use_plugin is True


@pytest.mark.parametrize("value", ["0", "no", "off", "maybe"])
def test_a_switch_is_off(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWITCH", value)
    assert _bool_env("SWITCH", True) is False


def test_a_blank_switch_has_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWITCH", " ")
    assert _bool_env("SWITCH", True) is True
    assert _bool_env("SWITCH", False) is False


def test_the_environment_wins_and_blank_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_API_BASE", "http://gateway:1/v1//")
    monkeypatch.setenv("MOLECULE_A2A_PLATFORM_PORT", "9999")
    monkeypatch.setenv("MOLECULE_A2A_CALLBACK_PORT", "  ")
    made = make_executor()
    assert (made._base, made._plugin_port, made._callback_port) == ("http://gateway:1/v1", 9999, 8646)


def test_constants_are_read_when_they_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "_DEFAULT_PLUGIN_PORT", 7)
    assert make_executor()._plugin_port == 7


@pytest.mark.parametrize("name", ["MOLECULE_A2A_PLATFORM_PORT", "MOLECULE_A2A_CALLBACK_PORT"])
def test_a_port_that_is_no_number_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "eighty")
    with pytest.raises(RuntimeError, match=f"^{name} must be an integer, got 'eighty'$"):
        make_executor()


def test_a_timeout_that_is_no_number_is_warned_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HERMES_REQUEST_TIMEOUT_SEC", "soon")
    assert make_executor()._settings.request_timeout is None
    assert "HERMES_REQUEST_TIMEOUT_SEC" in caplog.text


def test_importing_the_executor_loads_no_server_and_no_client() -> None:
    program = (
        "import sys, molecule_runtime.runtimes.hermes.executor\n"
        "heavy = {'httpx', 'starlette', 'uvicorn', 'a2a', 'aiohttp'}\n"
        "print(sorted(heavy & {name.partition('.')[0] for name in sys.modules}))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_the_template_image_imports_the_same_module() -> None:
    folder = Path(executor.__file__).parent / "template"
    program = (
        f"import sys; sys.path.insert(0, {str(folder)!r})\n"
        "import executor, molecule_runtime.runtimes.hermes.executor as ours\n"
        "print(executor is ours, executor.SECRET_HEADER)"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["True", "X-Molecule-A2A-Secret"]
