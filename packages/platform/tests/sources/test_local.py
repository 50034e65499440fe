"""The platform's own plugins: read as they are, and nothing outside their folder."""

from __future__ import annotations

import os
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from molecule_platform.domain.errors import ApiError
from molecule_platform.ports.plugin_sources import StagedPlugin
from molecule_plugin import file_writer

if TYPE_CHECKING:
    from packages.platform.tests.sources.conftest import Shelf

Demo = Callable[..., dict[str, bytes]]
HELLO = "e869ce07cf8aad51109fad329f5f6a0c367d579b326f70442d260dadaa185641"


async def staged(shelf: Shelf, source: str) -> StagedPlugin:
    stock = shelf.stock
    return await stock.staged(await stock.resolve(stock.parse(source)))


async def refused(shelf: Shelf, source: str, code: str) -> ApiError:
    with pytest.raises(ApiError) as refusal:
        await staged(shelf, source)
    assert refusal.value.code == code, refusal.value.sentence
    assert shelf.leftovers() == []
    return refusal.value


async def test_a_bare_name_is_a_plugin_of_the_platform(shelf: Shelf, demo: Demo) -> None:
    shelf.put("demo", demo())
    one, other = await staged(shelf, "demo"), await staged(shelf, "local://demo")
    assert one == other
    assert (one.name, one.version, one.source, one.resolved) == (
        "demo",
        "1.0.0",
        "local://demo",
        "local://demo",
    )
    assert one.content_sha256 == HELLO


async def test_the_archive_is_the_same_bytes_each_time_and_holds_the_manifest_but_no_signature(
    shelf: Shelf, demo: Demo
) -> None:
    shelf.put("demo", demo(**{"plugin.sig": b"x", "setup.sh": b"echo", "sub/plugin.sig": b"y"}))
    first = await staged(shelf, "demo")
    before = first.archive.read_bytes()
    os.utime(shelf.folder / "demo" / "a.txt", (1, 1))
    second = await staged(shelf, "demo")
    assert second.archive != first.archive
    assert second.archive.read_bytes() == before
    assert second.signature == b"x"
    with tarfile.open(second.archive) as tar:
        assert tar.getnames() == ["a.txt", "plugin.yaml", "setup.sh", "sub/plugin.sig"]
        assert {(member.mtime, member.uid, member.gid) for member in tar} == {(0, 0, 0)}


async def test_what_has_not_changed_is_not_packed_again(shelf: Shelf, demo: Demo) -> None:
    shelf.put("demo", demo())
    first = await staged(shelf, "demo")
    made = first.archive.stat().st_ino
    assert (await staged(shelf, "demo")).archive.stat().st_ino == made
    (shelf.folder / "demo" / "a.txt").write_bytes(b"other\n")
    assert (await staged(shelf, "demo")).content_sha256 != first.content_sha256


async def test_a_damaged_copy_in_the_stock_is_made_anew(shelf: Shelf, demo: Demo) -> None:
    shelf.put("demo", demo())
    first = await staged(shelf, "demo")
    whole = first.archive.read_bytes()
    first.archive.write_bytes(whole[:10])
    assert (await staged(shelf, "demo")).archive.read_bytes() == whole


@pytest.mark.parametrize("where", ["link", "sub/link"])
@pytest.mark.parametrize("target", ["a.txt", "/etc/passwd", "..", "nowhere"])
async def test_a_link_is_refused_by_its_path_and_never_followed(
    shelf: Shelf, demo: Demo, where: str, target: str
) -> None:
    place = shelf.put("demo", demo(**{"sub/b.txt": b"b"}))
    (place / where).symlink_to(target)
    refusal = await refused(shelf, "demo", "unsafe-archive")
    assert where in refusal.sentence
    assert target not in refusal.sentence or target == "a.txt" or target == ".."


async def test_a_pipe_is_refused_without_waiting_for_it(shelf: Shelf, demo: Demo) -> None:
    os.mkfifo(shelf.put("demo", demo()) / "pipe")
    await refused(shelf, "demo", "unsafe-archive")


async def test_a_plugin_folder_that_is_a_link_is_not_there(shelf: Shelf, demo: Demo, tmp_path: Path) -> None:
    shelf.put("other", demo())
    (shelf.folder / "demo").symlink_to(tmp_path / "plugins" / "other")
    await refused(shelf, "demo", "not-found")
    assert [one.name for one in await shelf.stock.catalogue()] == []


@pytest.mark.parametrize("name", ["../x", "a/b", ".hidden", "A", "", "x" * 129])
async def test_a_name_outside_the_rule_touches_nothing(shelf: Shelf, name: str) -> None:
    refusal = await refused(shelf, f"local://{name}", "invalid-request")
    assert refusal.extras["field"] == "name"


