"""The agent's token on disk: private, atomic, shared by processes, never emptied."""

import logging
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from molecule_agent import RemoteAgentClient, errors, token_store

HOLDER = """
import sys, time
from pathlib import Path
from molecule_agent.token_store import TokenStore
with TokenStore(Path(sys.argv[1])).locked(5):
    print("held", flush=True)
    sys.stdin.read()
"""
WRITER = """
import sys
from pathlib import Path
from molecule_agent.token_store import TokenStore
store = TokenStore(Path(sys.argv[1]))
for number in range(60):
    assert store.save_token(sys.argv[2] * 40 + str(number))
    assert (store.load_token() or "")[:1] in ("a", "b")
"""


def open_client(directory: Path) -> RemoteAgentClient:
    return RemoteAgentClient("w1", "http://127.0.0.1:1", token_dir=directory)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_saved_token_is_private_and_survives_a_restart(tmp_path: Path) -> None:
    client = open_client(tmp_path / "a" / "b")
    client.save_token("  secret-token\n")
    assert client.token_file.read_text() == "secret-token"
    assert mode_of(client.token_file) == 0o600
    assert mode_of(client.token_file.parent) == 0o700
    assert mode_of(tmp_path / "a" / "b" / ".store.lock") == 0o600
    assert open_client(tmp_path / "a" / "b").load_token() == "secret-token"


def test_an_empty_token_is_refused_and_leaves_the_old_one(tmp_path: Path) -> None:
    client = open_client(tmp_path)
    client.save_token("old")
    with pytest.raises(ValueError, match="refusing to save empty token"):
        client.save_token("  ")
    assert client.load_token() == client.token_file.read_text() == "old"


def test_a_missing_or_blank_or_unreadable_file_is_no_token(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    client = open_client(tmp_path)
    assert client.load_token() is None
    client.token_file.write_text(" \n")
    assert client.load_token() is None
    client.token_file.write_bytes(b"\xff\xfe")
    assert client.load_token() is None
    assert "cannot be read" in caplog.text


def test_wider_permissions_are_tightened_and_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = token_store.TokenStore(tmp_path)
    for _ in range(2):
        store.token_file.write_text("token")
        store.token_file.chmod(0o644)
        assert store.load_token() == "token"
        assert mode_of(store.token_file) == 0o600
    assert caplog.text.count("mode 0600") == 1


def test_two_processes_may_write_at_once_and_no_reader_sees_half_a_token(tmp_path: Path) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), letter]) for letter in ("a", "b")
    ]
    store = token_store.TokenStore(tmp_path)
    while any(writer.poll() is None for writer in writers):
        token = store.load_token()
        assert token is None or (set(token[:40]) in ({"a"}, {"b"}) and len(token) >= 41)
    assert [writer.returncode for writer in writers] == [0, 0]
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".tmp")] == []


def test_a_lock_held_by_another_process_leaves_the_file_and_keeps_the_token_in_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_store, "LOCK_WAIT", 0.2)
    client = open_client(tmp_path)
    client.save_token("old")
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        client.save_token("new-token")
        assert holder.stdin is not None
        holder.stdin.close()
    assert client.token_file.read_text() == "old"
    assert client.load_token() == "new-token"
    assert "memory only" in caplog.text
    assert "new-token" not in caplog.text


def test_a_directory_that_is_a_file_keeps_the_token_in_memory(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("in the way")
    client = open_client(tmp_path / "tokens")
    client.save_token("token")
    assert client.load_token() == "token"
    assert (tmp_path / "tokens").read_text() == "in the way"


def test_a_used_recovery_secret_is_discarded_but_never_its_successor(tmp_path: Path) -> None:
    store = token_store.TokenStore(tmp_path)
    store.save_recovery("first")
    assert mode_of(store.recovery_file) == 0o600
    store.discard_recovery("another")
    assert store.load_recovery() == "first"
    store.discard_recovery("first")
    assert store.load_recovery() is None


def test_waiting_for_the_lock_ends_with_an_error_that_names_the_file(tmp_path: Path) -> None:
    store = token_store.TokenStore(tmp_path)
    with store.locked(1), pytest.raises(errors.TokenStoreError, match="store.lock"):
        token_store.TokenStore(tmp_path).locked(0.05).__enter__()


def test_no_secret_shows_in_the_representation_of_a_client(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    client = open_client(tmp_path)
    client.save_token("secret-token")
    assert "secret" not in repr(client)
    assert "secret" not in caplog.text
