"""`molecule up`: its one screen, its faults in one sentence, its clean end."""

import asyncio
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from molecule_platform.cli import serving, welcome
from molecule_platform.cli import up as starting
from molecule_platform.settings import load
from molecule_platform.testing import servers

COMMAND = (sys.executable, "-m", "molecule_platform.cli.main", "up")


def up(*flags: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """A start that ends by itself."""
    return subprocess.run(
        [*COMMAND, *flags], env=dict(os.environ) | environ, capture_output=True, text=True, timeout=30
    )


def assert_one_sentence(done: subprocess.CompletedProcess[str], *parts: str) -> None:
    """Exit code 1, nothing on standard output, and a last line that says what to do."""
    assert (done.returncode, done.stdout) == (1, "")
    assert "Traceback" not in done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("molecule: ")
    for part in parts:
        assert part in last


@pytest.fixture
def data(tmp_path: Path) -> str:
    return str(tmp_path / "data")


@pytest.fixture
def port() -> str:
    return str(servers.free_port())


def test_a_port_in_use_is_one_sentence(data: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = up("--port", str(port), "--data-dir", data)
        assert_one_sentence(
            done,
            f"port {port} on 127.0.0.1 is taken: stop what uses it or choose another with --port",
        )
        as_json = up("--port", str(port), "--data-dir", data, "--json")
    assert json.loads(as_json.stderr)["code"] == "port-taken"


def test_an_address_of_another_machine_is_one_sentence(data: str, port: str) -> None:
    assert_one_sentence(
        up("--host", "203.0.113.9", "--port", port, "--data-dir", data), "203.0.113.9", "--host"
    )


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path, port: str) -> None:
    (tmp_path / "file").write_text("not a folder")
    folder = tmp_path / "file" / "data"
    assert_one_sentence(up("--port", port, "--data-dir", str(folder)), str(folder), "--data-dir")


def test_a_broken_setting_is_one_sentence(data: str, port: str) -> None:
    done = up("--port", port, "--data-dir", data, MESSAGE_MAX_ATTEMPTS="often")
    assert_one_sentence(done, "MESSAGE_MAX_ATTEMPTS must be a whole number")


def test_a_misspelled_setting_is_told_before_the_start(data: str) -> None:
    done = up("--port", "1", "--host", "203.0.113.9", "--data-dir", data, MOLECULE_DATADIR="x")
    assert "molecule: MOLECULE_DATADIR is not a setting: check its spelling." in done.stderr


def test_a_database_that_does_not_answer_is_one_sentence(data: str, port: str) -> None:
    url = f"postgresql://user:sesame@127.0.0.1:{servers.free_port()}/db"
    done = up("--port", port, "--data-dir", data, DATABASE_URL=url)
    assert_one_sentence(done, "PostgreSQL")
    assert "sesame" not in done.stderr


def test_a_bus_that_does_not_answer_is_one_sentence(data: str, port: str) -> None:
    done = up("--port", port, "--data-dir", data, NATS_URL=f"nats://127.0.0.1:{servers.free_port()}")
    assert_one_sentence(done, "NATS_URL")


def test_a_bad_encryption_key_is_one_sentence(data: str, port: str) -> None:
    done = up("--port", port, "--data-dir", data, SECRETS_ENCRYPTION_KEY="short")
    assert_one_sentence(done, "SECRETS_ENCRYPTION_KEY")


def test_a_second_start_on_the_same_folder_names_the_first(platform: Any, port: str) -> None:
    done = up("--port", port, "--data-dir", str(platform.data_dir))
    assert_one_sentence(done, f"(process {platform.process.pid})", "--data-dir")


def test_up_serves_prints_one_line_of_json_and_ends_cleanly(
    start: Callable[..., Any], tmp_path: Path
) -> None:
    with start(tmp_path / "data") as platform:
        assert platform.told.keys() == {"url", "login_url", "data_dir", "pid"}
        assert platform.told["pid"] == platform.process.pid
        with urllib.request.urlopen(f"{platform.url}/health", timeout=30) as answer:
            assert answer.status == 200
            assert answer.headers.get("Server") is None
        assert platform.stop() == 0
        assert platform.process.stdout.read() == ""


def test_everything_that_up_writes_is_for_the_owner_alone(platform: Any) -> None:
    found = [platform.data_dir, *platform.data_dir.rglob("*")]
    opened = [path.name for path in found if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)]
    assert opened == []


def test_ctrl_c_stops_and_the_next_start_continues(
    start: Callable[..., Any], molecule: Callable[..., Any], tmp_path: Path
) -> None:
    with start(tmp_path / "data") as platform:
        here = ("--url", platform.url, "--data-dir", str(platform.data_dir))
        assert molecule("workspace", "create", "keeper", *here).code == 0
        platform.process.send_signal(signal.SIGINT)
        assert platform.process.wait(20) == 0
    with start(tmp_path / "data") as again:
        there = ("--url", again.url, "--data-dir", str(again.data_dir))
        assert molecule("workspace", "show", "keeper", *there).code == 0


def test_a_second_ctrl_c_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    stop = asyncio.Event()
    on_signal = starting._stopper(stop, None)
    on_signal()
    assert (stop.is_set(), ended) == (True, [])
    on_signal()
    assert ended == [130]


def test_open_hands_the_login_link_to_the_browser(start: Callable[..., Any], tmp_path: Path) -> None:
    browser, opened = tmp_path / "browser", tmp_path / "opened"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {opened}.new && mv {opened}.new {opened}\n')
    browser.chmod(0o755)
    with start(tmp_path / "data", "--open", BROWSER=f"{browser} %s") as platform:
        deadline = time.monotonic() + 30
        while not opened.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert opened.read_text() == platform.told["login_url"]


def test_the_screen_has_the_link_whole_and_says_how_to_stop(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    settings, _warnings = load({"PORT": 9999, "MOLECULE_DATA_DIR": tmp_path}, {}, {})
    link = "http://127.0.0.1:9999/auth/login?code=" + "x" * 43
    welcome.show(settings, "http://127.0.0.1:9999", link, ("lead", "writer"))
    out = capsys.readouterr().out
    assert link in out
    assert "Ctrl-C stops everything" in out
    assert "lead, writer" in out
    assert re.search(r"molecule send lead .* --url http://127.0.0.1:9999 --data-dir", out)
    assert "SQLite" in out


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("0.0.0.0", "http://127.0.0.1:80"),
        ("::", "http://[::1]:80"),
        ("::1", "http://[::1]:80"),
        ("box.example", "http://box.example:80"),
    ],
)
def test_the_url_is_one_that_a_person_on_this_machine_can_open(host: str, url: str) -> None:
    assert serving.base_url(host, 80) == url
