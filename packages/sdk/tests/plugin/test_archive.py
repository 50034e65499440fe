"""Unpacking archives that are as they should be, and the rules for what is left out or made plain."""

import io
import logging
import os
import stat
import tarfile
import time
from pathlib import Path

import pytest

from molecule_plugin import file_tree
from molecule_plugin.archive import _safe_extract_tar, safe_extract
from molecule_plugin.errors import PluginTooLargeError, UnsafeArchiveError
from molecule_plugin.limits import Limits


def member(
    name: str, kind: bytes = tarfile.REGTYPE, *, target: str = "", mode: int = 0o644
) -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.type, found.linkname, found.mode = kind, target, mode
    return found


def archive(*members: tarfile.TarInfo, content: bytes = b"x") -> io.BytesIO:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for found in members:
            if found.type == tarfile.REGTYPE:
                found.size = len(content)
            tar.addfile(found, io.BytesIO(content))
    return packed


@pytest.fixture(params=["by handle", "by path"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Systems without handles of directories go by paths; the rules are the same."""
    if request.param == "by path":
        monkeypatch.setattr(file_tree, "_BY_HANDLE", False)


def paths_in(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*"))


def test_files_and_directories_arrive_where_they_should(tmp_path: Path) -> None:
    packed = archive(
        member("./plugin.yaml"), member("skills/s", tarfile.DIRTYPE), member("skills/s/SKILL.md")
    )
    safe_extract(packed, tmp_path / "plugin")
    assert paths_in(tmp_path / "plugin") == ["plugin.yaml", "skills", "skills/s", "skills/s/SKILL.md"]
    assert (tmp_path / "plugin" / "plugin.yaml").read_bytes() == b"x"


def test_an_archive_is_read_from_a_path_too_and_from_the_beginning_of_an_open_file(tmp_path: Path) -> None:
    packed = archive(member("a"))
    assert packed.tell() > 0
    safe_extract(packed, tmp_path / "one")
    (tmp_path / "a.tar.gz").write_bytes(packed.getvalue())
    safe_extract(tmp_path / "a.tar.gz", tmp_path / "two")
    assert paths_in(tmp_path / "one") == paths_in(tmp_path / "two") == ["a"]


def test_an_empty_archive_is_an_empty_plugin(tmp_path: Path) -> None:
    safe_extract(archive(), tmp_path / "plugin")
    safe_extract(archive(member(".", tarfile.DIRTYPE)), tmp_path / "plugin")
    assert paths_in(tmp_path / "plugin") == []


def test_dots_that_stay_inside_are_taken_out_whether_or_not_the_way_exists(tmp_path: Path) -> None:
    safe_extract(archive(member("a/../b"), member("c/./d//e")), tmp_path)
    assert paths_in(tmp_path) == ["b", "c", "c/d", "c/d/e"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
def test_links_are_left_out_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: bytes
) -> None:
    with caplog.at_level(logging.WARNING):
        safe_extract(archive(member("bad", kind, target="/etc/passwd"), member("good")), tmp_path)
    assert paths_in(tmp_path) == ["good"]
    assert caplog.messages == [
        "skipping symlink in plugin tarball (not supported for security): bad -> /etc/passwd"
    ]


def test_a_link_cannot_redirect_a_later_file_nor_forge_a_line_of_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "outside").mkdir()
    link = member("dir", tarfile.SYMTYPE, target="../outside\nWARNING all is well")
    safe_extract(archive(link, member("dir/file")), tmp_path / "plugin")
    assert paths_in(tmp_path / "outside") == []
    assert paths_in(tmp_path / "plugin") == ["dir", "dir/file"]
    assert "\n" not in caplog.messages[0]


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_modes_are_made_plain_and_the_umask_does_not_matter(tmp_path: Path) -> None:
    modes = {"plain": 0o644, "tool": 0o755, "setuid": 0o6777, "sticky": 0o1666, "none": 0o000}
    before = os.umask(0o077)
    try:
        safe_extract(archive(*(member(f"d/{name}", mode=mode) for name, mode in modes.items())), tmp_path)
    finally:
        os.umask(before)
    found = {name: stat.S_IMODE((tmp_path / "d" / name).stat().st_mode) for name in modes}
    assert found == {"plain": 0o644, "tool": 0o755, "setuid": 0o755, "sticky": 0o644, "none": 0o600}
    if file_tree._BY_HANDLE:
        assert stat.S_IMODE((tmp_path / "d").stat().st_mode) == 0o755


@pytest.mark.skipif(os.utime not in os.supports_fd, reason="times by handle")
@pytest.mark.parametrize("mtime", [10.0, -5.0, 1e12, float("inf"), float("nan")])
def test_a_time_in_the_future_becomes_now(tmp_path: Path, mtime: float) -> None:
    late = member("a")
    late.mtime = 0
    late.pax_headers = {"mtime": str(mtime)}
    before = time.time()
    safe_extract(archive(late), tmp_path)
    found = (tmp_path / "a").stat().st_mtime
    assert found == max(mtime, 0.0) if mtime < 1e9 else before - 1 <= found <= time.time()


def test_a_directory_may_be_named_after_what_is_in_it(tmp_path: Path) -> None:
    safe_extract(archive(member("a/b"), member("a", tarfile.DIRTYPE)), tmp_path)
    assert paths_in(tmp_path) == ["a", "a/b"]


def test_an_old_file_in_the_way_is_kept_and_what_was_written_is_taken_away(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("old")
    with pytest.raises(UnsafeArchiveError, match="already there"):
        safe_extract(archive(member("a/x"), member("b")), tmp_path)
    assert paths_in(tmp_path) == ["b"]
    assert (tmp_path / "b").read_text() == "old"


@pytest.mark.skipif(os.name != "posix", reason="links of POSIX")
@pytest.mark.parametrize("names", [("sub/file",), ("sub",)])
def test_a_link_in_the_target_is_not_followed(tmp_path: Path, names: tuple[str, ...]) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "plugin").mkdir()
    (tmp_path / "plugin" / "sub").symlink_to(tmp_path / "outside")
    with pytest.raises(UnsafeArchiveError):
        safe_extract(archive(*(member(name) for name in names)), tmp_path / "plugin")
    assert paths_in(tmp_path / "outside") == []


def test_the_function_of_the_first_generation_unpacks_an_open_archive(tmp_path: Path) -> None:
    packed = archive(member("a/../b"), member("skip", tarfile.SYMTYPE, target="b"))
    packed.seek(0)
    with tarfile.open(fileobj=packed, mode="r:gz") as tar:
        _safe_extract_tar(tar, tmp_path)
    assert paths_in(tmp_path) == ["b"]
    escaping = archive(member("ok"), member("../evil"))
    escaping.seek(0)
    with (
        tarfile.open(fileobj=escaping, mode="r:gz") as tar,
        pytest.raises(ValueError, match=r"refusing tar entry escaping dest: '\.\./evil' -> .*evil"),
    ):
        _safe_extract_tar(tar, tmp_path)
    assert paths_in(tmp_path) == ["b"]


@pytest.mark.parametrize("limits", [Limits(archive_bytes=50), Limits(file_bytes=99), Limits(tree_bytes=199)])
def test_an_archive_with_too_many_bytes_says_how_many_it_may_have(tmp_path: Path, limits: Limits) -> None:
    packed = archive(member("a"), member("b"), content=b"y" * 100)
    with pytest.raises(PluginTooLargeError) as caught:
        safe_extract(packed, tmp_path / "plugin", limits)
    assert caught.value.limit_bytes in (50, 99, 199)
    assert not (tmp_path / "plugin").exists()
