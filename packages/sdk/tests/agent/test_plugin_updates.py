"""A local plugin that changed since it was pinned: a program that starts goes on, a command is refused."""

import argparse
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from molecule_agent import RemoteAgentClient, errors
from molecule_agent.cli import plugins as commands
from molecule_agent.plugins.download import CACHE_FILE
from molecule_agent.testing import FakePlatform
from molecule_plugin.revocations import CachedRevocations, Revocations, RevokedPlugin, write_cache

ONE, TWO = b"name: demo\nversion: 1.0.0\n", b"name: demo\nversion: 2.0.0\n"
Start: TypeAlias = Callable[[], RemoteAgentClient]


@pytest.fixture
def fake() -> FakePlatform:
    return FakePlatform(unpinned_policy="float")


@pytest.fixture
def start(fake: FakePlatform, tmp_path: Path) -> Iterator[Start]:
    """A new start of one agent's program."""
    workspace_id = fake.create_workspace()
    started: list[RemoteAgentClient] = []

    def begin() -> RemoteAgentClient:
        client = RemoteAgentClient(
            workspace_id, "http://127.0.0.1:1", session=fake.session(), token_dir=tmp_path / "agent"
        )
        client.register()
        started.append(client)
        return client

    yield begin
    for client in started:
        client.close()


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def reports(fake: FakePlatform) -> int:
    return sum(seen.method == "POST" and seen.path.endswith("/plugins") for seen in fake.requests)


@pytest.mark.parametrize(
    ("update", "warning"),
    [
        ({"plugin.yaml": TWO, "a.txt": b"two"}, "version 1.0.0 is pinned, 2.0.0 is there now"),
        ({"plugin.yaml": ONE, "a.txt": b"two"}, "still version 1.0.0, with another content"),
        ({"plugin.yaml": ONE + b"hooks: [x]\n", "a.txt": b"one"}, "1.0.0, with another plugin.yaml"),
    ],
    ids=["version", "content", "manifest"],
)
def test_a_program_that_starts_goes_on_with_what_is_pinned_and_says_so_once(
    fake: FakePlatform, start: Start, caplog: pytest.LogCaptureFixture, update: dict[str, bytes], warning: str
) -> None:
    fake.add_plugin("demo", {"plugin.yaml": ONE, "a.txt": b"one"})
    path = start().install_plugin("demo")
    before = contents(path.parent.parent)
    fake.add_plugin("demo", update)
    caplog.clear()
    again = start()
    assert again.install_plugin("demo") == path == again.install_plugin("demo")
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warning in line
    assert "plugin demo: local://demo has changed since it was pinned" in line
    assert "python -m molecule_agent install demo --upgrade" in line
    assert contents(path.parent.parent) == before
    assert again.verify_plugins() == {"demo": []}
    assert reports(fake) == 1


def test_whoever_asks_for_a_certain_content_is_refused_another(fake: FakePlatform, start: Start) -> None:
    fake.add_plugin("demo", {"plugin.yaml": ONE, "a.txt": b"hello\n"})
    running = start()
    path = running.install_plugin("demo")
    fake.add_plugin("demo", {"plugin.yaml": TWO, "a.txt": b"hello\n"})
    reason = "plugins.lock pins version '1.0.0', found '2.0.0'; upgrade to take the new one"
    digest = "e869ce07cf8aad51109fad329f5f6a0c367d579b326f70442d260dadaa185641"
    with pytest.raises(errors.LockMismatchError, match=reason):
        start().install_plugin("demo", frozen=True)
    with pytest.raises(errors.LockMismatchError, match=reason):
        start().install_plugin("demo", sha256=digest)
    with pytest.raises(errors.LockMismatchError, match=reason):
        commands.install(start(), argparse.Namespace(name="demo"))
    with pytest.raises(errors.LockMismatchError, match=reason):
        running.install_plugin("demo")
    assert (path / "plugin.yaml").read_bytes() == ONE
    start().install_plugin("demo", upgrade=True)
    assert (path / "plugin.yaml").read_bytes() == TWO
    assert start().install_plugin("demo", frozen=True) == path


def test_the_pinned_version_must_be_here_whole_and_unrevoked(fake: FakePlatform, start: Start) -> None:
    fake.add_plugin("demo", {"plugin.yaml": ONE, "a.txt": b"one"})
    client = start()
    path = client.install_plugin("demo")
    fake.add_plugin("demo", {"plugin.yaml": TWO})
    revoked = Revocations(version=1, plugins=(RevokedPlugin("demo", ("1.0.0",), "it leaks"),))
    cache = client.token_file.with_name(CACHE_FILE)
    write_cache(cache, CachedRevocations(revoked, client._clock.time()))
    with pytest.raises(errors.PluginRevokedError, match="it leaks"):
        start().install_plugin("demo")
    cache.unlink()
    (path / "a.txt").unlink()
    with pytest.raises(errors.LockMismatchError):
        start().install_plugin("demo")


def test_another_commit_of_a_repository_is_refused_at_the_start_too(fake: FakePlatform, start: Start) -> None:
    source = "github://acme/demo"
    fake.add_plugin("demo", {"plugin.yaml": ONE}, source=source)
    start().install_plugin("demo", source=source)
    fake.add_plugin("demo", {"plugin.yaml": TWO}, source=source)
    with pytest.raises(errors.LockMismatchError, match="pins version"):
        start().install_plugin("demo", source=source)


def test_a_lock_that_pins_other_bytes_of_the_archive_keeps_working(
    fake: FakePlatform, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    fake.add_plugin("demo", {"plugin.yaml": ONE, "a.txt": b"one"})
    client = start()
    path = client.install_plugin("demo")
    lock_file = client.token_file.with_name("plugins.lock")
    lock: Any = json.loads(lock_file.read_text())
    lock["plugins"]["demo"]["archive_sha256"] = "0" * 64
    lock_file.write_text(json.dumps(lock))
    caplog.clear()
    assert start().install_plugin("demo", frozen=True) == path
    assert start().install_plugin("demo") == path
    assert not caplog.records
