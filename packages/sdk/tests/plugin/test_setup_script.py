"""`setup.sh`: an allow-list for its environment, a time limit, and nothing left running."""

import os
import time
from pathlib import Path

import psutil
import pytest

from molecule_plugin import setup_script
from molecule_plugin.setup_script import OUTPUT_BYTES, Setup, SetupOutcome, run_setup, setup_environment
from molecule_plugin.testing import build_plugin


def _setup(tmp_path: Path, script: str, **more: object) -> Setup:
    plugin = build_plugin(tmp_path, {"setup.sh": script})
    return Setup("demo", plugin, tmp_path / "configs", "ws-1", **more)  # type: ignore[arg-type]


def test_a_script_runs_in_the_plugins_directory_and_learns_where_it_is(tmp_path: Path) -> None:
    setup = _setup(tmp_path, 'echo "$MOLECULE_PLUGIN_NAME $MOLECULE_WORKSPACE_ID"; pwd > here; exit 0\n')
    outcome = run_setup(setup)
    assert (outcome.ran, outcome.exit_code, outcome.warning) == (True, 0, "")
    assert outcome.output == "demo ws-1\n"
    assert (setup.plugin_dir / "here").read_text().strip() == str(setup.plugin_dir.resolve())


def test_the_environment_is_an_allow_list(tmp_path: Path) -> None:
    ours = {
        "PATH": "/bin",
        "LC_ALL": "C",
        "PIP_INDEX_URL": "i",
        "https_proxy": "p",
        "NPM_CONFIG_CACHE": "n",
        "MOLECULE_TOKEN": "secret",
        "ANTHROPIC_API_KEY": "secret",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }
    passed = setup_environment(Setup("demo", tmp_path / "p", tmp_path / "c", "ws"), ours)
    assert passed == {
        "PATH": "/bin",
        "LC_ALL": "C",
        "PIP_INDEX_URL": "i",
        "https_proxy": "p",
        "NPM_CONFIG_CACHE": "n",
        "CONFIGS_DIR": str(tmp_path / "c"),
        "MOLECULE_PLUGIN_NAME": "demo",
        "MOLECULE_PLUGIN_DIR": str(tmp_path / "p"),
        "MOLECULE_WORKSPACE_ID": "ws",
    }


@pytest.mark.parametrize(
    ("declared", "approved", "passed"),
    [
        (("KEY",), ("KEY",), "ours"),
        (("KEY",), {"KEY": "given"}, "given"),
        (("KEY",), (), None),
        ((), ("KEY",), None),
        (("KEY",), ("OTHER",), None),
    ],
)
def test_a_variable_passes_when_it_is_declared_and_approved(
    tmp_path: Path, declared: tuple[str, ...], approved: dict[str, str] | tuple[str, ...], passed: str | None
) -> None:
    setup = Setup("demo", tmp_path, tmp_path, declared=declared, approved=approved)
    assert setup_environment(setup, {"KEY": "ours"}).get("KEY") == passed


def test_a_failing_script_is_a_warning_with_the_beginning_of_what_it_said(tmp_path: Path) -> None:
    outcome = run_setup(_setup(tmp_path, "printf 'x%.0s' {1..300} >&2; exit 3\n"))
    assert outcome.warning == f"setup.sh exited 3: {'x' * 200}"


def test_a_script_that_takes_too_long_is_killed_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = _setup(tmp_path, "sleep 60 & echo $! > child; sleep 60\n")
    follow = setup_script._CapturedOutput.follow

    def follow_once_it_has_a_child(captured: setup_script._CapturedOutput, deadline: float) -> bool:
        _wait_until_named(setup.plugin_dir / "child")
        return follow(captured, deadline)

    monkeypatch.setattr(setup_script._CapturedOutput, "follow", follow_once_it_has_a_child)
    began = time.monotonic()
    outcome = run_setup(setup, limit=0.5)
    assert time.monotonic() - began < 50
    assert outcome.warning == "setup.sh timed out (0.5s)"
    _wait_until_gone(int((setup.plugin_dir / "child").read_text()))


def test_a_child_left_in_the_background_is_killed_too(tmp_path: Path) -> None:
    setup = _setup(tmp_path, "sleep 60 & echo $! > child; exit 0\n")
    outcome = run_setup(setup, limit=30)
    assert (outcome.exit_code, outcome.warning) == (0, "")
    _wait_until_gone(int((setup.plugin_dir / "child").read_text()))


def test_an_interrupt_leaves_nothing_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setup = _setup(tmp_path, "echo $$ > child; sleep 60\n")

    def interrupted(self: object, deadline: float) -> bool:
        _wait_until_named(setup.plugin_dir / "child")
        raise KeyboardInterrupt

    monkeypatch.setattr(setup_script._CapturedOutput, "follow", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_setup(setup)
    _wait_until_gone(int((setup.plugin_dir / "child").read_text()))


def test_a_flood_of_output_is_read_and_cut(tmp_path: Path) -> None:
    outcome = run_setup(_setup(tmp_path, "head -c 1000000 /dev/zero | tr '\\0' 'x'; exit 0\n"))
    assert (outcome.exit_code, len(outcome.output)) == (0, OUTPUT_BYTES)


def test_a_script_can_be_switched_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOLECULE_PLUGIN_SETUP", "off")
    setup = _setup(tmp_path, "touch ran\n")
    assert run_setup(setup) == SetupOutcome()
    assert not (setup.plugin_dir / "ran").exists()


def test_a_link_is_not_run(tmp_path: Path) -> None:
    setup = _setup(tmp_path, "touch ran\n")
    os.rename(setup.plugin_dir / "setup.sh", tmp_path / "elsewhere.sh")
    (setup.plugin_dir / "setup.sh").symlink_to(tmp_path / "elsewhere.sh")
    assert run_setup(setup) == SetupOutcome()


def test_a_missing_bash_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    outcome = run_setup(_setup(tmp_path, "exit 0\n"))
    assert not outcome.ran
    assert outcome.warning.startswith("setup.sh cannot be run:")


def _wait_until_named(child: Path) -> None:
    """Wait until the script has written the number of a process there."""
    deadline = time.monotonic() + 30
    while not child.exists() or not child.read_text():
        assert time.monotonic() < deadline, "the script names no process"
        time.sleep(0.01)


def _wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 30
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, f"process {pid} still runs"
        time.sleep(0.02)
