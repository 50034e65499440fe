"""A lock knows a plugin by its files and its manifest, however the archive that brought it was packed."""

import gzip
import io
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_plugin.archive import safe_extract
from molecule_plugin.errors import LockMismatchError
from molecule_plugin.lock import LockEntry, check, describe

MANIFEST = "plugin.yaml"
PATHS = ("a.txt", "b/a.txt", "setup.sh", "skills/s/SKILL.md", "sub/plugin.yaml", "é.md", ".hidden", "b/x.bin")
CONTENTS = st.binary(max_size=40)
FILES = st.dictionaries(st.sampled_from(PATHS), CONTENTS, max_size=len(PATHS))
MANIFESTS = st.sampled_from((b"name: demo\n", b"name: demo\nversion: 2\n", b"name: demo\ntags: [x]\n"))


def _whole(files: dict[str, bytes], manifest: bytes) -> dict[str, bytes]:
    return {**files, MANIFEST: manifest}


PLUGINS = st.builds(_whole, FILES, MANIFESTS)


def pack(files: dict[str, bytes], data: st.DataObject) -> bytes:
    """An archive of these files. What a packer decides without changing the plugin is drawn."""
    form = data.draw(st.sampled_from((tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)))
    prefix = data.draw(st.sampled_from(("", "./")))
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=form, encoding="utf-8") as tar:
        if data.draw(st.booleans()):
            folder = tarfile.TarInfo("empty")
            folder.type = tarfile.DIRTYPE
            tar.addfile(folder)
        for path in data.draw(st.permutations(sorted(files))):
            member = tarfile.TarInfo(prefix + path)
            member.size = len(files[path])
            member.mtime = data.draw(st.integers(0, 2_000_000_000))
            member.uid = member.gid = data.draw(st.integers(0, 60_000))
            member.uname = data.draw(st.sampled_from(("", "root", "ann")))
            # No bit of a mode matters: scripts are run by bash, hooks get theirs from the installer.
            member.mode = data.draw(st.sampled_from((0o400, 0o600, 0o644, 0o755, 0o777, 0o4755)))
            tar.addfile(member, io.BytesIO(files[path]))
    return gzip.compress(raw.getvalue(), data.draw(st.integers(0, 9)), mtime=data.draw(st.integers(0, 10**9)))


def entry(archive: bytes) -> LockEntry:
    """The pin of what an archive brings."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "demo")
        tree.mkdir()
        safe_extract(io.BytesIO(archive), tree)
        source = "local://demo"
        return describe(tree, version="1", source=source, resolved=source, archive_sha256=archive[:8].hex())


@given(PLUGINS, st.data())
def test_packing_anew_never_changes_what_is_pinned(plugin: dict[str, bytes], data: st.DataObject) -> None:
    pinned, again = entry(pack(plugin, data)), entry(pack(plugin, data))
    assert check("demo", pinned, again)
    assert not check("demo", pinned, again, frozen=True)


@given(PLUGINS, PLUGINS, st.data())
def test_any_change_of_a_file_a_path_or_the_manifest_is_another_plugin(
    plugin: dict[str, bytes], other: dict[str, bytes], data: st.DataObject
) -> None:
    if data.draw(st.booleans()):
        path = data.draw(st.sampled_from(sorted(plugin)))
        other = change_of_one(plugin, path, data)
    pinned, found = entry(pack(plugin, data)), entry(pack(other, data))
    if plugin == other:
        assert check("demo", pinned, found)
        return
    for frozen in (False, True):
        with pytest.raises(LockMismatchError):
            check("demo", pinned, found, frozen=frozen)


def change_of_one(plugin: dict[str, bytes], path: str, data: st.DataObject) -> dict[str, bytes]:
    """The plugin with one file changed, gone or under another name."""
    others = {name: content for name, content in plugin.items() if name != path}
    kind = data.draw(st.sampled_from(("content", "gone", "renamed")))
    if kind == "content" or path == MANIFEST:
        return others | {path: data.draw(CONTENTS)}
    return others if kind == "gone" else others | {f"{path}.new": plugin[path]}
