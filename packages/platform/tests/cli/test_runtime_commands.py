"""`molecule runtime`: engines are installed whole or not at all, here from wheels of a toy engine."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from molecule_platform.cli import engine_environments, package_installer, progress
from molecule_wire import engines
from molecule_wire.engines import Engine
from tests.rows import each_row

Molecule = Callable[..., Any]

UV_FOLDER = Path(__file__).parents[4] / ".tools" / "uv" / "bin"
TOY = Engine("toy", "toy-engine", ("talk",), "1.1.0", "toy", ((3, 11), (9, 0)))
OLD = replace(TOY, version="1.0.0")
# The program in a process of its own, with the toy as its only engine.
PROGRAM = """
import json, sys
from molecule_wire import engines
engines.ENGINES = {{"toy": engines.{toy!r}}}
from molecule_platform.cli.main import main
main()
"""
SLOW_UV = """#!/bin/sh
for last; do :; done
mkdir -p "$last/bin"
touch "$MARK"
for _ in $(seq 1000); do
    [ -e "$MARK.go" ] && break
    sleep 0.02
done
touch "$last/late"
"""


def make_wheel(folder: Path, version: str, program: str) -> None:
    info = f"toy_engine-{version}.dist-info"
    files = {
        "toy_engine.py": program,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: toy-engine\nVersion: {version}\n"
        "Provides-Extra: talk\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\ntoy = toy_engine:main\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / f"toy_engine-{version}-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that serves as the package index; version 2.0.0 does not run."""
    folder = tmp_path_factory.mktemp("wheels")
    for version in ("1.0.0", "1.1.0"):
        make_wheel(folder, version, f"def main():\n    print('Toy Engine v{version} (of today)')\n")
    make_wheel(folder, "2.0.0", "def main():\n    raise SystemExit('no toy here')\n")
    make_wheel(folder, "3.0.0", "def main():\n    print('Toy Engine v13.0.0')\n")
    return folder


