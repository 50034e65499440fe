"""Private files are whole or not there, and nobody else reads them."""

import os
import stat
from pathlib import Path

import pytest

from molecule_runtime.kit.files import atomic_files


def test_a_file_is_written_for_its_owner_alone_even_if_it_was_open_before(tmp_path: Path) -> None:
    path = tmp_path / "new" / "token"
    atomic_files.write_private(path, b"one")
    path.chmod(0o644)
    atomic_files.write_private(path, b"two")
    assert path.read_bytes() == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert os.listdir(path.parent) == ["token"]


def test_it_is_private_from_its_creation_whatever_the_umask_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = list[int]()
    fsync = os.fsync

    def looking(descriptor: int) -> None:
        seen.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", looking)
    before = os.umask(0)
    try:
        atomic_files.write_private(tmp_path / "token", b"x")
    finally:
        os.umask(before)
    assert seen[0] == 0o600
    assert len(seen) == 2, "the file and then its folder are on the disk"


def test_a_failed_write_leaves_the_old_content_and_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "token"
    atomic_files.write_private(path, b"old")

    def full(_source: object, _target: object) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="no space"):
        atomic_files.write_private(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["token"]


def test_a_link_is_replaced_and_its_target_is_left_alone(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"kept")
    link.symlink_to(target)
    atomic_files.write_private(link, b"new")
    assert target.read_bytes() == b"kept"
    assert not link.is_symlink()


def test_a_file_is_read_up_to_its_limit_and_not_beyond(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert atomic_files.read_limited(path, 5) == b"12345"
    with pytest.raises(atomic_files.FileTooLarge):
        atomic_files.read_limited(path, 4)


def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(OSError):
            atomic_files.read_limited(tmp_path / name, 10)


def test_a_file_that_grows_in_size_zero_folders_is_limited_too() -> None:
    with pytest.raises(atomic_files.FileTooLarge):
        atomic_files.read_limited("/proc/self/maps", 10)