async def test_an_unknown_scheme_says_which_there_are(shelf: Shelf) -> None:
    refusal = await refused(shelf, "ftp://x", "invalid-request")
    assert refusal.extras["available_schemes"] == ["github", "local"]
    assert refusal.extras["field"] == "source"


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ({"big.bin": b"\0" * 100_001}, "payload-too-large"),
        ({f"{n}.bin": os.urandom(90_000) for n in range(3)}, "payload-too-large"),
        ({f"{n}.txt": b"x" for n in range(60)}, "unsafe-archive"),
        ({"plugin.yaml": b"name: [\n"}, "plugin-manifest-invalid"),
        ({"plugin.yaml": b"version: 1\n"}, "plugin-manifest-invalid"),
        ({"plugin.yaml": b"name: demo\nsha256: '" + b"0" * 64 + b"'\n"}, "plugin-integrity"),
        ({"manifest.json": b'{"sha256": 5}'}, "plugin-integrity"),
    ],
)
async def test_a_plugin_that_breaks_a_rule_is_refused_and_leaves_nothing(
    shelf: Shelf, demo: Demo, files: dict[str, bytes], code: str
) -> None:
    shelf.put("demo", demo() | files)
    await refused(shelf, "demo", code)


async def test_a_digest_of_older_days_that_does_not_match_is_named(shelf: Shelf, demo: Demo) -> None:
    shelf.put("demo", demo() | {"manifest.json": b'{"sha256": "' + b"0" * 64 + b'"}'})
    refusal = await refused(shelf, "demo", "plugin-integrity")
    assert refusal.extras["declared"] == "0" * 64
    assert len(str(refusal.extras["computed"])) == 64


async def test_a_plugin_without_a_manifest_is_named_by_its_folder_with_a_warning(shelf: Shelf) -> None:
    shelf.put("bare", {"a.txt": b"hello\n"})
    found = await staged(shelf, "bare")
    assert (found.name, found.version, len(found.warnings)) == ("bare", "0.0.0", 1)


async def test_the_catalogue_lists_what_can_be_read_and_is_called_like_its_folder(
    shelf: Shelf, demo: Demo
) -> None:
    shelf.put("zeta", demo("zeta"))
    shelf.put("alpha", demo("alpha", **{"skills/s/SKILL.md": b"# s\n"}))
    shelf.put("wrong", demo("another"))
    shelf.put("broken", {"plugin.yaml": b"["})
    shelf.put(".hidden", demo())
    (shelf.folder / "a-file").write_bytes(b"")
    found = await shelf.stock.catalogue()
    assert [(one.name, one.about["skills"]) for one in found] == [("alpha", ["s"]), ("zeta", [])]


async def test_without_a_folder_there_are_no_plugins(shelf: Shelf) -> None:
    assert await shelf.stock.catalogue() == []
    await refused(shelf, "demo", "not-found")


@pytest.mark.parametrize(
    ("form", "which"),
    [("content_sha256", "content"), ("archive_sha256", "archive"), ("manifest_sha256", "legacy-manifest")],
)
async def test_each_digest_of_a_plugin_is_known_as_what_it_is(
    shelf: Shelf, demo: Demo, form: str, which: str
) -> None:
    shelf.put("demo", demo())
    found = await staged(shelf, "demo")
    assert await shelf.stock.matched(found, getattr(found, form)) == which
    assert await shelf.stock.matched(found, "0" * 64) is None
    with pytest.raises(ApiError):
        await shelf.stock.matched(found, "no digest")


async def test_what_a_killed_process_left_is_swept_in_the_end(shelf: Shelf, demo: Demo) -> None:
    shelf.kept.mkdir()
    for name, age in (("staging-old", 3 * 3600), ("staging-new", 60)):
        (shelf.kept / name).mkdir()
        os.utime(shelf.kept / name, (time.time() - age, time.time() - age))
    shelf.put("demo", demo())
    await staged(shelf, "demo")
    assert shelf.leftovers() == ["staging-new"]


@pytest.mark.parametrize("facts", ["{}", "[]", "not json", '{"warnings": [], "more": 1}'])
async def test_facts_that_another_version_wrote_are_written_anew(
    shelf: Shelf, demo: Demo, facts: str
) -> None:
    shelf.put("demo", demo())
    first = await staged(shelf, "demo")
    (first.archive.parent / "facts.json").write_text(facts)
    assert await staged(shelf, "demo") == first


async def test_a_plugin_that_cannot_be_read_is_named_and_does_not_hide_the_others(
    shelf: Shelf, demo: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf.put("good", demo("good"))
    shelf.put("locked", demo("locked"))
    copy = file_writer.copy_tree

    def refusing(source: Path, target: Path) -> None:
        if source.name == "locked":
            raise PermissionError(13, "Permission denied", str(source))
        copy(source, target)

    monkeypatch.setattr(file_writer, "copy_tree", refusing)
    refusal = await refused(shelf, "locked", "fetch-failed")
    assert refusal.sentence == "local://locked could not be read: Permission denied"
    assert [one.name for one in await shelf.stock.catalogue()] == ["good"]


async def test_what_another_fetch_takes_away_meanwhile_does_not_hinder_ours(
    shelf: Shelf, demo: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the listing of the stock and a look at each entry, other fetches end and are moved."""
    shelf.kept.mkdir()
    (shelf.kept / "staging-moved").symlink_to("gone")
    shelf.put("demo", demo())
    assert (await staged(shelf, "demo")).name == "demo"