@pytest.fixture
def place(tmp_path: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the toy; packages come from the wheels, by uv where it is there, which is faster."""
    for name in os.environ:
        if name.startswith(("PIP_", "UV_", "MOLECULE_")):
            monkeypatch.delenv(name)
    for tool in ("PIP", "UV"):
        monkeypatch.setenv(f"{tool}_NO_INDEX", "1")
        monkeypatch.setenv(f"{tool}_FIND_LINKS", str(wheels))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{UV_FOLDER}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("MOLECULE_ENGINES_DIR", str(tmp_path / "engines"))
    monkeypatch.setattr(engines, "ENGINES", {"toy": TOY})
    return tmp_path / "engines" / "toy"


@pytest.fixture
def pin(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Pin the toy to another version."""
    return lambda version: monkeypatch.setattr(engines, "ENGINES", {"toy": replace(TOY, version=version)})


@pytest.fixture
def old(place: Path, molecule: Molecule, pin: Callable[[str], None]) -> Path:
    """The executable of the toy's version 1.0.0, which is installed; 1.1.0 is what is pinned."""
    pin("1.0.0")
    done = molecule("runtime", "install", "toy", "--json")
    assert (done.code, done.err) == (0, "")
    pin("1.1.0")
    return Path(done.json()["executable"])


def says(executable: Path) -> str:
    return subprocess.run([executable, "--version"], check=True, capture_output=True, text=True).stdout


def found() -> engines.InstalledEngine:
    installed = engines.installed("toy", os.environ)
    assert installed is not None
    return installed


def start(*arguments: str, toy: Engine = TOY, **environ: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM.format(toy=toy), "runtime", "install", "toy", *arguments]
    return subprocess.Popen(
        command, env=os.environ | environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def interrupted(tmp_path: Path, number: int) -> subprocess.Popen[str]:
    """An install that gets a signal while its installer writes."""
    slow = tmp_path / "slow"
    slow.mkdir()
    (slow / "uv").write_text(SLOW_UV)
    (slow / "uv").chmod(0o755)
    mark = tmp_path / "mark"
    path = f"{slow}{os.pathsep}{os.environ['PATH']}"
    process = start("--json", PATH=path, MARK=str(mark))
    deadline = time.monotonic() + 20
    while not mark.exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(number)
    return process


def test_nothing_is_installed_at_first_and_the_list_says_how_to(place: Path, molecule: Molecule) -> None:
    listed = molecule("runtime", "list", environ={"HOME": str(place.parent.parent)})
    assert listed.code == 0
    assert "toy" in listed.out
    assert "1.1.0" in listed.out
    assert "not installed" in listed.out
    assert "~/engines/toy" in listed.out
    assert "molecule runtime install toy" in listed.out
    [row] = molecule("runtime", "list", "--json").json()
    assert (row["status"], row["installed"], row["place"]) == ("not installed", None, str(place))
    assert not place.parent.exists()


def test_an_engine_is_installed_with_progress_and_a_second_time_nothing_is_done(
    place: Path, molecule: Molecule
) -> None:
    done = molecule("runtime", "install", "toy")
    assert done.code == 0
    installed = found()
    assert done.out.splitlines()[1] == f"  {installed.executable}"
    assert "Installing toy-engine 1.1.0" in done.err
    assert "Toy Engine v1.1.0" in says(installed.executable)
    assert sorted(path.name for path in place.iterdir()) == [
        installed.executable.parent.parent.name,
        "engine.json",
    ]
    assert json.loads((place / "engine.json").read_text()) == installed.as_json()

    again = molecule("runtime", "install", "toy")
    assert again.code == 0
    assert "toy 1.1.0 is installed already" in again.out
    assert again.err == ""
    told = molecule("runtime", "install", "toy", "--json")
    assert told.json() == installed.as_json() | {"changed": False, "replaced": None}
    assert "1.1.0" in molecule("runtime", "list").out


def test_a_newer_pin_replaces_what_is_installed_and_the_old_environment_goes(
    old: Path, place: Path, molecule: Molecule
) -> None:
    kept = place / "notes"
    kept.mkdir()
    [row] = molecule("runtime", "list", "--json").json()
    assert (row["status"], row["installed"], row["pinned"]) == ("outdated", "1.0.0", "1.1.0")
    assert "brings toy to 1.1.0" in molecule("runtime", "list").out
    done = molecule("runtime", "install", "toy")
    assert "toy 1.1.0 is installed in place of 1.0.0" in done.out
    assert "1.1.0" in says(found().executable)
    assert not old.exists()
    assert kept.exists()


def test_a_damaged_engine_is_shown_and_mended(
    old: Path, molecule: Molecule, pin: Callable[[str], None]
) -> None:
    pin("1.0.0")
    old.unlink()
    assert molecule("runtime", "list", "--json").json()[0]["status"] == "damaged"
    assert "1.0.0 (damaged)" in molecule("runtime", "list").out
    assert molecule("runtime", "install", "toy", "--json").json()["changed"] is True
    assert "1.0.0" in says(found().executable)


def test_an_engine_that_says_nothing_is_given_up(
    place: Path, molecule: Molecule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_environments, "VERIFY_SECONDS", 0.0)
    failed = molecule("runtime", "install", "toy", "--json")
    assert json.loads(failed.err)["code"] == "engine-broken"
    assert not place.parent.exists()


def test_an_executable_of_ones_own_is_named_in_the_file_and_stays(place: Path, molecule: Molecule) -> None:
    own = place.parent.parent / "toy"
    own.touch(mode=0o755)
    place.mkdir(parents=True)
    named = engines.InstalledEngine("toy", "1.1.0", own, "2026-01-31T10:15:30.123Z")
    (place / "engine.json").write_text(json.dumps(named.as_json()))
    assert molecule("runtime", "list", "--json").json()[0]["status"] == "installed"
    assert molecule("runtime", "install", "toy", "--json").json()["changed"] is False
    assert molecule("runtime", "install", "toy", "--force", "--json").json()["changed"] is True
    assert own.exists()


def test_force_installs_anew(old: Path, molecule: Molecule, pin: Callable[[str], None]) -> None:
    pin("1.0.0")
    done = molecule("runtime", "install", "toy", "--force", "--json").json()
    assert (done["changed"], done["replaced"]) == (True, "1.0.0")
    assert done["executable"] != str(old)
    assert not old.exists()


@each_row(
    ("version", "code", "sentence"),
    [
        ("9.9.9", "version-missing", "your package index does not have all of toy-engine[talk]==9.9.9"),
        ("2.0.0", "engine-broken", "`toy --version` fails there"),
        ("3.0.0", "engine-broken", "`toy --version` does not say 3.0.0"),
    ],
)
def test_a_failed_install_leaves_the_old_one_and_nothing_else(
    old: Path,
    place: Path,
    molecule: Molecule,
    pin: Callable[[str], None],
    version: str,
    code: str,
    sentence: str,
) -> None:
    before = sorted(place.iterdir())
    pin(version)
    failed = molecule("runtime", "install", "toy", "--json")
    assert (failed.code, failed.out) == (1, "")
    told = json.loads(failed.err)
    assert told["code"] == code
    assert sentence in told["error"]
    assert sorted(place.iterdir()) == before
    assert "1.0.0" in says(old)
    assert found().version == "1.0.0"


def test_a_failed_first_install_leaves_no_folder(
    place: Path, molecule: Molecule, pin: Callable[[str], None]
) -> None:
    pin("9.9.9")
    failed = molecule("runtime", "install", "toy")
    assert failed.code == 1
    assert failed.err.splitlines()[-1].startswith(
        "molecule: your package index does not have all of toy-engine"
    )
    assert not place.parent.exists()


@pytest.mark.long  # Python's venv takes its time to bring pip
def test_pip_does_it_where_there_is_no_uv(place: Path, molecule: Molecule) -> None:
    # Python alone on PATH: what a machine without uv has.
    done = molecule("runtime", "install", "toy", environ={"PATH": os.defpath})
    assert done.code == 0, done.err
    assert "Installing toy-engine 1.1.0 with pip" in done.err
    assert "1.1.0" in says(found().executable)


def test_a_killed_install_leaves_the_old_one_and_the_next_one_cleans_up(
    old: Path, place: Path, tmp_path: Path
) -> None:
    with interrupted(tmp_path, signal.SIGKILL) as killed:
        # What the killed one started still writes into its folder, so the next one waits for it.
        assert (len(list(place.iterdir())), found().version) == (4, "1.0.0")
        assert "1.0.0" in says(old)
        with start() as following:
            assert following.stderr is not None
            assert following.stderr.readline() == "molecule: Waiting for another install of toy …\n"
            (tmp_path / "mark.go").touch()
            out, err = following.communicate(timeout=60)
        assert following.returncode == 0, err
        assert "toy 1.1.0 is installed in place of 1.0.0" in out
        assert sorted(path.name for path in place.iterdir()) == [found().executable.parts[-3], "engine.json"]
        killed.communicate(timeout=60)


def test_an_install_that_is_told_to_stop_leaves_nothing(place: Path, tmp_path: Path) -> None:
    with interrupted(tmp_path, signal.SIGTERM) as stopped:
        out, err = stopped.communicate(timeout=60)
    assert (stopped.returncode, out) == (130, "")
    assert json.loads(err) == {"error": "stopped; nothing was changed", "code": "aborted"}
    assert not place.parent.exists()


def test_two_installs_at_once_are_one_install(place: Path) -> None:
    with start("--json") as one, start("--json") as other:
        told = [json.loads(process.communicate(timeout=60)[0]) for process in (one, other)]
    assert sorted(result["changed"] for result in told) == [False, True]
    assert told[0]["executable"] == told[1]["executable"]
    assert sorted(path.name for path in place.iterdir()) == [found().executable.parts[-3], "engine.json"]


def test_an_unknown_engine_is_told_which_there_are(molecule: Molecule) -> None:
    failed = molecule("runtime", "install", "herpes")
    assert failed.code == 1
    assert failed.err == "molecule: there is no engine 'herpes' to install: choose one of hermes\n"


@each_row("bounds", [((9, 0), (9, 9)), ((2, 7), (3, 11))])
def test_a_python_that_does_not_suit_the_engine_is_told_before_anything_is_made(
    place: Path, molecule: Molecule, monkeypatch: pytest.MonkeyPatch, bounds: Any
) -> None:
    monkeypatch.setattr(engines, "ENGINES", {"toy": replace(TOY, python=bounds)})
    failed = molecule("runtime", "install", "toy", "--json")
    assert failed.code == 1
    told = json.loads(failed.err)
    assert told["code"] == "python-version"
    assert f"needs Python {bounds[0][0]}.{bounds[0][1]} to " in told["error"]
    assert not place.parent.exists()


def test_a_folder_that_cannot_be_made_is_named(place: Path, molecule: Molecule) -> None:
    place.parent.write_text("a file where the folder of engines should be")
    failed = molecule("runtime", "install", "toy", "--json")
    assert failed.code == 1
    told = json.loads(failed.err)
    assert told["code"] == "not-writable"
    assert f"{place} cannot be written" in told["error"]
    assert "MOLECULE_ENGINES_DIR" in told["error"]


def test_a_full_disk_is_told(place: Path, molecule: Molecule, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: Any, **_more: Any) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(package_installer, "run", full)
    failed = molecule("runtime", "install", "toy", "--json")
    assert (failed.code, json.loads(failed.err)["code"]) == (1, "disk-full")
    assert not place.parent.exists()


# What uv 0.13 and pip 23 really said, cut to what matters.
SAID = [
    (
        "disk-full",
        "error: Failed to install: aiohttp-3.14.1.whl (aiohttp==3.14.1)\n  cause: failed to copy file from a "
        "to b: No space left on device (os error 28)",
    ),
    (
        "disk-full",
        "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
    ),
    (
        "index-unreachable",
        "error: Request failed after 3 retries in 8.5s\n  cause: Failed to fetch: https://nowhere.invalid/simple/x/"
        "\n  cause: client error (Connect)\n  cause: dns error",
    ),
    (
        "index-unreachable",
        "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError('[Errno 111]')'\n"
        "ERROR: Could not find a version that satisfies the requirement x==1 (from versions: none)\n"
        "ERROR: No matching distribution found for x==1",
    ),
    (
        "version-missing",
        "ERROR: Could not find a version that satisfies the requirement x==1 (from versions: 2)\n"
        "ERROR: No matching distribution found for x==1",
    ),
    (
        "index-certificate",
        "error: Failed to fetch: https://index.invalid\n  cause: invalid peer certificate: UnknownIssuer",
    ),
    (
        "index-refused",
        "ERROR: HTTP error 403\nERROR: 403 Client Error: Forbidden for url: https://index.invalid/",
    ),
    ("no-venv", "The virtual environment was not created successfully because ensurepip is not available."),
    ("not-writable", "error: failed to open file `/cache/uv/x`: Permission denied (os error 13)"),
    ("install-failed", "Collecting x\nERROR: Failed building wheel for x."),
    ("install-failed", ""),
]


@each_row(("code", "said"), SAID)
def test_every_failure_of_an_installer_is_one_sentence(code: str, said: str, tmp_path: Path) -> None:
    uv = package_installer.PackageInstaller("uv", "uv")
    problem = package_installer.explain(package_installer.InstallerFailed(said), uv, "x==1", tmp_path)
    assert problem.code == code
    assert "\n" not in str(problem)
    assert "{" not in str(problem)
    assert problem.extras["output"] == said.splitlines()


def test_the_installer_follows_where_the_user_set_up_an_index(tmp_path: Path) -> None:
    uv = tmp_path / "uv"
    uv.touch(mode=0o755)
    path = {"PATH": str(tmp_path)}
    assert package_installer.choose(path).program == str(uv)
    assert package_installer.choose(path | {"PIP_INDEX_URL": "https://mirror"}).name == "pip"
    both = {"PIP_INDEX_URL": "https://mirror", "UV_DEFAULT_INDEX": "https://mirror"}
    assert package_installer.choose(path | both).name == "uv"
    pip = package_installer.choose({"PATH": "/nowhere"})
    assert pip.create_command(Path("/e")) == [sys.executable, "-m", "venv", "/e"]
    assert pip.install_command(Path("/e"), "x==1")[:4] == ["/e/bin/python", "-m", "pip", "install"]


def test_the_installer_gets_no_secret_of_the_platform_and_nothing_that_leads_it_astray() -> None:
    given = {
        "PATH": "/bin",
        "ADMIN_TOKEN": "x",
        "MOLECULE_ADMIN_TOKEN": "x",
        "PYTHONPATH": "/x",
        "PIP_USER": "1",
    }
    assert set(package_installer.environment(given)) == {"PATH", "LC_ALL", "PYTHONUNBUFFERED"}


@each_row(
    ("line", "words"),
    [
        ("Collecting openai==2.24.0 (from hermes-agent)", "collecting openai==2.24.0"),
        ("Downloading https://index.invalid/a/pillow-12.whl (6.8 MB)", "downloading pillow-12.whl (6.8 MB)"),
        ("Downloading pillow (6.8MiB)", "downloading pillow (6.8MiB)"),
        ("Resolved 87 packages in 3.10s", "resolved 87 packages"),
        ("Installed 87 packages in 174ms", "compiling 87 packages"),
        ("Installing collected packages: a, b", "installing what was downloaded"),
        (
            "WARNING: Retrying (…) after connection broken by …",
            "the package index does not answer; trying again",
        ),
        ("+ aiohttp==3.14.1", ""),
    ],
)
def test_lines_of_the_installer_become_progress(line: str, words: str) -> None:
    assert package_installer.busy_with(line) == words


def test_on_a_terminal_each_step_is_a_line_that_fits() -> None:
    drawing = progress._Drawing()
    drawing.step("Making an environment")
    drawing.step("Installing toy-engine")
    drawing.detail("downloading " + "a-very-long-name-" * 10)
    console = Console(file=io.StringIO(), width=80, record=True)
    console.print(drawing)
    first, second = console.export_text().splitlines()
    assert first.startswith("✓ Making an environment")
    assert "Installing toy-engine  downloading a-very" in second
    assert (first.rstrip()[-3:], second.rstrip()[-3:], len(second)) == ("0 s", "0 s", 80)


def test_in_a_log_long_work_says_now_and_then_that_it_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "STILL_SECONDS", 0.02)
    with progress.shown(as_json=False) as shown:
        shown.step("Installing toy-engine")
        shown.detail("downloading pillow")
        time.sleep(0.1)
    first, second, *_more = capsys.readouterr().err.splitlines()
    assert first == "molecule: Installing toy-engine …"
    assert second == "molecule: downloading pillow … 0 s"
    assert (progress.duration(59.6), progress.duration(61)) == ("1 min 0 s", "1 min 1 s")


@pytest.mark.long  # downloads some 60 MB
@pytest.mark.timeout(900)
def test_the_real_hermes_is_installed_and_says_its_version(tmp_path: Path) -> None:
    environ = os.environ | {"MOLECULE_ENGINES_DIR": str(tmp_path), "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "molecule_platform.cli.main", "runtime", "install", "hermes", "--json"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    installed = engines.installed("hermes", environ)
    assert installed is not None
    said = subprocess.run([installed.executable, "--version"], env=environ, capture_output=True, text=True)
    assert f"v{engines.ENGINES['hermes'].version}" in said.stdout
    shutil.rmtree(tmp_path / "hermes")
