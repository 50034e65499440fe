"""Packing: the same files always become the same bytes, and what is packed can be unpacked."""

import hashlib
import io
import os
import re
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from molecule_plugin.archive import safe_extract
from molecule_plugin.archive_writer import pack_plugin, write_archive
from molecule_plugin.digest import compute_plugin_sha256
from molecule_plugin.errors import PluginTooLargeError, UnsafeArchiveError
from molecule_plugin.limits import Limits

FILES = {
    "plugin.yaml": b"name: demo\nversion: 1.0.0\n",
    "skills/s/SKILL.md": b"# s\n",
    "adapters/claude_code.py": b"",
    "\u00e9/\U0001f600.txt": b"x",
    "deep/" * 30 + "file": b"y",
    "n" * 200: b"z",
}


def written(root: Path, files: Mapping[str, bytes]) -> Path:
    for path, content in files.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    return root


def test_an_archive_has_sorted_plain_files_and_no_signature(tmp_path: Path) -> None:
    root = written(tmp_path / "demo", FILES | {"plugin.sig": b"{}", "sub/plugin.sig": b"{}"})
    (root / "assets").mkdir()
    pack_plugin(root, tmp_path / "demo.tar.gz")
    with tarfile.open(tmp_path / "demo.tar.gz", "r:gz") as tar:
        members = tar.getmembers()
    assert [member.name for member in members] == sorted([*FILES, "sub/plugin.sig"])
    assert {(m.type, m.mtime, m.uid, m.gid, m.uname, m.gname, m.mode) for m in members} == {
        (tarfile.REGTYPE, 0, 0, 0, "", "", 0o644)
    }


def test_what_is_said_of_an_archive_is_true(tmp_path: Path) -> None:
    root = written(tmp_path / "demo", FILES)
    packed = pack_plugin(str(root), str(tmp_path / "demo.tar.gz"))
    content = (tmp_path / "demo.tar.gz").read_bytes()
    assert packed.archive_sha256 == hashlib.sha256(content).hexdigest()
    assert packed.content_sha256 == compute_plugin_sha256(root)
    assert packed.size == len(content)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_the_same_files_become_the_same_bytes_whatever_their_times_modes_and_order(tmp_path: Path) -> None:
    one = written(tmp_path / "one", FILES)
    two = written(tmp_path / "two", dict(reversed(FILES.items())))
    for path in two.rglob("*"):
        os.utime(path, (1, 1))
        path.chmod(0o700 if path.is_dir() else 0o600)
    (two / "empty").mkdir()
    assert pack_plugin(one, tmp_path / "1.tar.gz") == pack_plugin(two, tmp_path / "2.tar.gz")


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_what_can_be_run_can_be_run_after_unpacking(tmp_path: Path) -> None:
    root = written(tmp_path / "demo", {"setup.sh": b"true\n", "plain": b""})
    (root / "setup.sh").chmod(0o700)
    pack_plugin(root, tmp_path / "demo.tar.gz")
    safe_extract(tmp_path / "demo.tar.gz", tmp_path / "back")
    assert [(tmp_path / "back" / name).stat().st_mode & 0o777 for name in ("setup.sh", "plain")] == [
        0o755,
        0o644,
    ]


@pytest.mark.parametrize("name", ["a\\b", "NUL", "a\nb"])
def test_what_could_not_be_unpacked_is_not_packed(tmp_path: Path, name: str) -> None:
    root = written(tmp_path / "demo", {name: b""})
    with pytest.raises(UnsafeArchiveError, match="refusing the name"):
        pack_plugin(root, tmp_path / "demo.tar.gz")
    assert [path.name for path in tmp_path.iterdir()] == ["demo"]


def test_a_link_is_not_packed_and_its_target_not_read(tmp_path: Path) -> None:
    root = written(tmp_path / "demo", FILES)
    (root / "environ").symlink_to("/proc/self/environ")
    with pytest.raises(UnsafeArchiveError, match="'environ' is a link"):
        pack_plugin(root, tmp_path / "demo.tar.gz")
    assert not (tmp_path / "demo.tar.gz").exists()


def test_files_that_shrink_like_a_bomb_are_not_packed(tmp_path: Path) -> None:
    root = written(tmp_path / "demo", {"zeros": bytes(3_000_000)})
    with pytest.raises(UnsafeArchiveError, match="less than 1/200"):
        pack_plugin(root, tmp_path / "demo.tar.gz")


@pytest.mark.parametrize(
    "limits", [Limits(archive_bytes=100), Limits(tree_bytes=100), Limits(file_bytes=100)]
)
def test_a_plugin_that_is_too_large_is_not_packed_and_an_old_archive_stays(
    tmp_path: Path, limits: Limits
) -> None:
    root = written(tmp_path / "demo", {"a": os.urandom(200)})
    (tmp_path / "demo.tar.gz").write_bytes(b"old")
    with pytest.raises(PluginTooLargeError):
        pack_plugin(root, tmp_path / "demo.tar.gz", limits)
    assert (tmp_path / "demo.tar.gz").read_bytes() == b"old"


def test_an_archive_is_not_written_into_the_plugin_it_packs(tmp_path: Path) -> None:
    written(tmp_path, FILES)
    with pytest.raises(ValueError, match="inside the plugin"):
        pack_plugin(tmp_path, tmp_path / "dist" / "demo.tar.gz")


# What Windows keeps for its devices is refused, which other tests show.
RESERVED = re.compile(r"(con|prn|aux|nul|conin.|conout.|com.|lpt.) *(\..*)?$", re.IGNORECASE)
NAMES = st.text(
    st.characters(exclude_categories=["Cc", "Cs"], exclude_characters='/\\:*?"<>|'), min_size=1, max_size=12
).filter(lambda name: name.strip(". ") == name and not RESERVED.match(name))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=st.dictionaries(NAMES, st.binary(max_size=600), max_size=5))
def test_packing_and_unpacking_gives_the_same_files(
    files: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.mktemp("any")
    root = written(place / "plugin", {f"{number}/{name}": files[name] for number, name in enumerate(files)})
    root.mkdir(exist_ok=True)
    archive = io.BytesIO()
    packed = write_archive(root, archive)
    safe_extract(archive, place / "back")
    assert packed.content_sha256 == compute_plugin_sha256(root) == compute_plugin_sha256(place / "back")
