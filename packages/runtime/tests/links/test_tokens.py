"""The token: file over environment, private and atomic, one cache for the process."""

import stat
from pathlib import Path

import pytest

from molecule_runtime.links import private_files, tokens
from molecule_wire import file_locks


def test_the_file_comes_before_the_environment(configs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOLECULE_WORKSPACE_TOKEN", " from-the-environment ")
    assert tokens.get_token() == "from-the-environment"
    (configs / ".auth_token").write_text("from-the-file\n")
    assert tokens.get_token() == "from-the-environment", "the process keeps what it knows"
    assert tokens.refresh_cache() == "from-the-file"
    assert tokens.auth_headers() == {"Authorization": "Bearer from-the-file"}
    assert tokens.self_source_headers("w") == {"Authorization": "Bearer from-the-file", "X-Workspace-ID": "w"}


def test_without_a_token_there_is_no_header() -> None:
    assert tokens.get_token() is None
    assert tokens.auth_headers() == {}
    assert tokens.self_source_headers("w") == {"X-Workspace-ID": "w"}


def test_a_saved_token_is_private_and_in_use_at_once(configs: Path) -> None:
    tokens.save_token("  secret \n")
    path = configs / ".auth_token"
    assert path.read_text() == "secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert tokens.get_token() == "secret"
    assert sorted(one.name for one in configs.iterdir()) == [".auth_token", private_files.LOCK_NAME]


def test_saving_the_same_again_writes_nothing(configs: Path) -> None:
    tokens.save_token("secret")
    before = (configs / ".auth_token").stat().st_ino
    tokens.save_token("secret")
    assert (configs / ".auth_token").stat().st_ino == before


@pytest.mark.parametrize("empty", ["", " \n"])
def test_an_empty_token_is_not_saved(configs: Path, empty: str) -> None:
    with pytest.raises(ValueError, match="empty"):
        tokens.save_token(empty)
    assert not (configs / ".auth_token").exists()


def test_a_token_that_cannot_be_written_is_used_by_this_process(
    configs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (configs / "file").touch()
    monkeypatch.setenv("CONFIGS_DIR", str(configs / "file"))
    with pytest.raises(OSError, match="file"):
        tokens.save_token("secret")
    assert tokens.get_token() == "secret"


def test_only_another_token_replaces_a_refused_one(configs: Path) -> None:
    tokens.save_token("old")
    assert tokens.replacement_for("old") is None
    (configs / ".auth_token").write_text("new")
    assert tokens.replacement_for("old") == "new"
    assert tokens.get_token() == "new"


def test_the_directory_has_older_names(configs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONFIGS_DIR")
    assert tokens.configs_dir() == Path("/configs")
    monkeypatch.setenv("WORKSPACE_CONFIG_PATH", "/third")
    assert tokens.configs_dir() == Path("/third")
    monkeypatch.setenv("MOLECULE_CONFIGS_DIR", "/second")
    assert tokens.configs_dir() == Path("/second")
    monkeypatch.setenv("CONFIGS_DIR", str(configs))
    assert tokens.configs_dir() == configs


def test_a_lock_that_somebody_holds_is_not_waited_for_long(
    configs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_files, "LOCK_WAIT_SECONDS", 0.05)
    with (configs / private_files.LOCK_NAME).open("w") as other:
        assert file_locks.try_lock(other.fileno())
        with pytest.raises(TimeoutError):
            private_files.write(configs / "note", "text")
    private_files.write(configs / "note", "text")
    assert private_files.read(configs / "note") == "text"


def test_a_write_that_fails_leaves_the_old_file(configs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_handle: int) -> None:
        raise OSError("no space left")

    tokens.save_token("old")
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="no space"):
        tokens.save_token("new")
    assert (configs / ".auth_token").read_text() == "old"
    assert sorted(one.name for one in configs.iterdir()) == [".auth_token", private_files.LOCK_NAME]
